"""Attribution of samples to the holders of the GPUs; pure."""

from __future__ import annotations

from collections.abc import Iterable

from springtide.scheduler import wire
from springtide.scheduler.store.usage.record import FINE, UsageKey, UsageRecord
from springtide.scheduler.telemetry.sample import GpuSample


def attributed(samples: Iterable[GpuSample], pool: wire.PoolView, at: int) -> list[UsageRecord]:
    """Return what was measured in the interval from ``at``, by GPU and holder.

    A GPU that is lost, or that the pool does not have, is left out. Of several samples of a GPU the first counts.
    """
    holders = {cell.uuid: cell.holder for node in pool.nodes for cell in node.gpus}
    found: dict[str, GpuSample] = {}
    for sample in samples:
        if sample.uuid in holders and not sample.lost:
            found.setdefault(sample.uuid, sample)
    return [_record(sample, _key(uuid, holders[uuid]), at) for uuid, sample in found.items()]


def _key(gpu: str, holder: wire.Holder | None) -> UsageKey:
    if holder is None:
        return UsageKey(gpu)
    server = holder.name if holder.kind == "workspace" else ""
    return UsageKey(gpu, holder.kind, holder.job, holder.user, server, holder.project)


def _record(sample: GpuSample, key: UsageKey, at: int) -> UsageRecord:
    return UsageRecord(
        step=FINE,
        at=at,
        **key._asdict(),
        simulated=sample.simulated,
        seconds=FINE,
        utilization=sample.utilization,
        memory_used=sample.memory_used,
        memory_peak=sample.memory_used,
        memory_total=sample.memory_total,
        power=sample.power,
        temperature=sample.temperature,
        processes=sample.processes,
        ecc_corrected=sample.ecc_corrected,
        ecc_uncorrected=sample.ecc_uncorrected,
        xid=sample.xid,
        nvlink_received=sample.nvlink_received,
        nvlink_sent=sample.nvlink_sent,
        pcie_received=sample.pcie_received,
        pcie_sent=sample.pcie_sent,
    )

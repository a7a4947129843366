"""Views of measured use; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from msgspec.structs import asdict

from springtide.scheduler import wire
from springtide.scheduler.model import Node
from springtide.scheduler.store.gpu_usage import UsageRecord, UsageSum
from springtide.scheduler.telemetry.sample import GpuSample


def mean_utilization(records: Sequence[UsageRecord]) -> float | None:
    """Return the mean utilization of several GPUs, None if none reports it."""
    known = [
        (record.reading.utilization, record.seconds)
        for record in records
        if record.reading.utilization is not None
    ]
    seconds = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / seconds if seconds else None


def _total(values: Iterable[int | None]) -> int | None:
    """Return the sum of what all GPUs report, None if one does not report it."""
    known = list(values)
    return None if not known or None in known else sum(filter(None, known))


def job_usage(records: Sequence[UsageRecord], at: float, unused: tuple[float, float] | None) -> wire.JobUsage:
    """Return the use of a job's GPUs in one interval.

    ``unused`` are the duration for which they have hardly been used, in seconds, and the mean utilization in it.
    """
    return wire.JobUsage(
        at=at,
        gpus=len(records),
        utilization=mean_utilization(records),
        memory_used=_total(record.reading.memory_used for record in records),
        memory_total=_total(record.reading.memory_total for record in records),
        simulated=any(record.simulated for record in records),
        unused_for=None if unused is None else unused[0],
        unused_share=None if unused is None else unused[1],
    )


def series(records: Sequence[UsageRecord], step: int) -> wire.UsageSeries:
    """Return the use of a job's GPUs over time; the records are in the order of time."""
    groups = [(at, list(group)) for at, group in groupby(records, lambda record: record.at)]
    return wire.UsageSeries(
        step=step,
        simulated=any(record.simulated for record in records),
        memory_total=_total(record.reading.memory_total for record in groups[-1][1]) if groups else None,
        points=[
            wire.UsagePoint(
                at=at,
                gpus=len(group),
                utilization=mean_utilization(group),
                memory_used=_total(record.reading.memory_used for record in group),
                power=_power(group),
            )
            for at, group in groups
        ],
    )


def _power(records: Sequence[UsageRecord]) -> float | None:
    known = [record.reading.power for record in records if record.reading.power is not None]
    return sum(known) if len(known) == len(records) else None


def share(found: UsageSum) -> wire.UsageShare:
    """Return the use of something over a span."""
    key = found.key
    return wire.UsageShare(
        gpu=key.gpu,
        job=key.job,
        user=key.user,
        server=key.server,
        project=key.project,
        held=found.held,
        used=found.used,
        utilization=found.used / found.measured if found.measured else None,
        memory_peak=found.memory_peak,
        simulated=found.simulated,
    )


def readings(
    samples: Sequence[GpuSample], pool: wire.PoolView, nodes: Sequence[Node], at: float | None, *, measured: bool
) -> wire.PoolUsage:
    """Return the latest samples with the GPUs' places, models and present holders."""
    models = {gpu.uuid: gpu.name for node in nodes for gpu in node.devices}
    places = {cell.uuid: (node, cell) for node in pool.nodes for cell in node.gpus}
    return wire.PoolUsage(
        measured=measured,
        at=at,
        gpus=[_reading(sample, *places[sample.uuid], models) for sample in samples if sample.uuid in places],
    )


def _reading(
    sample: GpuSample, node: wire.NodeView, cell: wire.GpuCell, models: Mapping[str, str]
) -> wire.GpuReading:
    holder = cell.holder
    return wire.GpuReading(
        uuid=sample.uuid,
        node=node.name,
        index=cell.index,
        environment=node.environment,
        model=models.get(sample.uuid, ""),
        simulated=sample.simulated,
        user="" if holder is None else holder.user,
        project="" if holder is None else holder.project,
        held=holder is not None and holder.kind != "foreign",
        **asdict(sample.reading),
    )

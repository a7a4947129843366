"""Prometheus metrics of single GPUs, under the names of NVIDIA's DCGM exporter where the meaning is the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric

from springtide.scheduler.wire import GpuReading, PoolUsage, PoolView

MIB: Final = 1 << 20
KB: Final = 1000
LABELS: Final = ("gpu", "UUID", "modelName", "Hostname", "environment", "user", "project", "simulated")

GAUGES: Final[dict[str, tuple[str, Callable[[GpuReading], float | None]]]] = {
    "DCGM_FI_DEV_GPU_UTIL": (
        "Part of the time in which the GPU computed (%)",
        lambda gpu: None if gpu.utilization is None else 100 * gpu.utilization,
    ),
    "DCGM_FI_DEV_FB_USED": (
        "Memory in use (MiB)",
        lambda gpu: None if gpu.memory_used is None else gpu.memory_used / MIB,
    ),
    "DCGM_FI_DEV_FB_FREE": (
        "Free memory (MiB)",
        lambda gpu: (
            None
            if gpu.memory_used is None or gpu.memory_total is None
            else (gpu.memory_total - gpu.memory_used) / MIB
        ),
    ),
    "DCGM_FI_DEV_POWER_USAGE": ("Power (W)", lambda gpu: gpu.power),
    "DCGM_FI_DEV_GPU_TEMP": ("Temperature (°C)", lambda gpu: gpu.temperature),
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": (
        "Corrected ECC errors since the driver was loaded",
        lambda gpu: gpu.ecc_corrected,
    ),
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": (
        "Uncorrected ECC errors since the driver was loaded",
        lambda gpu: gpu.ecc_uncorrected,
    ),
    "DCGM_FI_DEV_XID_ERRORS": ("Number of the newest Xid error, 0 before the first", lambda gpu: gpu.xid or 0),
    "DCGM_FI_DEV_PCIE_TX_THROUGHPUT": (
        "Sent through PCIe (kB/s)",
        lambda gpu: None if gpu.pcie_sent is None else gpu.pcie_sent / KB,
    ),
    "DCGM_FI_DEV_PCIE_RX_THROUGHPUT": (
        "Received through PCIe (kB/s)",
        lambda gpu: None if gpu.pcie_received is None else gpu.pcie_received / KB,
    ),
    "springtide_gpu_nvlink_sent_bytes_per_second": ("Sent through all NVLinks", lambda gpu: gpu.nvlink_sent),
    "springtide_gpu_nvlink_received_bytes_per_second": (
        "Received through all NVLinks",
        lambda gpu: gpu.nvlink_received,
    ),
    "springtide_gpu_processes": ("Processes that compute on the GPU", lambda gpu: gpu.processes),
}
"""Metrics of each GPU, with the reading that they show; a GPU that does not report it is left out."""


def gpu_metrics(usage: PoolUsage, pool: PoolView) -> Iterable[Metric]:
    """Yield the latest readings of all GPUs; nothing where GPUs are not measured."""
    if not usage.measured:
        return
    for name, (words, read) in GAUGES.items():
        gauge = GaugeMetricFamily(name, words, labels=LABELS)
        for gpu in usage.gpus:
            value = None if gpu.lost else read(gpu)
            if value is not None:
                gauge.add_metric(_labels(gpu), value)
        yield gauge
    lost = GaugeMetricFamily("springtide_gpu_lost", "1 if the driver cannot reach the GPU any more", labels=LABELS)
    for gpu in usage.gpus:
        lost.add_metric(_labels(gpu), float(gpu.lost))
    yield lost
    yield _used_by_project(usage, pool)


def _labels(gpu: GpuReading) -> list[str]:
    held = (gpu.user, gpu.project, str(gpu.simulated).lower())
    return [str(gpu.index), gpu.uuid, gpu.model, gpu.node, gpu.environment, *held]


def _used_by_project(usage: PoolUsage, pool: PoolView) -> Metric:
    gauge = GaugeMetricFamily(
        "springtide_project_used_gpus",
        "GPUs that it uses of those that it holds: their utilizations together, by project and type",
        labels=["project", "gpu_type"],
    )
    gpu_types = {node.name: node.gpu_type for node in pool.nodes}
    used: dict[tuple[str, str], float] = {}
    for gpu in usage.gpus:
        if gpu.held and gpu.project and not gpu.lost and gpu.utilization is not None:
            key = gpu.project, gpu_types[gpu.node]
            used[key] = used.get(key, 0.0) + gpu.utilization
    for key, value in sorted(used.items()):
        gauge.add_metric(key, value)
    return gauge

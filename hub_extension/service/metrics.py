"""Prometheus metrics of the pool and of single GPUs, from a registry of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final, Protocol

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from springtide.hub_extension.api.endpoint import RoutedHandler
from springtide.hub_extension.api.routes import Route, Who
from springtide.hub_extension.web.job_callers import given_token
from springtide.scheduler.engine import Engine
from springtide.scheduler.engine.job_times import cumulative
from springtide.scheduler.gpu_reading import METRICS, MIB
from springtide.scheduler.model import Closure, Environment
from springtide.scheduler.wire import FREE, GpuReading, PoolUsage, PoolView

LABELS: Final = ("gpu", "UUID", "modelName", "Hostname", "environment", "user", "project", "simulated")


CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS: Final = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
PROJECT_GAUGES: Final = {
    "quota": "Guaranteed GPUs",
    "limit": "The most GPUs it may hold",
    "fair_share": "GPUs it is entitled to now",
    "held": "GPUs it holds",
    "borrowed": "GPUs it holds beyond its quota",
    "waiting": "GPUs that its waiting jobs ask for",
}


def gpu_metrics(usage: PoolUsage, pool: PoolView) -> Iterable[Metric]:
    """Yield the latest readings of all GPUs; nothing if GPUs are not measured."""
    if not usage.measured:
        return
    reached = [gpu for gpu in usage.gpus if not gpu.lost]
    for name, metric in METRICS.items():
        if metric.gauge:
            gauge = GaugeMetricFamily(metric.gauge, metric.help, labels=LABELS)
            for gpu in reached:
                value = getattr(gpu, name)
                if value is not None:
                    gauge.add_metric(_labels(gpu), metric.scale * value)
                elif metric.absent is not None:
                    gauge.add_metric(_labels(gpu), metric.absent)
            yield gauge
    free = GaugeMetricFamily("DCGM_FI_DEV_FB_FREE", "Free memory (MiB)", labels=LABELS)
    for gpu in reached:
        if gpu.memory_used is not None and gpu.memory_total is not None:
            free.add_metric(_labels(gpu), (gpu.memory_total - gpu.memory_used) / MIB)
    yield free
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


class PoolCollector(Collector):
    """Collector that reads the pool and the engine's counters at each scrape."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def collect(self) -> Iterable[Metric]:
        """Yield the current metrics of the pool."""
        view = self._engine.pool()
        only_type = next(iter(view.gpu_types), "")
        for name, words in PROJECT_GAUGES.items():
            gauge = GaugeMetricFamily(
                f"springtide_project_{name}_gpus", f"{words}, by project and type", labels=["project", "gpu_type"]
            )
            for project in view.projects:
                by_type: Mapping[str, object] = project.by_type or {only_type: project}
                for gpu_type, numbers in by_type.items():
                    value = getattr(numbers, name)
                    gauge.add_metric([project.name, gpu_type], float("inf") if value is None else value)
            yield gauge
        jobs = GaugeMetricFamily("springtide_project_jobs", "Unfinished jobs", labels=["project", "state"])
        for project in view.projects:
            jobs.add_metric([project.name, "running"], project.running_jobs)
            jobs.add_metric([project.name, "waiting"], project.waiting_jobs)
        yield jobs
        gpus = GaugeMetricFamily(
            "springtide_gpus", "GPUs of the pool", labels=["environment", "state", "gpu_type"]
        )
        for environment, held_by_type in _held(view).items():
            for gpu_type, held in held_by_type.items():
                gpus.add_metric([environment, "held", gpu_type], held)
                only = gpu_type if len(held_by_type) > 1 else None
                for state, number in _free(view, environment, only).items():
                    gpus.add_metric([environment, state, gpu_type], number)
        yield gpus
        yield GaugeMetricFamily(
            "springtide_store_writable",
            "1 if the last write to the store succeeded, 0 if it failed",
            value=float(not self._engine.health.failing),
        )
        yield GaugeMetricFamily(
            "springtide_usage_recorded",
            "1 if the last readings of the GPUs were recorded, 0 if that failed",
            value=float(not self._engine.usage.unrecorded),
        )
        yield GaugeMetricFamily(
            "springtide_launch_stops",
            "Reasons outside of jobs because of which launching has stopped",
            value=len(view.launch_stops),
        )
        yield GaugeMetricFamily(
            "springtide_withheld_jobs",
            "Waiting jobs that are not started because launching has stopped",
            value=sum(stop.withheld for stop in view.launch_stops),
        )
        not_ready = GaugeMetricFamily(
            "springtide_nodes_not_ready", "Nodes that are not ready in their cluster", labels=["environment"]
        )
        for environment in Environment:
            here = (node for node in view.nodes if node.environment == environment)
            not_ready.add_metric([environment], sum(node.closure == Closure.NOT_READY for node in here))
        yield not_ready
        yield GaugeMetricFamily(
            "springtide_unmatched_gpus",
            "GPUs that jobs and notebooks without a place among the present GPUs keep out of the pool",
            value=len({gpu for each in view.unmatched for gpu in each.gpus}),
        )
        yield from gpu_metrics(self._engine.usage.pool(), view)
        yield from self._counters()
        yield from self._times()

    def _times(self) -> Iterable[Metric]:
        """Yield the distributions of waits, runs and lost work by project."""
        times = self._engine.job_times
        for name, words, by_project in (
            ("springtide_job_wait_seconds", "From the submission of jobs to their first start", times.waits),
            ("springtide_attempt_run_seconds", "Run times of attempts that ended", times.runs),
            (
                "springtide_pause_lost_gpu_seconds",
                "GPU-seconds of paused attempts after their last known checkpoint",
                times.lost,
            ),
        ):
            family = HistogramMetricFamily(name, f"{words}, since the start", labels=["project"])
            for project, found in sorted(by_project.items()):
                family.add_metric([project], cumulative(found.counts), found.total)
            yield family

    def _counters(self) -> Iterable[Metric]:
        stats = self._engine.stats
        for name, value in _fields(stats):
            if isinstance(value, dict):
                family = CounterMetricFamily(
                    f"springtide_{name}", f"{name} since the start, by kind", labels=["kind"]
                )
                for kind, count in value.items():
                    family.add_metric([kind], count)
                yield family
            elif name == "subscribers":
                yield GaugeMetricFamily("springtide_subscribers", "Open event streams", value=value)
            else:
                yield CounterMetricFamily(
                    f"springtide_{name}", f"{name} since the start".replace("_", " "), value=value
                )


def _held(view: PoolView) -> dict[str, dict[str, int]]:
    """Return the number of held GPUs by environment and type."""
    build_type = next((node.gpu_type for node in view.nodes if node.environment == "build" and node.gpus), "")
    train = {each: use.train_held for each, use in view.by_type.items()}
    build = {each: use.build_held for each, use in view.build_by_type.items()}
    return {
        "train": train or {next(iter(view.gpu_types), ""): view.train_held},
        "build": build or {build_type: view.build_held},
    }


def _free(view: PoolView, environment: str, gpu_type: str | None) -> dict[str, int]:
    """Return the number of free GPUs of an environment and type, by condition; None is any type."""
    of = [node for node in view.nodes if node.environment == environment and gpu_type in (None, node.gpu_type)]
    return {what: sum(node.free.get(what, 0) for node in of) for what in FREE}


def _fields(stats: Any) -> Iterable[tuple[str, Any]]:
    return ((name, getattr(stats, name)) for name in stats.__dataclass_fields__)


class Metrics:
    """All metrics of the service."""

    def __init__(self, engine: Engine) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(PoolCollector(engine))
        self._calls = Histogram(
            "springtide_call_seconds",
            "From a call's headers to its answer, of calls that change something",
            labelnames=["call"],
            buckets=BUCKETS,
            registry=self._registry,
        )

    def answered(self, route: Route, seconds: float) -> None:
        """Record the duration of a successful call, in seconds.

        Calls with GET are not counted, because they may wait on purpose.
        """
        if route.method != "GET":
            self._calls.labels(f"{route.method} {route.path}").observe(seconds)

    def text(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        return generate_latest(self._registry)


class Scrapers(Protocol):
    """Readers of the metrics that the hub does not know."""

    async def admits(self, token: str) -> bool:
        """Return whether it is the token of such a reader. Raises `Refusal` for one that may not read them."""


class MetricsHandler(RoutedHandler):
    """Handler of the metrics."""

    ROUTE: ClassVar = Route(
        method="GET",
        path="/metrics",
        who=Who.LOGGED_IN_OR_OWN,
        summary="Return the Prometheus metrics of the pool",
        media="text/plain",
    )

    def initialize(self, *, text: Callable[[], bytes], scrapers: Scrapers | None = None, **settings: Any) -> None:
        """Store the function that returns the metrics; ``scrapers`` are readers that the hub does not know."""
        super().initialize(**settings)
        self._text = text
        self._scrapers = scrapers

    async def prepare(self) -> None:
        """Check the method and the caller."""
        route = self.route
        if self._scrapers is None or not await self._scrapers.admits(given_token(self)):
            await self.admit(route)

    def get(self) -> None:
        """Send the metrics."""
        self.set_header("Content-Type", CONTENT_TYPE)
        self.finish(self._text())

"""An engine on a cluster whose only nodes are those that a test adds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benches.kube_bench import KubeBench
from clusters.cluster import Cluster
from patience import PATIENCE_S

from springtide.scheduler import model, wire
from springtide.scheduler.engine import Engine, EngineSettings, open_engine
from springtide.scheduler.store import Store


class ClusterPool:
    """A pool of one project; ``options`` are those of `KubernetesSettings`."""

    def __init__(self, cluster: Cluster, namespace: str, path: Path, **options: Any) -> None:
        self.bench = KubeBench(cluster, namespace, path / "state", **options)
        self._store_path = path / "store"
        self._store_path.mkdir(exist_ok=True)
        self.engine: Engine
        self._store: Store

    async def start(self, **project: Any) -> None:
        self.bench.executor = self.bench.make()
        self.bench.state.mkdir(exist_ok=True)
        self._store = Store.open(f"sqlite:///{self._store_path}/springtide.sqlite", self._store_path)
        settings = EngineSettings(policy=model.Settings(grace=2.0))
        projects = {"vision": {"quota": 8, **project}}
        self.engine = await open_engine(self._store, self.bench.executor, settings, projects=projects)

    async def stop(self) -> None:
        await self.engine.stop()
        self._store.close()

    async def submit(self, **fields: Any) -> str:
        job = await self.engine.submit(wire.Submission(argv=["train"], **fields), "susan", "vision")
        return job.id

    async def state(self, job: str, state: str) -> wire.Job:
        async with asyncio.timeout(PATIENCE_S):
            while (view := await self.engine.job(job)).state != state:
                await asyncio.sleep(0.05)
        return view

    async def reason(self, job: str, holds: Callable[[str], bool]) -> str:
        """Wait until the sentence of why the job waits is as expected; return it."""
        async with asyncio.timeout(PATIENCE_S):
            while (view := await self.engine.job(job)).reason is None or not holds(view.reason.text):
                await asyncio.sleep(0.05)
        return view.reason.text

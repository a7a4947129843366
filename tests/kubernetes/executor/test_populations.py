"""A population in pods: the trials of a generation begin with copies of checkpoints on the volume of jobs."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from clusters.cluster import Cluster
from clusters.cluster_pool import ClusterPool
from patience import PATIENCE_S

from springtide.scheduler import wire
from springtide.scheduler.population import Population
from springtide.scheduler.refusal import Refusal

SHAPE = Population(members=2, generations=2, every=5.0, space={"rate": (0.1, 0.2)}, seed=1)
RUN = ["python3", "-m", "springtide.training.run", "function", "{code}/payload.pkl"]


@pytest.fixture
async def pool(cluster: Cluster, namespace: str, tmp_path: Path) -> AsyncIterator[ClusterPool]:
    pool = ClusterPool(cluster, namespace, tmp_path)
    pool.bench.add_nodes(1)
    await pool.start()
    yield pool
    await pool.stop()
    await pool.bench.api.close()


def train_to(job: Path, step: int, loss: float) -> None:
    """Leave what a trial leaves that came to the end of its generation."""
    place = job / f"checkpoints/{step:08d}"
    place.mkdir()
    (place / "state.bin").write_text(f"state of {job.name}")
    (place / "manifest.json").write_text(json.dumps({"step": step, "at": 5.0, "files": {}}))
    owner = (job / "checkpoints").stat()
    for path in (place, *place.iterdir()):
        os.chown(path, owner.st_uid, owner.st_gid)  # pods run as the owner
    trial = {"parameters": None, "value": loss, "curve": [], "pruned": False, "memo": ""}
    with (job / "reports.jsonl").open("a") as reports:
        for line in ({"step": step, "values": {"loss": loss}}, {"step": step, "saved": True}, {"trial": trial}):
            reports.write(json.dumps({"at": 5.0, "attempt": 1, **line}) + "\n")


async def begins(pool: ClusterPool, job: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with suppress(Refusal):
                await pool.engine.job(job)
                return
            await asyncio.sleep(0.05)


async def test_a_generation_in_pods_begins_with_the_checkpoints_of_the_one_before(pool: ClusterPool) -> None:
    trials = wire.Trials(number=4, metric="loss", population=SHAPE)
    sent = wire.Submission(argv=RUN, kind="function", files={"payload.pkl": b"x"}, trials=trials, gpus=1)
    sweep = (await pool.engine.submit(sent, "susan", "vision")).id
    layout = pool.bench.executor._layout
    for generation in (1, 2):
        names = [f"{sweep}t{2 * (generation - 1) + member}" for member in range(2)]
        for member, name in enumerate(names):
            await begins(pool, name)
            await pool.state(name, "running")
            launched = "".join(path.read_text() for path in (layout.job(name).root / "attempts").rglob("*.json"))
            assert f'"SPRINGTIDE_UNTIL_STEP":"{5.0 * generation}"' in launched.replace('": "', '":"')
            assert "rate=0." in launched
            train_to(layout.job(name).root, 5 * generation, 1.0 + member)
            pool.bench.end_pod(0, name)
    ended = await pool.state(sweep, "succeeded")
    assert ended.trials is not None
    assert ended.trials.best is not None
    assert (ended.trials.best.trial, ended.trials.best.value) == (0, 1.0)
    for trial in (2, 3):  # member 1 was the worse one and is a copy of member 0
        copy = layout.job(f"{sweep}t{trial}").root / "checkpoints/00000005/state.bin"
        assert copy.read_text() == f"state of {sweep}t0"

"""Reports reach the real MLflow and the real TensorBoard, over restarts of the service and of MLflow."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pinned_environments import TRACKING
from pools.tracked_pool import TrackedPool
from servers.mlflow_server import MlflowServer

from springtide.hub_extension.tracking.tracker import MlflowSettings, TensorboardSettings, TrackingSettings

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("tracking"), pytest.mark.timeout(600)]

PATIENCE_S = 240.0
# Prints what TensorBoard reads from a log directory: of each run its values by name, as pairs of step and value.
READS = """
import json, sys
from pathlib import Path
from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer
runs = EventMultiplexer().AddRunsFromDirectory(sys.argv[1])
runs.Reload()
print(json.dumps({
    run: {tag: [[e.step, e.value] for e in runs.Scalars(run, tag)] for tag in tags["scalars"]}
    for run, tags in runs.Runs().items()
}))
"""


@pytest.fixture
async def mlflow(tmp_path: Path) -> AsyncIterator[MlflowServer]:
    server = MlflowServer(tmp_path)
    await server.start()
    yield server
    server.stop()


async def test_a_job_is_one_run_in_mlflow_and_tensorboard_over_restarts_of_both_sides(
    mlflow: MlflowServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "springtide")
    logs = tmp_path / "tensorboard"
    logs.mkdir()
    (tmp_path / "pool").mkdir()
    settings = TrackingSettings(MlflowSettings(mlflow.url), TensorboardSettings(str(logs)))
    pool = TrackedPool(tmp_path / "pool", settings)
    await pool.start()
    job = await pool.submit("bert <b>", upto=3, last=12)
    await pool.until(job.id, lambda job: job.progress.step == 3)

    await pool.stop()
    pool.let("bert <b>", 6)
    await pool.start()
    await pool.until(job.id, lambda job: job.progress.step == 6)
    async with asyncio.timeout(PATIENCE_S):
        while not (runs := mlflow.runs("vision")) or len(mlflow.values(runs[0], "loss")) < 6:
            await asyncio.sleep(0.1)
    assert runs[0]["info"]["status"] == "RUNNING"

    mlflow.stop()
    await pool.engine.pause(job.id, "susan")
    await pool.until(job.id, lambda job: job.state == "paused")
    await pool.engine.resume(job.id, "susan")
    pool.let("bert <b>", 12)
    ended = await pool.until(job.id, lambda job: job.state == "succeeded")
    assert ended.attempt == 2
    await pool.stop()
    await pool.start()
    await mlflow.start()
    async with asyncio.timeout(PATIENCE_S):
        while (runs := mlflow.runs("vision"))[0]["info"]["status"] != "FINISHED":
            await asyncio.sleep(0.1)

    (run,) = runs
    assert (run["info"]["run_name"], run["info"]["end_time"]) == ("bert <b>", round(1000 * (ended.ended or 0)))
    tags = {each["key"]: each["value"] for each in run["data"]["tags"]}
    wanted = {
        "springtide.job": job.id,
        "mlflow.user": "susan",
        "springtide.gpus": "1",
        "springtide.tags": "baseline",
    }
    assert wanted.items() <= tags.items()
    loss = [(step, 1 / step) for step in range(1, 13)]
    assert mlflow.values(run, "loss") == loss
    assert mlflow.values(run, "val/acc _1") == [(step, step) for step in range(1, 13)]
    address = await pool.trackers[0].address(ended)
    assert address == f"{mlflow.url}/#/experiments/{run['info']['experiment_id']}/runs/{run['info']['run_id']}"
    await pool.stop()

    done = subprocess.run([TRACKING.interpreter(), "-c", READS, logs], capture_output=True, text=True, check=True)
    ((name, scalars),) = json.loads(done.stdout).items()
    assert name == f"vision/bert_b_-{job.id}"
    assert scalars["loss"] == [[step, pytest.approx(value)] for step, value in loss]
    assert [step for step, _ in scalars["val/acc _1"]] == list(range(1, 13))

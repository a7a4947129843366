"""Reports are forwarded to MLflow and TensorBoard; tests/frameworks/test_tracking.py asks the real ones."""

from __future__ import annotations

import asyncio
import json
import logging
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE_S
from pools.tracked_pool import TrackedPool
from tensorboardX.proto.event_pb2 import Event
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from springtide.hub_extension.service.service import Springtide
from springtide.hub_extension.tracking.tracker import (
    MlflowSettings,
    TensorboardSettings,
    TrackingSettings,
)
from springtide.hub_extension.tracking.trackers import open_trackers
from springtide.scheduler.settings import SettingError, read
from springtide.scheduler.tracking_names import metric_name

pytestmark = pytest.mark.http


class Mlflow:
    """What an MLflow server keeps of one project, in memory; ``status`` other than 200 is how it fails."""

    def __init__(self) -> None:
        self.status = 200
        self.asked: list[str] = []
        self.authorization: set[str | None] = set()
        self.project: str | None = None
        self.runs: list[dict[str, Any]] = []
        self.metrics: list[dict[str, Any]] = []
        self.url = ""

    def answer(self, path: str, given: dict[str, Any]) -> dict[str, Any] | None:
        """Return the answer to a request; None for what does not exist."""
        if path == "experiments/get-by-name":
            return None if self.project != given["experiment_name"] else {"experiment": {"experiment_id": "7"}}
        if path == "experiments/create":
            self.project = given["name"]
            return {"experiment_id": "7"}
        if path == "runs/search":
            wanted = given["filter"].rpartition("= ")[2].strip("'")
            return {"runs": [run for run in self.runs if self.tags(run)["springtide.job"] == wanted]}
        if path == "runs/create":
            info = {"run_id": f"run{len(self.runs)}", "run_name": given["run_name"], "status": "RUNNING"}
            self.runs.append({"info": info, "data": {"tags": given["tags"]}})
            return {"run": self.runs[-1]}
        (run,) = [run for run in self.runs if run["info"]["run_id"] == given["run_id"]]
        if path == "runs/update":
            run["info"] |= given
        else:
            if len(given.get("metrics", [])) > 1000:  # as MLflow refuses them
                return None
            self.metrics += given.get("metrics", [])
            run["data"]["tags"] += given.get("tags", [])
        return {}

    def tags(self, run: dict[str, Any]) -> dict[str, str]:
        return {tag["key"]: tag["value"] for tag in run["data"]["tags"]}

    def steps(self, name: str = "loss") -> list[int]:
        return [each["step"] for each in self.metrics if each["key"] == name]

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        server = self

        class Handler(RequestHandler):
            def get(self, path: str) -> None:
                self.reply(path, {name: self.get_query_argument(name) for name in self.request.query_arguments})

            def post(self, path: str) -> None:
                self.reply(path, json.loads(self.request.body))

            def reply(self, path: str, given: dict[str, Any]) -> None:
                server.asked.append(path)
                server.authorization.add(self.request.headers.get("Authorization"))
                found = server.answer(path, given) if server.status == 200 else {}
                self.set_status(server.status if found is not None else 404)
                self.finish(found if found is not None else {"error_code": "RESOURCE_DOES_NOT_EXIST"})

        sockets = bind_sockets(0, "127.0.0.1")
        self.url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
        http = HTTPServer(Application([("/api/2.0/mlflow/(.+)", Handler)]))
        http.add_sockets(sockets)
        yield
        http.stop()
        await http.close_all_connections()


@pytest.fixture
async def mlflow() -> AsyncIterator[Mlflow]:
    mlflow = Mlflow()
    async with mlflow.serving():
        yield mlflow


@pytest.fixture
async def pool(mlflow: Mlflow, tmp_path: Path) -> AsyncIterator[TrackedPool]:
    logs, state = tmp_path / "logs", tmp_path / "pool"
    logs.mkdir()
    state.mkdir()
    credentials = tmp_path / "credentials"
    credentials.write_text("a:b\n")
    board = TensorboardSettings(str(logs), "https://board.example.org")
    pool = TrackedPool(
        state, TrackingSettings(MlflowSettings(mlflow.url, "https://mlflow.example.org", str(credentials)), board)
    )
    await pool.start()
    yield pool
    await pool.stop()


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.02)


def events(file: Path) -> Iterator[Event]:
    """Read an event file; each record is its length, a checksum, the data and a checksum."""
    data, at = file.read_bytes(), 0
    while at < len(data):
        (size,) = struct.unpack_from("<Q", data, at)
        yield Event.FromString(data[at + 12 : at + 12 + size])
        at += 16 + size


def board_steps(pool: TrackedPool, name: str = "loss") -> list[int]:
    files = pool.settings.tensorboard.directory.glob("*/*/*tfevents*")
    return [e.step for file in files for e in events(file) for value in e.summary.value if value.tag == name]


async def test_a_report_of_very_many_metrics_arrives_in_parts(pool, mlflow):
    await pool.submit("deep", upto=2, last=2, layers=1500)
    await until(lambda: len(mlflow.metrics) >= 2 * 1503)
    for name in ("layer 0", "layer 1499"):
        assert mlflow.steps(name) == [1, 2]


async def test_reports_arrive_once_and_in_order_over_outages_and_restarts(pool, mlflow, caplog):
    caplog.set_level(logging.INFO, "springtide")
    job = await pool.submit("bert ../<b>", upto=2, last=8)
    await until(lambda: mlflow.steps() == board_steps(pool) == [1, 2])

    mlflow.status = 503
    failed = len(mlflow.asked)
    pool.let("bert ../<b>", 4)
    await until(lambda: board_steps(pool) == [1, 2, 3, 4] and len(mlflow.asked) > failed + 2)
    told = [each for each in caplog.messages if "MLflow is away" in each]
    assert told == ["MLflow is away: it answers with status 503. Reports are kept and sent later"]

    await pool.stop()
    mlflow.status = 200
    pool.let("bert ../<b>", 8)
    await pool.start()
    await until(lambda: mlflow.runs[0]["info"]["status"] == "FINISHED" and len(board_steps(pool)) == 8)
    assert mlflow.steps() == board_steps(pool) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert mlflow.steps("val/acc _1") == board_steps(pool, "val/acc _1") == mlflow.steps()
    assert mlflow.steps("lost") == board_steps(pool, "lost") == mlflow.steps()
    (run,) = mlflow.runs
    tags = mlflow.tags(run)
    assert (mlflow.project, run["info"]["run_name"], tags["mlflow.user"]) == ("vision", "bert ../<b>", "susan")
    assert (tags["springtide.gpus"], tags["springtide.tags"]) == ("1", "baseline")
    assert mlflow.authorization == {"Basic YTpi"}
    addresses = [await tracker.address(await pool.engine.job(job.id)) for tracker in pool.trackers]
    name = f"%5Evision%2Fbert_b_%5C-{job.id}%24"
    assert addresses == [
        "https://mlflow.example.org/#/experiments/7/runs/run0",
        f"https://board.example.org/?runFilter={name}#timeseries",
    ]


async def test_what_was_written_in_part_is_written_anew(pool):
    await pool.submit("bert", upto=2, last=4)
    await until(lambda: board_steps(pool) == [1, 2])
    await pool.stop()
    (file,) = pool.settings.tensorboard.directory.glob("*/*/*tfevents*")
    whole = file.stat().st_size
    with file.open("ab") as events:
        events.write(b"half a record")
    await pool.start()
    pool.let("bert", 4)
    await until(lambda: file.stat().st_size > 1.5 * whole and len(board_steps(pool)) == 4)
    assert board_steps(pool) == [1, 2, 3, 4]
    assert file.stat().st_mode & 0o777 == file.parents[2].stat().st_mode & 0o666


async def test_the_end_of_a_job_is_the_end_of_its_run(pool, mlflow):
    job = await pool.submit("bert", upto=1, last=9)
    await until(mlflow.steps)
    await pool.engine.cancel(job.id, "susan")
    await until(lambda: mlflow.runs[0]["info"]["status"] == "KILLED")


async def test_those_who_see_a_job_are_told_its_links_also_while_a_tracker_is_away(start, mlflow):
    (tracker,) = open_trackers(TrackingSettings(MlflowSettings(mlflow.url)))
    running = await start(trackers=[tracker])
    job = await running.submit("susan", "true")
    unknown = {"items": [{"name": "MLflow", "url": None}]}
    assert (await running.as_("susan").get(f"/jobs/{job['id']}/tracking")).json() == unknown
    await tracker.open(await running.pool.engine.job(job["id"]))
    link = {"name": "MLflow", "url": f"{mlflow.url}/#/experiments/7/runs/run0"}
    assert (await running.as_("susan").get(f"/jobs/{job['id']}/tracking")).json() == {"items": [link]}
    assert (await running.as_("jemma").get(f"/jobs/{job['id']}/tracking")).status_code == 404
    mlflow.status = 503
    assert (await running.as_("susan").get(f"/jobs/{job['id']}/tracking")).json() == unknown
    await tracker.close()


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("mlflow_tracking_uri", "mlflow.example.org", "no address of a server"),
        ("mlflow_tracking_uri", "javascript:alert(1)", "no address of a server"),
        ("mlflow_tracking_uri", "https://admin:secret@mlflow.example.org", "mlflow_credentials_file"),
        ("tensorboard_dir", "/nonexistent/logs", "is no directory that the service may write to"),
    ],
)
def test_a_tracker_that_cannot_be_used_is_told_at_the_start(setting, value, told):
    with pytest.raises(SettingError, match=told) as refused:
        read(TrackingSettings, {**Springtide().values(), setting: value}).check()
    assert "secret" not in str(refused.value)


def test_without_the_extra_the_message_names_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(SettingError, match=r"pip install 'springtide\[hub,tracking\]'"):
        TrackingSettings(tensorboard=TensorboardSettings(str(tmp_path))).check()


def test_nothing_is_imported_where_nothing_is_set():
    code = (
        "import sys, springtide.hub_extension.service.service as s\n"
        "from springtide.hub_extension.tracking.trackers import open_trackers\n"
        "assert open_trackers(s.Springtide().settings().tracking) == ()\n"
        "sys.exit(bool({'tensorboardX', 'springtide.hub_extension.tracking.mlflow'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("given", "cleaned"),
    [("loss", "loss"), ("val/acc", "val/acc"), ("../x", "___x"), ("a//b", "a__b"), ("a\ud800", "a_"), (".", "_")],
)
def test_names_of_values_are_such_as_trackers_take(given, cleaned):
    assert metric_name(given) == cleaned

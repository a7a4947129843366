"""`springtide runs export` to the real MLflow, and to offline runs of the real W&B."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hubs.hub_people import until
from pinned_environments import TRACKING
from pools.pool_process import running_service
from programs.terminal import OURS
from servers.mlflow_server import MlflowServer

import springtide.training
from springtide.scheduler.capture.project_walk import capture_project
from springtide.scheduler.client import Client
from springtide.scheduler.wire import Job, Submission

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("tracking"), pytest.mark.timeout(600)]

REPORTS = """
import json, os, sys, time
with open(os.environ["SPRINGTIDE_REPORT"], "a") as file:
    for step in range(1, 6):
        values = {"loss": 1 / step, "val/acc @1": step, "lost": "NaN"}
        file.write(json.dumps({"at": 1000.0 + step, "step": step, "values": values}) + "\\n")
sys.exit(int(sys.argv[sys.argv.index("--code") + 1]))
"""
# Prints the runs of a folder of W&B: of each its record, its configuration, its rows and its exit code.
READS = """
import json, struct, sys
from pathlib import Path
from wandb.proto import wandb_internal_pb2 as pb

BLOCK = 32768

def records(data):
    at, parts = 7, []
    while at < len(data):
        if BLOCK - at % BLOCK < 7:
            at += BLOCK - at % BLOCK
            continue
        _, size, kind = struct.unpack_from("<IHB", data, at)
        parts.append(data[at + 7 : at + 7 + size])
        at += 7 + size
        if kind in (1, 4):
            yield pb.Record.FromString(b"".join(parts))
            parts = []

def read(items):
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}

found = []
for file in sorted(Path(sys.argv[1]).glob("wandb/offline-run-*/run-*.wandb")):
    run = {"rows": [], "config": {}}
    for record in records(file.read_bytes()):
        if record.HasField("run"):
            each = record.run
            run |= {"id": each.run_id, "name": each.display_name, "project": each.project, "host": each.host,
                    "tags": list(each.tags)}
            run["config"] |= read(each.config.update)
        elif record.HasField("history"):
            run["rows"].append(read(record.history.item))
        elif record.HasField("exit"):
            run["exit"] = record.exit.exit_code
    found.append(run)
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Desk:
    """The terminal of a person with the command, in an environment that has W&B."""

    url: str
    home: Path
    susan: Client

    def export(self, *words: str, code: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
        others = (*OURS, "WANDB", "MLFLOW")
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(others)},
            "HOME": str(self.home),
            "PYTHONPATH": str(self.home / "library"),
            "SPRINGTIDE_URL": self.url,
            "JUPYTERHUB_API_TOKEN": "susan",
            **variables,
        }
        command = [str(TRACKING.interpreter()), "-m", "springtide", "runs", "export", *words]
        done = subprocess.run(command, cwd=self.home, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def ended(self, name: str, code: int = 0) -> Job:
        """Return a job that has reported, with an argument that is a secret, and has ended."""
        argv = ["python3", "-c", REPORTS, "--lr", "0.1", "--api-key", "hunter2", "--code", str(code)]
        job = self.susan.submit(Submission(argv=argv, name=name, tags=("paper",)))
        until("its end", lambda: self.susan.job(job.id).ended)
        return self.susan.job(job.id)

    def runs_of_wandb(self, folder: Path) -> list[dict[str, Any]]:
        command = [str(TRACKING.interpreter()), "-c", READS, str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return list(json.loads(done.stdout))


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    home = tmp_path_factory.mktemp("home")
    (home / "library").mkdir()
    (home / "library/springtide").symlink_to(Path(springtide.training.__file__).parents[1])
    with running_service(tmp_path_factory.mktemp("pool")) as url, Client(url, "susan") as susan:
        yield Desk(url, home, susan)


@pytest.fixture
async def mlflow(tmp_path: Path) -> Any:
    server = MlflowServer(tmp_path)
    await server.start()
    yield server
    server.stop()


async def test_jobs_are_runs_of_an_mlflow_server_once_and_follow_what_is_new(
    desk: Desk, mlflow: MlflowServer
) -> None:
    first, second = desk.ended("first"), desk.ended("<b>second</b>", code=3)
    argv = ["python3", "-c", f"{REPORTS.rpartition('sys.exit')[0]}time.sleep(600)"]
    running = desk.susan.submit(Submission(argv=argv, name="running", tags=("paper",)))
    until("its reports", lambda: desk.susan.job(running.id).progress.step == 5)

    done = desk.export("--tag", "paper", "--to", "mlflow", "--into", mlflow.url)
    assert done.stdout.splitlines() == [
        f"{running.id} running: 5 reports added.",
        f"{second.id} <b>second</b>: 5 reports added.",
        f"{first.id} first: 5 reports added.",
    ]
    runs = {run["info"]["run_name"]: run for run in mlflow.runs("vision")}
    states = {name: run["info"]["status"] for name, run in runs.items()}
    assert states == {"first": "FINISHED", "<b>second</b>": "FAILED", "running": "RUNNING"}
    tags = {tag["key"]: tag["value"] for tag in runs["first"]["data"]["tags"]}
    assert (tags["springtide.job"], tags["mlflow.user"]) == (first.id, "susan")
    assert (tags["springtide.project"], tags["springtide.state"]) == ("vision", "succeeded")
    parameters = {each["key"]: each["value"] for each in runs["first"]["data"]["params"]}
    assert parameters == {"lr": "0.1", "code": "0"}
    assert mlflow.values(runs["first"], "loss") == [(step, 1 / step) for step in range(1, 6)]
    assert mlflow.values(runs["first"], "val/acc _1") == [(step, step) for step in range(1, 6)]

    desk.susan.cancel(running.id)
    until("its end", lambda: desk.susan.job(running.id).ended)
    again = desk.export(first.id, running.id, "--to", "mlflow", "--json", MLFLOW_TRACKING_URI=mlflow.url)
    assert [json.loads(line)["reports"] for line in again.stdout.splitlines()] == [0, 0]
    runs = {run["info"]["run_name"]: run for run in mlflow.runs("vision")}
    assert (len(runs), runs["running"]["info"]["status"]) == (3, "KILLED")
    assert len(mlflow.values(runs["first"], "loss")) == 5

    mlflow.stop()
    away = desk.export(first.id, "--to", "mlflow", "--into", mlflow.url, code=1)
    assert "MLflow takes nothing: it cannot be reached (ConnectError)." in away.stderr


def test_ended_jobs_are_offline_runs_of_wandb_once(desk: Desk, tmp_path: Path) -> None:
    first, second = desk.ended("first"), desk.ended("second", code=3)
    running = desk.susan.submit(Submission(argv=["sleep", "600"], name="running"))
    folder = tmp_path / "exported"
    (folder / ".springtide-of-a-killed-export").mkdir(parents=True)
    done = desk.export(first.id, second.id, running.id, "--to", "wandb", "--into", str(folder), code=1)
    assert done.stdout.splitlines() == [
        f"{first.id} first: 5 reports added.",
        f"{second.id} second: 5 reports added.",
    ]
    why = "left out: it has not ended, and W&B cannot add to an offline run."
    assert f"{running.id} running: {why}" in done.stderr
    runs = {run["name"]: run for run in desk.runs_of_wandb(folder)}
    assert {name: (run["id"], run["exit"]) for name, run in runs.items()} == {
        "first": (first.id, 0),
        "second": (second.id, 1),
    }
    run = runs["first"]
    assert (run["project"], run["tags"], run["host"]) == ("vision", ["paper"], "")
    assert (run["config"]["lr"], run["config"]["code"]) == (0.1, 0)
    assert (
        run["config"]["springtide"].items()
        >= {"user": "susan", "state": "succeeded", "started": first.started}.items()
    )
    assert "hunter2" not in json.dumps(run)
    rows = [(row["step"], row["loss"], row["val/acc _1"], row["_timestamp"]) for row in run["rows"]]
    assert rows == [(step, 1 / step, step, 1000 + step) for step in range(1, 6)]

    again = desk.export(first.id, second.id, "--to", "wandb", "--into", str(folder))
    assert again.stdout.splitlines() == [
        f"{first.id} first: 0 reports added.",
        f"{second.id} second: 0 reports added.",
    ]
    assert sorted(path.name for path in folder.iterdir()) == ["wandb"]
    (tmp_path / ".springtideignore").touch()
    sent = capture_project(tmp_path, tmp_path.parent).files
    assert not [path for path in sent if "offline-run" in path], "exported runs are no part of a project"
    assert len(desk.runs_of_wandb(folder)) == 2

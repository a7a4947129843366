"""Tasks of the real Airflow send jobs to a real service: the docs' pipeline, failures, and ends by people."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hubs.hub_people import until
from pinned_environments import AIRFLOW
from pools.pool_process import running_service

import springtide.training
from springtide.scheduler.client import Client
from springtide.scheduler.wire import Job, Submission

RUNS = Path(__file__).with_name("airflow_runs.py")
PAGE = Path(__file__).parents[2] / "docs/airflow.md"
PATIENCE_S = 240.0
MISFORTUNES = """
from airflow.sdk import DAG
from springtide.widgets.airflow import SpringtideOperator, SpringtideSensor


def breaks():
    raise ValueError("The data of today are missing.")


with DAG("misfortunes", schedule=None):
    SpringtideOperator(task_id="breaks", work=breaks, retries=0, poll_interval=0.1)
    SpringtideOperator(task_id="asks_too_much", work="true", options={"gpus": -1}, retries=2)
    SpringtideSensor(task_id="unknown", job_id="nosuchjob", retries=0)
    SpringtideOperator(
        task_id="killed",
        work="sleep 600",
        options={"name": "killed"},
        deferrable=False,
        poll_interval=0.1,
        retries=2,
    )
"""

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("airflow"), pytest.mark.timeout(600)]


@dataclass(frozen=True)
class Ran:
    """What became of the tasks, by name; what Airflow printed; and susan, whose jobs they were."""

    tasks: dict[str, Any]
    printed: str
    susan: Client

    def job(self, name: str) -> Job:
        (found,) = [job for job in self.susan.all_jobs() if job.name == name]
        return found


def pipeline() -> str:
    found = re.search(r"^```py\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def kill_when_its_job_runs(susan: Client, process: subprocess.Popen[str]) -> None:
    """Send SIGTERM to Airflow, as it does to a task that someone ends, as soon as the job of that task runs."""
    deadline = time.monotonic() + PATIENCE_S
    while process.poll() is None and time.monotonic() < deadline:
        if any(job.name == "killed" for job in susan.all_jobs(state="running")):
            process.send_signal(signal.SIGTERM)
            return
        threading.Event().wait(0.2)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    """Both DAGs, run once: Airflow takes some seconds to begin."""
    home = tmp_path_factory.mktemp("airflow")
    (home / "dags").mkdir()
    (home / "dags/nightly.py").write_text(pipeline())
    (home / "dags/misfortunes.py").write_text(MISFORTUNES)
    (home / "dags/evaluate.py").write_text("import sys; print('evaluated', *sys.argv[1:])")
    (home / "library").mkdir()
    (home / "library/springtide").symlink_to(Path(springtide.training.__file__).parents[1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        with running_service(tmp_path_factory.mktemp("pool")) as url, Client(url, "susan") as susan:
            deferred = susan.submit(Submission(argv=["sleep", "600"], name="deferred"))
            environment = {
                **os.environ,
                "AIRFLOW_HOME": str(home),
                "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
                "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
                "AIRFLOW_CONN_SPRINGTIDE_DEFAULT": json.dumps(
                    {"conn_type": "generic", "host": url, "password": "susan"}
                ),
                "PYTHONPATH": str(home / "library"),
            }
            process = subprocess.Popen(
                [AIRFLOW.interpreter(), RUNS, home / "dags", deferred.id],
                env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
            killer = threading.Thread(target=kill_when_its_job_runs, args=(susan, process))
            killer.start()
            printed, _ = process.communicate(timeout=PATIENCE_S)
            killer.join()
            print(printed)
            assert process.returncode == 0
            yield Ran(json.loads(printed.splitlines()[-1]), printed, susan)


def test_the_pipeline_of_the_docs_runs_and_hands_over_its_results(ran: Ran) -> None:
    states = {name: ran.tasks[name]["state"] for name in ("train", "evaluate", "seen", "publish")}
    assert set(states.values()) == {"success"}, states
    assert ran.tasks["train"]["result"] == {"rate": 0.5, "loss": 2.0}
    assert ran.tasks["publish"]["result"] == "The loss is 2.0."
    assert ran.tasks["evaluate"]["result"] is None
    assert ran.job("nightly").options.gpus == 2
    assert "[DAG TEST] running trigger in line" in ran.printed


def test_a_task_fails_with_the_reason_of_its_job(ran: Ran) -> None:
    assert ran.tasks["breaks"]["state"] == "failed"
    assert "ValueError: The data of today are missing." in ran.printed


def test_a_task_that_cannot_be_sent_fails_and_is_not_tried_again(ran: Ran) -> None:
    assert ran.tasks["asks_too_much"]["state"] == "failed"
    assert "gpus" in ran.printed
    assert ran.tasks["unknown"]["state"] == "failed"


def test_the_job_of_a_task_that_is_ended_is_cancelled_and_the_task_not_tried_again(ran: Ran) -> None:
    assert ran.tasks["killed"]["state"] == "failed"
    assert ran.job("killed").state == "cancelled"


def test_the_job_of_a_deferred_task_that_is_ended_is_cancelled(ran: Ran) -> None:
    until("the end of the job", lambda: ran.job("deferred").state == "cancelled")

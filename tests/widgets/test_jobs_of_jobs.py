"""Functions in the pool use the pool themselves: they submit jobs, and follow those whose handles they got."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pools.pool_process import ServiceProcess

from springtide.scheduler.client import Client
from springtide.widgets import pool as shared_pool
from springtide.widgets.connection import NOT_IN_JOBS, NOT_ON_HUB, Connection, connection
from springtide.widgets.errors import NotOnHubError
from springtide.widgets.shared_pool import Pool

pytestmark = pytest.mark.usefixtures("workdir")


def test_a_function_with_a_handle_in_its_closure_waits_for_that_job(pool: Pool) -> None:
    first = pool.submit(lambda: 20, gpus=0)

    def second() -> int:
        return int(first.result(60)) + 1

    assert pool.submit(second, gpus=0).result(90) == 21


def test_a_function_sends_functions_and_returns_their_handles(pool: Pool) -> None:
    def parent() -> Any:
        return shared_pool.submit(lambda: os.environ["SPRINGTIDE_PROJECT"], gpus=0)

    job = pool.submit(parent, gpus=0)
    child = pool.job(job.result(90).id)
    assert child.result(90) == "vision"
    assert child.info.submitted_by == job.id


def test_a_cancelled_job_takes_its_children_along_if_asked(pool: Pool, until: Callable[..., None]) -> None:
    def parent() -> None:
        import time  # noqa: PLC0415 - of the job

        shared_pool.submit("sleep 600", gpus=0, name="child")
        time.sleep(600)

    job = pool.submit(parent, gpus=0)
    until(lambda: pool.jobs(search="child"))
    [child] = pool.jobs(search="child")
    job.cancel(children=True)
    until(lambda: (job.state, child.state) == ("cancelled", "cancelled"))


@pytest.mark.parametrize(("variables", "message"), [({}, NOT_ON_HUB), ({"SPRINGTIDE_JOB_ID": "x"}, NOT_IN_JOBS)])
def test_without_a_pool_the_reason_is_true_of_the_place(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], message: str
) -> None:
    for name in ("SPRINGTIDE_URL", "SPRINGTIDE_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(NotOnHubError) as refused:
        connection()
    assert str(refused.value) == message


def test_the_right_of_a_job_outlives_the_service(tmp_path: Path) -> None:
    go = tmp_path / "go"

    def parent() -> str:
        import time  # noqa: PLC0415 - of the job

        print("waiting", flush=True)
        while not go.exists():
            time.sleep(0.05)
        return shared_pool.submit(lambda: "child", gpus=0).result(60)

    state = tmp_path / "pool"
    state.mkdir()
    service = ServiceProcess(state)
    service.start()
    try:
        with Client(service.url, "susan") as susan:
            job = Pool(Connection(susan)).submit(parent, gpus=0)
            log = ""
            while "waiting" not in log:
                log = susan.log(job.id, wait=5).text
            service.kill()
            service.start()
            go.touch()
            assert job.result(90) == "child"
    finally:
        service.stop()

"""Functions in the pool use the pool themselves: they submit jobs, and follow those whose handles they got."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from springtide.widgets import pool as shared_pool
from springtide.widgets.connection import NOT_IN_JOBS, NOT_ON_HUB, connection
from springtide.widgets.errors import NotOnHubError
from springtide.widgets.shared_pool import Pool


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

"""Which GPUs of a project are marked as borrowed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from springtide.scheduler import wire
from springtide.scheduler.engine.state.borrowing import Borrowing, filling_order
from springtide.scheduler.model import JobState, Reason, Worker
from springtide.scheduler.store.records import Asked, AttemptRecord, JobRecord, JobSpec, JobStanding


def live(name: str, seq: int, gpus: int, created: float, *, preemptible: bool = True) -> JobRecord:
    spec = JobSpec(
        id=name,
        seq=seq,
        user="susan",
        project="vision",
        submitted=0.0,
        name=name,
        kind="command",
        argv=(),
        options=wire.JobOptions(preemptible=preemptible),
    )
    attempt = AttemptRecord(
        job=name, number=1, placement=(Worker(0, "n", tuple(range(gpus))),), created=created, why=Reason("started")
    )
    return JobRecord(spec, JobStanding(state=JobState.RUNNING, attempt=1), (attempt,))


JOBS = (live("old", 1, 2, 10.0), live("young", 2, 4, 20.0), live("firm", 3, 1, 30.0, preemptible=False))


@pytest.mark.parametrize(
    ("quota", "borrowed"),
    [
        (0, {"firm": 1, "old": 2, "young": 4}),
        (1, {"firm": 0, "old": 2, "young": 4}),
        (2, {"firm": 0, "old": 1, "young": 4}),
        (5, {"firm": 0, "old": 0, "young": 2}),
        (7, {"firm": 0, "old": 0, "young": 0}),
        (None, {"firm": 0, "old": 0, "young": 0}),
    ],
)
def test_a_quota_is_filled_by_what_cannot_be_paused_and_then_by_age(quota, borrowed):
    borrowing = Borrowing(lambda _: sorted(JOBS, key=filling_order), lambda _, __: quota, {})
    assert {job.id: borrowing.of(job) for job in JOBS} == borrowed


def test_a_job_that_holds_nothing_borrows_nothing():
    waiting = JobRecord(JOBS[0].spec)
    assert Borrowing(lambda _: (), lambda _, __: 0, {}).of(waiting) == 0


async def test_borrowed_gpus_change_hands_as_jobs_come_and_go(pool):
    first = await pool.submit("susan", gpus=2)
    await pool.state(first.id, "running")
    second = await pool.submit("susan", gpus=3)
    await pool.state(second.id, "running")
    assert [gpu.borrowed for gpu in (await pool.job(first.id)).held] == [False, False]
    assert [gpu.borrowed for gpu in (await pool.job(second.id)).held] == [True, True, True]

    pool.executor.end(pool.key(first.id), code=0)
    await pool.state(first.id, "succeeded")

    assert [gpu.borrowed for gpu in (await pool.job(second.id)).held] == [False, False, True]


async def test_another_quota_changes_what_is_borrowed(pool, members):
    job = await pool.submit("susan", gpus=4)
    await pool.state(job.id, "running")
    for quota, borrowed in ((3, [False, False, False, True]), (0, [True] * 4), (4, [False] * 4)):
        await pool.engine.edit_project("susan", wire.ProjectEdit(quota=quota), "admin", members=members)
        assert [gpu.borrowed for gpu in (await pool.job(job.id)).held] == borrowed


async def test_the_pool_counts_the_jobs_of_each_project_whatever_becomes_of_them(pool):
    def counted():
        views = {view.name: view for view in pool.engine.pool().projects}
        return {name: (views[name].running_jobs, views[name].waiting_jobs) for name in ("susan", "joe")}

    running = await pool.submit("susan", gpus=4)
    await pool.state(running.id, "running")
    waiting = [await pool.submit("susan", gpus=8) for _ in range(3)]
    await pool.engine.pause(waiting[0].id, "susan")
    assert counted() == {"susan": (1, 2), "joe": (0, 0)}
    await pool.engine.cancel(waiting[1].id, "susan")
    assert counted() == {"susan": (1, 1), "joe": (0, 0)}
    await pool.restart()
    assert counted() == {"susan": (1, 1), "joe": (0, 0)}
    pool.executor.end(pool.key(running.id), code=0)
    await pool.state(waiting[2].id, "running")
    assert counted() == {"susan": (1, 0), "joe": (0, 0)}


def test_each_gpu_type_has_a_quota_of_its_own():
    on_a100 = live("big", 4, 3, 5.0)
    on_a100 = on_a100.with_attempt(replace(on_a100.attempts[-1], gpu_type="a100"))
    quota_of = {"": 7, "a100": 1}
    jobs = sorted((*JOBS, on_a100), key=filling_order)
    borrowing = Borrowing(lambda _: jobs, lambda _, each: quota_of[each], {})
    assert {job.id: borrowing.of(job) for job in (*JOBS, on_a100)} == {"firm": 0, "old": 0, "young": 0, "big": 2}


def test_what_is_being_given_back_is_borrowed_first():
    old, *others = JOBS
    asked = replace(old.attempts[0], asked=Asked.PAUSE)
    jobs = sorted((old.with_attempt(asked), *others), key=filling_order)
    borrowing = Borrowing(lambda _: jobs, lambda _, __: 5, {})
    assert {job.id: borrowing.of(job) for job in jobs} == {"firm": 0, "young": 0, "old": 2}


async def test_the_colours_of_a_project_follow_the_pause_of_one_of_its_jobs(pool):
    first = await pool.submit("susan", gpus=2)
    await pool.state(first.id, "running")
    second = await pool.submit("susan", gpus=2)
    await pool.state(second.id, "running")
    await pool.engine.pause(first.id, "susan")
    await pool.state(first.id, "pausing")

    assert [gpu.borrowed for gpu in (await pool.job(first.id)).held] == [True, True]
    assert [gpu.borrowed for gpu in (await pool.job(second.id)).held] == [False, False]

"""The measure of the guarantee, by numbers known by hand: how long an owner waits beyond what it has to allow.

Two nodes of 4 GPUs, a project without quota whose jobs of one GPU hold all of them, and an owner of 8 whose gang
of two workers with 4 GPUs waits from time 0 on. The allowance is 30 s.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from springtide.scheduler.model import (
    Change,
    Job,
    JobChanged,
    JobRemoved,
    Node,
    NodesChanged,
    Phase,
    Plan,
    Project,
    ProjectsChanged,
    Settings,
    SettingsChanged,
    Snapshot,
    Worker,
)
from springtide.scheduler.promises import Promise, Step, Watch, check_history

NODES = (Node("n1", 4), Node("n2", 4))
STREAM, OWNER = Project("stream"), Project("owner", quota=8, age=1)
SETTINGS = Settings(min_runtime=0.0, grace=30.0)
GANG = Job("gang", "owner", workers=2, min_workers=2, gpus=4)
BORROWED = tuple(
    Job(
        f"s{at}",
        "stream",
        phase=Phase.RUNNING,
        placement=(Worker(0, NODES[at // 4].name, (at % 4,)),),
        started=0.0,
    )
    for at in range(8)
)
STARTED = Job(
    **{field: getattr(GANG, field) for field in ("id", "project", "workers", "min_workers", "gpus")},
    phase=Phase.RUNNING,
    placement=(Worker(0, "n1", (0, 1, 2, 3)), Worker(1, "n2", (0, 1, 2, 3))),
    started=450.0,
)
ALL_STOPPED = tuple(JobRemoved(job.id) for job in BORROWED)


def watched(*waiting: Job) -> Watch:
    return Watch(Snapshot(0.0, NODES, (STREAM, OWNER), (*BORROWED, *waiting), SETTINGS))


def at(watch: Watch, now: float, *changes: Change) -> None:
    """Let something happen at an instant, after which nothing is decided."""
    for change in changes:
        watch.apply(change)
    watch.decided(Plan(), now)
    watch.settled(now)


def broken(watch: Watch) -> list[str]:
    return [breach.message for breach in watch.breaches if breach.promise is Promise.GUARANTEE]


ENDS = {
    "a start": (*ALL_STOPPED, JobChanged(STARTED)),
    "a cancel": (JobRemoved("gang"),),
    "the end of the jobs that hold the GPUs, and a lower quota": (
        *ALL_STOPPED,
        ProjectsChanged((STREAM, replace(OWNER, quota=2))),
    ),
    "a change of the quota": (ProjectsChanged((STREAM, replace(OWNER, quota=4))),),
    "a quota of another project": (ProjectsChanged((replace(STREAM, quota=1), OWNER)),),
    "the removal of the project": (JobRemoved("gang"), ProjectsChanged((STREAM,))),
    "a node that goes away": (NodesChanged(NODES[:1]),),
    "a longer grace period": (JobRemoved("gang"), SettingsChanged(replace(SETTINGS, grace=10_000.0))),
}


@pytest.mark.parametrize("changes", ENDS.values(), ids=ENDS.keys())
def test_the_time_counts_that_an_owner_waited_until(changes):
    watch = watched(GANG)
    at(watch, 0.0)
    at(watch, 450.0, *changes)
    at(watch, 900.0)

    assert watch.meter.violations["owner"] == 420
    assert broken(watch) == ["owner holds 0 GPUs of its quota of 8, and its job gang fits but has waited 450 s"]


def test_the_time_counts_that_an_owner_waited_until_the_end_of_the_history():
    watch = watched(GANG)
    at(watch, 0.0)
    watch.finish(3000.0)

    assert watch.meter.violations["owner"] == 2970
    assert broken(watch) == ["owner holds 0 GPUs of its quota of 8, and its job gang fits but has waited 3000 s"]


def test_an_owner_whose_job_never_starts_is_a_breach_although_no_time_passes():
    watch = watched(GANG)
    at(watch, 0.0)
    watch.finish(0.0, over=True)

    assert broken(watch) == ["owner holds 0 GPUs of its quota of 8, and its job gang fits but never starts"]


def test_a_silent_wait_is_a_breach_of_a_recorded_history():
    start = Snapshot(0.0, NODES, (STREAM, OWNER), (*BORROWED, GANG), SETTINGS)
    steps = [Step(0.0, (), Plan()), Step(3000.0, (*ALL_STOPPED, JobChanged(STARTED)), Plan())]

    assert [breach.promise for breach in check_history(start, steps)] == [Promise.GUARANTEE]


def test_what_happens_meanwhile_changes_nothing_and_a_wait_is_one_breach():
    watch = watched(GANG)
    for now in range(0, 451, 50):
        at(watch, now, JobRemoved("s0"), JobChanged(BORROWED[0])) if now % 100 else at(watch, now)

    assert watch.meter.violations["owner"] == 420
    assert len(broken(watch)) == 1


def test_a_start_of_another_job_of_the_project_does_not_excuse_the_wait():
    pair, one = Job("pair", "owner", workers=2, min_workers=2), Job("one", "owner")
    watch = watched(pair)
    at(watch, 0.0)
    started = Job("one", "owner", phase=Phase.RUNNING, placement=BORROWED[0].placement, started=20.0)
    at(watch, 20.0, JobChanged(one), JobRemoved("s0"), JobChanged(started))
    at(watch, 50.0)

    assert watch.meter.violations["owner"] == 20


def test_jobs_that_wait_in_turn_each_have_the_whole_allowance():
    watch = watched()
    for now in range(0, 300, 25):
        job = Job(f"j{now}", "owner")
        at(watch, now, *((JobRemoved(f"j{now - 25}"),) if now else ()), JobChanged(job))

    assert watch.meter.violations["owner"] == 0
    assert broken(watch) == []


def test_jobs_that_wait_together_count_the_time_of_their_project_once():
    watch = watched(GANG, Job("one", "owner"), Job("two", "owner", gpus=2))
    at(watch, 0.0)
    at(watch, 450.0, *ALL_STOPPED, JobRemoved("gang"), JobRemoved("one"), JobRemoved("two"))

    assert watch.meter.violations["owner"] == 420
    assert sorted(breach.job or "" for breach in watch.breaches) == ["gang", "one", "two"]


def test_a_job_is_owed_nothing_before_the_end_of_its_back_off():
    watch = watched(Job("retried", "owner", gpus=4, not_before=100.0))
    at(watch, 0.0)
    at(watch, 200.0, JobRemoved("retried"))

    assert watch.meter.violations["owner"] == 70

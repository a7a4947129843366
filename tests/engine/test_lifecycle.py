"""A job's life as a table: what it was, what happened, what it is then."""

from __future__ import annotations

from typing import Any

import pytest
from jobs.job_options import with_options
from msgspec.structs import replace

from springtide.scheduler import sentences
from springtide.scheduler.engine import messages
from springtide.scheduler.engine.settings import Retries
from springtide.scheduler.engine.state import lifecycle
from springtide.scheduler.engine.state.lifecycle import Action
from springtide.scheduler.executors.base import (
    AttemptKey,
    AttemptPhase,
    AttemptStatus,
    Exit,
    ExitKind,
    Report,
    Reported,
)
from springtide.scheduler.model import JobState, Reason, Worker
from springtide.scheduler.store.records import Asked, AttemptState, Hold, JobRecord, JobSpec

RETRIES = Retries(first=10.0, longest=40.0, fruitless_limit=3)
PLACE = (Worker(0, "train", (0, 1)),)
WHY = Reason("engine-succeeded")
RECLAIM = Reason("engine-paused")


def job(**spec: Any) -> JobRecord:
    fields: dict[str, Any] = {
        "id": "a",
        "seq": 1,
        "user": "susan",
        "project": "p",
        "submitted": 0.0,
        "name": "n",
        "kind": "command",
    }
    return JobRecord(with_options(JobSpec, **{**fields, "argv": ("x",), "gpus": 2, **spec}))


def starting(record=None):
    return lifecycle.start(record or job(), PLACE, WHY, 100.0)[0]


def running(record=None, at=100.0):
    return observe(starting(record), AttemptPhase.RUNNING, started=at)[0]


def observe(record, phase, **more: Any):
    key = AttemptKey("a", record.standing.attempt)
    return lifecycle.observed(record, AttemptStatus(key, phase, **more), 100.0, RETRIES)


def gone(
    record,
    code=None,
    *,
    signal=None,
    kind=ExitKind.EXITED,
    at=200.0,
    paused=False,
    detail="",
    complete=False,
    returned=None,
):
    return observe(
        record,
        AttemptPhase.GONE,
        started=record.live.started,
        exit=Exit(kind, at, code, signal, paused, detail=detail, complete=complete, returned=returned),
    )[0]


def asked_to_pause(record):
    return lifecycle.pause(record, RECLAIM, 150.0)[0]


def held(record):
    return lifecycle.hold(record, "susan", 150.0)[0]


def cancelled(record):
    return lifecycle.cancel(record, "susan", 150.0)[0]


def out_of_time(record):
    return lifecycle.time_up(record, 150.0)[0]


def report(record, *, step=None, saved=False, at=150.0):
    last = Report(1, at, record.standing.attempt, step, None, {}, saved)
    key = AttemptKey("a", record.standing.attempt)
    return lifecycle.reported(record, Reported(key, last, at if saved else None, step if saved else None))


START = {"starting": starting, "running": running}
ENDS: dict[str, dict[str, Any]] = {
    "exit 0": {"code": 0},
    "exit 0 after the request": {"code": 0, "paused": True},
    "exit 0, complete": {"code": 0, "paused": True, "complete": True},
    "evicted, exit 0": {"kind": ExitKind.EVICTED, "code": 0},
    "evicted, exit 0, complete": {"kind": ExitKind.EVICTED, "code": 0, "complete": True},
    "evicted, signal 15": {"kind": ExitKind.EVICTED, "signal": 15},
    "exit 75": {"code": 75},
    "exit 1": {"code": 1},
    "signal 15": {"signal": 15},
    "lost": {"kind": ExitKind.LOST},
    "refused": {"kind": ExitKind.REFUSED, "detail": "no such program"},
    "blocked": {"kind": ExitKind.BLOCKED, "detail": "exceeded quota"},
    "over disk": {"kind": ExitKind.OVER_DISK, "signal": 15, "detail": "It keeps 2.0 GiB."},
}
BEFORE = {
    "nothing": lambda record: record,
    "asked to pause": asked_to_pause,
    "held": held,
    "held, then cancelled": lambda record: cancelled(held(record)),
    "cancelled": cancelled,
    "out of time": out_of_time,
}
OUTCOMES = {
    ("nothing", "exit 0"): ("succeeded", "succeeded"),
    ("nothing", "exit 75"): ("paused", "paused"),
    ("nothing", "exit 1"): ("failed", "failed"),
    ("nothing", "signal 15"): ("failed", "failed"),
    ("nothing", "lost"): ("paused", "lost"),
    ("nothing", "refused"): ("failed", "failed"),
    ("nothing", "blocked"): ("paused", "blocked"),
    ("nothing", "over disk"): ("failed", "failed"),
    ("nothing", "exit 0, complete"): ("succeeded", "succeeded"),
    ("nothing", "exit 0 after the request"): ("paused", "paused"),
    ("nothing", "evicted, exit 0"): ("paused", "paused"),
    ("nothing", "evicted, exit 0, complete"): ("succeeded", "succeeded"),
    ("nothing", "evicted, signal 15"): ("paused", "paused"),
    ("asked to pause", "evicted, exit 0"): ("paused", "paused"),
    ("held", "evicted, exit 0"): ("held", "paused"),
    ("asked to pause", "evicted, signal 15"): ("paused", "paused"),
    ("held", "evicted, signal 15"): ("held", "paused"),
    ("asked to pause", "evicted, exit 0, complete"): ("succeeded", "succeeded"),
    ("held", "evicted, exit 0, complete"): ("succeeded", "succeeded"),
    ("asked to pause", "exit 0"): ("succeeded", "succeeded"),
    ("asked to pause", "exit 0 after the request"): ("paused", "paused"),
    ("asked to pause", "exit 0, complete"): ("succeeded", "succeeded"),
    ("asked to pause", "exit 75"): ("paused", "paused"),
    ("asked to pause", "exit 1"): ("paused", "paused"),
    ("asked to pause", "signal 15"): ("paused", "paused"),
    ("asked to pause", "lost"): ("paused", "lost"),
    ("asked to pause", "refused"): ("paused", "paused"),
    ("asked to pause", "blocked"): ("paused", "paused"),
    ("asked to pause", "over disk"): ("paused", "paused"),
    ("held", "exit 0"): ("succeeded", "succeeded"),
    ("held", "exit 0 after the request"): ("held", "paused"),
    ("held", "exit 0, complete"): ("succeeded", "succeeded"),
    ("held", "exit 75"): ("held", "paused"),
    ("held", "exit 1"): ("held", "paused"),
    ("held", "signal 15"): ("held", "paused"),
    ("held", "lost"): ("held", "lost"),
    ("held", "refused"): ("held", "paused"),
    ("held", "blocked"): ("held", "paused"),
    ("held", "over disk"): ("held", "paused"),
    **{("cancelled", end): ("cancelled", "cancelled") for end in ENDS},
    **{("held, then cancelled", end): ("cancelled", "cancelled") for end in ENDS},
    **{("out of time", end): ("failed", "failed") for end in ENDS},
    **{("out of time", f"{end}exit 0, complete"): ("succeeded", "succeeded") for end in ("", "evicted, ")},
}


def standing_of(record):
    if record.standing.held:
        return "held"
    return record.state.value


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("before", BEFORE)
def test_every_end_of_a_running_attempt(before, end):
    record = gone(BEFORE[before](running()), **ENDS[end])
    expected, attempt = OUTCOMES[before, end]
    never_ran = end in ("refused", "blocked") and expected == "paused"
    assert (standing_of(record), record.attempts[-1].state.value) == ("queued" if never_ran else expected, attempt)
    assert record.live is None
    assert (record.standing.ended is not None) == record.state.final
    assert record.standing.reason is not None
    assert record.standing.failures == (1 if (before, end) in FAILURES else 0)


FAILURES = {("nothing", end) for end in ("exit 1", "signal 15", "refused", "over disk")}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("before", BEFORE)
def test_every_end_of_an_attempt_that_never_ran(before, end):
    record = gone(BEFORE[before](starting()), **ENDS[end])
    expected = OUTCOMES[before, end][0]
    assert standing_of(record) == ("queued" if expected == "paused" else expected)
    assert record.standing.served == 0


@pytest.mark.parametrize("end", ["refused", "blocked"])
def test_a_job_that_has_run_waits_for_whatever_keeps_it_from_starting_again(end):
    record = gone(running(), 75, at=200.0)
    for times, delay in ((1, 10.0), (2, 20.0), (3, 40.0), (4, 40.0)):
        started = lifecycle.start(record, PLACE, WHY, 300.0)[0]
        record = gone(started, at=310.0, **ENDS[end])
        assert (record.state, record.attempts[-1].state) == (JobState.PAUSED, AttemptState.BLOCKED)
        assert (record.standing.blocks, record.standing.not_before) == (times, 310.0 + delay)
    assert record.standing.failures == 0
    assert ENDS[end]["detail"] in sentences.text(record.standing.reason)


def test_a_refusal_does_not_become_an_outside_reason_by_a_start_that_was_only_seen():
    """The supervisor in a pod starts before it finds that there is no such program."""
    record = gone(running(job(retries=0)), **ENDS["refused"])
    assert record.state is JobState.FAILED
    assert (record.standing.started, record.standing.served) == (None, 0)


def test_a_start_ends_the_count_of_blocked_ones():
    record = gone(starting(), **ENDS["blocked"])
    record = gone(running(record, at=250.0), 75, at=300.0)
    assert record.standing.blocks == 0
    record = gone(lifecycle.start(record, PLACE, WHY, 400.0)[0], at=410.0, **ENDS["blocked"])
    assert record.standing.not_before == 420.0


@pytest.mark.parametrize("before", [before for before in BEFORE if "cancelled" not in before])
@pytest.mark.parametrize(
    "end",
    [{"signal": 9}, {"code": 139}, {"kind": ExitKind.LOST}, {"kind": ExitKind.EVICTED, "signal": 15}],
    ids=str,
)
def test_a_function_that_has_returned_has_succeeded_however_its_process_ends(before, end):
    """A thread of it, or what runs at its exit, may outlive it until something ends the process."""
    record = gone(BEFORE[before](running()), complete=True, returned=True, **end)
    assert record.state is JobState.SUCCEEDED


def test_the_end_of_a_process_after_its_function_is_said():
    record = gone(running(), signal=9, complete=True, returned=True)
    assert sentences.text(record.standing.reason) == (
        "It has finished. Its function or notebook had returned; then its process was ended by SIGKILL."
    )


def test_the_first_process_of_a_gang_returns_for_itself_alone():
    two = (Worker(0, "train", (0,)), Worker(1, "train", (1,)))
    record = observe(
        lifecycle.start(job(workers=2, gpus=1, retries=0), two, WHY, 100.0)[0], AttemptPhase.RUNNING, started=100.0
    )[0]
    assert gone(record, code=1, complete=True, returned=True).state is JobState.FAILED


@pytest.mark.parametrize("before", BEFORE)
def test_an_end_told_twice_counts_once(before):
    once = gone(BEFORE[before](running()), code=1)
    again, effects = observe(once, AttemptPhase.GONE, exit=Exit(ExitKind.EXITED, 300.0, 1))
    assert again is once
    assert [effect.action for effect in effects] == [Action.DISCARD]


@pytest.mark.parametrize(
    ("what", "effects"),
    [
        (asked_to_pause, [Action.PAUSE]),
        (held, [Action.PAUSE]),
        (cancelled, [Action.KILL]),
        (out_of_time, [Action.KILL]),
    ],
)
@pytest.mark.parametrize("state", START)
def test_a_live_attempt_is_asked_once(state, what, effects):
    record = START[state]()
    asked = what(record)
    assert asked.state is JobState.PAUSING
    assert asked.live.state is AttemptState.PAUSING
    assert what(asked).live.asked_at == asked.live.asked_at
    step = {
        asked_to_pause: lambda r: lifecycle.pause(r, RECLAIM, 150.0),
        held: lambda r: lifecycle.hold(r, "susan", 150.0),
        cancelled: lambda r: lifecycle.cancel(r, "susan", 150.0),
        out_of_time: lambda r: lifecycle.time_up(r, 150.0),
    }[what]
    assert [effect.action for effect in step(record)[1]] == effects
    assert step(asked)[1] == ()


@pytest.mark.parametrize("end", [lifecycle.cancel, None], ids=["cancelled", "out of time"])
def test_the_grace_period_of_a_pausing_attempt_that_is_to_end_counts_from_the_pause(end):
    pausing = asked_to_pause(running())
    ending = lifecycle.time_up(pausing, 160.0)[0] if end is None else end(pausing, "susan", 160.0)[0]
    assert (ending.live.asked, ending.live.asked_at) == (Asked.KILL, 150.0)
    assert [each.at for each in ending.standing.acts] == [150.0, 160.0]


def test_cancelling_a_pausing_attempt_ends_it_for_good():
    _, effects = lifecycle.cancel(asked_to_pause(running()), "susan", 160.0)
    assert [effect.action for effect in effects] == [Action.KILL]
    _, effects = lifecycle.hold(cancelled(running()), "susan", 160.0)
    assert effects == ()


def test_a_job_starts_running_only_when_its_processes_do():
    record = starting()
    seen, effects = observe(record, AttemptPhase.STARTING)
    assert (seen.state, seen.live.seen, effects) == (JobState.STARTING, True, ())
    ran, _ = observe(seen, AttemptPhase.RUNNING, started=105.0)
    assert (ran.state, ran.live.started, ran.standing.started) == (JobState.RUNNING, 105.0, 105.0)
    assert observe(ran, AttemptPhase.RUNNING, started=109.0)[0] is ran


def test_a_pausing_attempt_stays_pausing_when_its_processes_start_late():
    late, _ = observe(asked_to_pause(starting()), AttemptPhase.RUNNING, started=160.0)
    assert (late.state, late.live.state) == (JobState.PAUSING, AttemptState.PAUSING)


def test_a_job_resumed_while_it_pauses_goes_back_into_the_line():
    resumed, _ = lifecycle.resume(held(running()), "susan", 160.0)
    assert resumed.state is JobState.PAUSING
    waiting = gone(resumed, code=75)
    assert (waiting.state, waiting.standing.held) == (JobState.PAUSED, False)
    assert waiting.standing.reason.code != messages.HELD


def test_a_job_that_keeps_too_much_on_the_disk_is_not_tried_again():
    record = gone(running(job(retries=2)), **ENDS["over disk"])
    assert record.state is JobState.FAILED
    assert record.standing.error.endswith("It keeps 2.0 GiB.")


def test_failures_are_tried_again_with_growing_waits_and_pauses_cost_none():
    record = job(retries=2)
    record = gone(running(record), code=1, at=200.0)
    assert (record.state, record.standing.failures, record.standing.not_before) == (JobState.PAUSED, 1, 210.0)
    record = gone(asked_to_pause(running(record)), code=1)
    assert record.standing.failures == 1
    record = gone(running(record), code=1, at=300.0)
    assert (record.standing.failures, record.standing.not_before) == (2, 320.0)
    record = gone(running(record), code=3)
    assert (record.state, record.standing.failures) == (JobState.FAILED, 3)
    assert "exit code 3" in record.standing.error


def test_a_lost_attempt_costs_no_retry_and_waits_only_if_it_happens_again():
    record = gone(running(), kind=ExitKind.LOST, at=200.0)
    assert (record.state, record.standing.failures, record.standing.not_before) == (JobState.PAUSED, 0, 200.0)
    record = gone(running(record), kind=ExitKind.LOST, at=300.0)
    assert record.standing.not_before == 310.0


def test_asking_to_be_run_again_for_ever_without_getting_anywhere_ends_in_words():
    record = job()
    waits = []
    while not record.state.final:
        record = gone(running(record), code=75, at=200.0)
        waits.append(record.standing.not_before - 200.0)
    assert waits[:-1] == [10.0, 20.0]
    assert record.state is JobState.FAILED
    assert "3 times in a row" in record.standing.error
    assert "checkpoint" in record.standing.error


@pytest.mark.parametrize("onward", [{"step": 1.0}, {"saved": True}])
def test_asking_to_be_run_again_is_fine_as_long_as_it_gets_on(onward):
    record = job()
    for number in range(10):
        here = {**onward, "step": float(number)} if "step" in onward else onward
        record = gone(report(running(record), **here), code=75)
        assert record.state is JobState.PAUSED
    assert record.standing.fruitless == 0


@pytest.mark.parametrize("saved", [False, True])
def test_repeating_the_same_step_is_not_getting_on_even_with_a_checkpoint(saved):
    record = job()
    for _ in range(4):
        if not record.state.final:
            record = gone(report(running(record), step=1.0, saved=saved), code=75)
    assert record.state is JobState.FAILED


def test_time_counts_over_all_attempts():
    record = gone(asked_to_pause(running(job(time_limit=150.0))), code=75, at=200.0)
    assert (record.standing.ran, record.standing.served) == (100.0, 200.0)
    again = observe(lifecycle.start(record, PLACE, WHY, 500.0)[0], AttemptPhase.RUNNING, started=500.0)[0]
    assert lifecycle.deadline(again) == 550.0
    stopped = out_of_time(again)
    assert lifecycle.deadline(stopped) is None
    failed = gone(stopped, signal=15, at=551.0)
    assert failed.state is JobState.FAILED
    assert "2 min 30 s" in failed.standing.error


def test_waiting_costs_no_time():
    assert lifecycle.deadline(job(time_limit=1.0)) is None
    assert lifecycle.deadline(starting(job(time_limit=1.0))) is None


def test_what_a_job_reports_is_kept_and_its_checkpoint_is_where_it_resumes():
    record = report(running(), step=7.0, saved=True)
    assert (record.standing.saved, record.standing.saved_step, record.live.saved) == (150.0, 7.0, 150.0)
    record = report(record, step=8.0)
    assert (record.standing.saved_step, record.standing.step) == (7.0, 8.0)
    again = starting(gone(asked_to_pause(record), code=75))
    assert again.live.resumed_from == 7.0


def test_an_old_checkpoint_is_no_progress_of_a_new_attempt():
    record = gone(asked_to_pause(report(running(), step=7.0, saved=True)), code=75)
    record = running(record, at=300.0)
    told = lifecycle.reported(
        record, Reported(AttemptKey("a", 2), Report(2, 310.0, 2, 7.0), saved_at=150.0, saved_step=7.0)
    )
    assert told.live.saved is None


def test_every_change_of_an_ended_job_is_refused_by_doing_nothing():
    ended = gone(running(), code=0)
    for step in (
        lifecycle.hold(ended, "x", 1.0),
        lifecycle.resume(ended, "x", 1.0),
        lifecycle.cancel(ended, "x", 1.0),
        lifecycle.time_up(ended, 1.0),
    ):
        assert step == (ended, ())
    assert report(replace(ended), step=99.0) == ended


def test_a_job_that_asks_to_be_run_again_at_once_waits_ever_longer_though_it_makes_progress():
    record, waits = job(), []
    for number in range(5):
        record = report(running(record), step=float(number))
        record = gone(record, code=75, at=101.0)
        waits.append(record.standing.not_before - 101.0)
    assert waits == [10.0, 20.0, 40.0, 40.0, 40.0]
    assert "5 times in a row" in sentences.text(record.standing.reason)
    record = gone(report(running(record), step=9.0), code=75, at=200.0)
    assert record.standing.not_before == 210.0


@pytest.mark.parametrize("kind", [ExitKind.EVICTED, ExitKind.LOST])
def test_what_ends_at_once_again_and_again_through_no_pause_of_the_pool_waits_ever_longer(kind):
    record, waits = job(), []
    for number in range(4):
        record = report(running(record), step=float(number), saved=True)
        record = gone(record, kind=kind, at=101.0)
        waits.append(record.standing.not_before - 101.0)
    assert waits == [0.0, 10.0, 20.0, 40.0]
    assert record.standing.failures == 0


def test_the_cause_of_a_loss_is_named_and_a_node_only_where_nothing_else_is_known():
    lost, unknown, evicted = (
        sentences.text(gone(running(), kind=kind, detail=detail).standing.reason)
        for kind, detail in (
            (ExitKind.LOST, "The machine was restarted while it ran."),
            (ExitKind.LOST, ""),
            (ExitKind.EVICTED, "The cluster ended its pod: drained."),
        )
    )
    assert lost.startswith("The machine was restarted while it ran.")
    assert unknown.startswith("Its node or supervisor was lost.")
    assert evicted.startswith("It was ended from outside the pool. The cluster ended its pod: drained.")


def test_a_pause_that_was_taken_back_says_whose_it_was():
    resumed, _ = lifecycle.resume(held(running()), "susan", 160.0)
    record = gone(resumed, code=75)
    assert "paused by “susan”" in sentences.text(record.attempts[-1].ended_why)


def test_a_result_that_could_not_be_kept_is_told_with_the_end():
    record = running()
    told = Reported(
        AttemptKey("a", 1), Report(1, 150.0, 1), lost_result="TypeError: cannot pickle 'generator' object"
    )
    text = sentences.text(gone(lifecycle.reported(record, told), code=0).standing.reason)
    assert text.startswith(
        "It has finished. Its result could not be kept, only its text. TypeError: cannot pickle"
    )


def test_a_job_that_ended_with_0_when_asked_says_so_until_it_starts_again():
    record = gone(asked_to_pause(running()), code=0, paused=True)
    assert (record.ended_cleanly, record.standing.failures) == (True, 0)
    assert not starting(record).ended_cleanly
    assert not gone(asked_to_pause(running()), code=75).ended_cleanly


@pytest.mark.parametrize("before", ["paused", "held"])
def test_a_job_that_waits_after_an_attempt_is_marked_as_finished(before):
    record = gone((held if before == "held" else asked_to_pause)(running()), code=0, paused=True)
    finished, effects = lifecycle.finish(record, "susan", 300.0)
    assert (finished.state, finished.standing.ended, finished.standing.held) == (JobState.SUCCEEDED, 300.0, False)
    assert sentences.text(finished.standing.reason) == "It was marked as finished by “susan”."
    assert effects == ()


@pytest.mark.parametrize("record", [job(), starting(), running(), gone(running(), code=1)])
def test_a_job_that_does_not_wait_after_an_attempt_is_not_marked_as_finished(record):
    assert lifecycle.finish(record, "susan", 300.0) == (record, ())


def test_every_reason_of_the_engine_has_a_sentence():
    reasons = [
        messages.held_by("susan"),
        messages.cancelled_by("susan"),
        messages.time_limit(3600.0),
        messages.succeeded(),
        messages.asked_to_pause(),
        messages.asked_again(),
        messages.asked_again_in_vain(2, 20),
        messages.fruitless(20),
        messages.lost("The node went away", saved=True),
        messages.not_launched("busy"),
        messages.failed(Exit(ExitKind.EXITED, 0.0, 1)),
        messages.failed(Exit(ExitKind.EXITED, 0.0, signal=9), retry=1, retries=3),
        messages.failed(Exit(ExitKind.EXITED, 0.0, signal=64)),
        messages.failed(Exit(ExitKind.REFUSED, 0.0, detail="No program of that name.")),
        messages.failed(Exit(ExitKind.OVER_DISK, 0.0, signal=15, detail="It keeps 2.0 GiB.")),
        messages.finished_by("susan"),
        messages.ended_cleanly(saved=True),
        messages.ended_cleanly(saved=False),
        messages.never_saved(0.0),
        messages.never_saved(40.0),
        messages.evicted("Its pod was deleted from outside the pool."),
        messages.held_and_resumed("susan"),
        messages.succeeded("TypeError: cannot pickle it"),
        messages.asked_again(3, 40.0),
    ]
    texts = [sentences.text(reason) for reason in reasons]
    assert all(text.endswith((".", "!")) for text in texts)
    assert len(set(texts)) == len(texts)
    assert "1 h" in texts[2]
    assert "SIGKILL" in texts[11]
    assert "retry 1 of 3" in texts[11]
    assert "No program of that name." in texts[13]
    assert texts[14] == "It was ended: it keeps too much on the disk. It keeps 2.0 GiB."


class TestMovesOnHold:
    """The pool moves jobs to make room; one on hold that it moves arrives: it would have run on otherwise."""

    HOLD = Hold("admin", "Its data may not be used.", 150.0)

    def moved(self) -> JobRecord:
        held = lifecycle.put_on_hold(running(), self.HOLD, 150.0)[0]
        there = (Worker(0, "other", (0, 1)),)
        return gone(lifecycle.pause(held, RECLAIM, 150.0, there)[0], code=75, paused=True)

    def test_a_moved_job_goes_on_where_it_was_moved_to(self) -> None:
        waits = self.moved()
        assert (waits.state, waits.standing.hold, waits.is_idle) == ("paused", self.HOLD, False)

    def test_it_does_not_start_again_once_it_has_no_place(self) -> None:
        assert self.moved().with_standing(reserved=()).is_idle

    def test_a_waiting_job_that_is_put_on_hold_gives_its_place_back(self) -> None:
        waits = job().with_standing(reserved=(Worker(0, "other", (0, 1)),))
        assert lifecycle.put_on_hold(waits, self.HOLD, 150.0)[0].is_idle

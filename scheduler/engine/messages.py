"""The reasons that the engine gives itself. `springtide.scheduler.sentences` has their sentences."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from math import ceil, inf
from types import MappingProxyType
from typing import TypeAlias

from springtide.scheduler import model, wording
from springtide.scheduler.budgets import month_named
from springtide.scheduler.executors.base import Exit, ExitKind
from springtide.scheduler.model import Closure, HomeAccess, Node, Placement, Reason, Spread
from springtide.scheduler.store.records import Edited, Hold
from springtide.scheduler.store.tables import POOL, BookingRecord, BudgetRecord
from springtide.scheduler.wording import utc

Params: TypeAlias = Mapping[str, str | int | float | tuple[str, ...] | None]
"""Parameters of a reason, or some of them."""
SweepNumbers: TypeAlias = Mapping[str, int]
"""Numbers of a sweep's trials: ``number``, ``ended``, ``running``; the ``gpus`` of these, and how many are
``borrowed``."""

COARSE = ((172_800.0, 86_400.0), (7_200.0, 3_600.0), (1_200.0, 600.0), (60.0, 60.0))
"""By the least of them, to what estimated durations are rounded, in seconds."""
CANCEL = model.CANCEL
TIME_LIMIT = model.TIME_LIMIT
HELD = "engine-held"
HELD_AND_RESUMED = "engine-held-and-resumed"
DID, DID_GIVE, DID_EDIT = "did-", "did-give", "did-edit"
REACHED_LIMIT, PASSED = "engine-time-limit", "test-run-long-enough"
TIME_IS_UP = frozenset({REACHED_LIMIT, PASSED})
"""Codes of ends at the time limit."""
NEVER_SAVED = "engine-never-saved"
FINISHED = "engine-finished"
NOT_LAUNCHED = "engine-not-launched"
NOT_STOPPED = "engine-not-stopped"
BLOCKED = "engine-blocked"
CLOSED_TO_OWNER = "engine-closed-to-owner"
NEXT_WITHOUT_GPUS = "without-gpus-next"


NODE_NOT_READY = "node-not-ready"
CLOSED = {
    Closure.NOT_READY: NODE_NOT_READY,
    Closure.LEAVING: "node-leaving",
    Closure.CORDONED: "node-cordoned",
}
"""The codes about a job's node, the most important one first."""
OVER = frozenset({"engine-paused-for-hold", "engine-paused-for-freeze"})
"""Codes of causes of a pause that are over once the job waits for GPUs again."""


def held_by(by: str, *, kept: bool = False) -> Reason:
    """Return a user paused the job; ``kept`` says that it was paused already, for another reason."""
    return Reason(HELD, {"by": by, **({"kept": True} if kept else {})})


def on_hold(hold: Hold, *, runs: bool = False) -> Reason:
    """Return the job is on hold; one that ``runs`` is not started again."""
    by = "" if hold.by == POOL else hold.by
    if hold.project:
        return Reason("engine-frozen-runs" if runs else "engine-frozen", _frozen(hold))
    return Reason("engine-on-hold-runs" if runs else "engine-on-hold", {"by": by, "detail": hold.reason})


def did(what: str, by: str, **about: str | tuple[str, ...]) -> Reason:
    """Return the person ``by``, or the pool if that is empty or the pool's name, did something to a job."""
    return Reason(f"{DID}{what}", {"by": "" if by == POOL else by, **about})


def edited(edit: Edited, project: str) -> Reason:
    """Return what another person than its owner changed of a job, which is of ``project`` now, and why."""
    to = project if edit.moved else ""
    values = {"options": edit.options, "was": edit.was, "now": edit.now}
    return Reason("engine-edited", {"by": edit.by, **values, "detail": edit.reason, "project": to})


def paused_for_hold(hold: Hold) -> Reason:
    """Return the job was paused because it was put on hold, or its project was frozen."""
    if hold.project:
        return Reason("engine-paused-for-freeze", _frozen(hold))
    return Reason("engine-paused-for-hold", {"by": hold.by, "detail": hold.reason})


def _frozen(hold: Hold) -> dict[str, str]:
    """Return who froze a project and why; the time at which that ends by itself is in UTC."""
    ends = "" if hold.until is None else utc(hold.until)
    return {"by": hold.by, "detail": hold.reason, "project": hold.project, "ends": ends}


def closed_node(placement: Placement, node_of: Callable[[str], Node | None]) -> Reason | None:
    """Return which node of a placement the cluster has closed, the one that matters most; None if none is."""
    found = (node for worker in placement if (node := node_of(worker.node)) is not None)
    closed = {node.name: node for node in found if node.closure is not None}
    for closure, code in CLOSED.items():
        here = [node for node in closed.values() if node.closure is closure]
        if here:
            since = here[0].closed_since
            said = "" if since is None else utc(since)
            return Reason(code, {"node": here[0].name, "others": len(here) - 1, "since": said})
    return None


def budget_words(budget: BudgetRecord, currency: str) -> dict[str, str | float]:
    """Return the budget of a project in its month, as parameters of reasons."""
    return {
        "budget_of": budget.project,
        "budget_month": wording.month(budget.month).partition(" ")[0],
        "budget_spent": budget.spent,
        "budget_amount": budget.amount,
        "budget_unit": budget.unit.value,
        "budget_currency": currency,
        "budget_beyond": budget.beyond.value,
        "budget_until": wording.dated(month_named(budget.month, UTC).end, UTC),
    }


def budget(record: BudgetRecord, currency: str) -> Reason:
    """Return what a project has spent of its budget in the month, and what follows once it is spent."""
    return Reason("notify-budget-over" if record.is_over else "notify-budget", budget_words(record, currency))


def drained_until(ends: Sequence[tuple[str, float]]) -> dict[str, tuple[str, ...]]:
    """Return which nodes and GPUs are drained and until when, in UTC, as parameters of why a job waits."""
    return {"drained": tuple(name for name, _ in ends), "drained_until": tuple(utc(until) for _, until in ends)}


def booked(booking: BookingRecord) -> dict[str, str]:
    """Return the times of a booking, in UTC, and its reason, as parameters of why a job waits."""
    return {"starts": utc(booking.start), "ends": utc(booking.end), "detail": booking.why}


def closes(nodes: Sequence[str], booking: BookingRecord) -> Reason:
    """Return for which maintenance of its ``nodes`` a running job will be paused."""
    return Reason("engine-closes", {"nodes": tuple(nodes), **booked(booking)})


def starts_after_drains(waits: Reason) -> Reason:
    """Return that the start of a job is unknown until the drains end that ``waits`` names."""
    return Reason("engine-starts-drained", {key: waits.params[key] for key in ("drained", "drained_until")})


def starts_after_month(waits: Reason) -> Reason:
    """Return that the start of a job is unknown until the budget that ``waits`` names begins anew."""
    return Reason("engine-starts-budget", {key: waits.params[key] for key in ("budget_of", "budget_until")})


def node_drained(node: str, by: str, why: str, *, gpus: bool = True) -> Reason:
    """Return an admin drained a node of the job, and gave ``why`` as the reason, or nothing.

    ``gpus`` says that the job needs GPUs, so that it can continue elsewhere.
    """
    return Reason("engine-drained" if gpus else "without-gpus-paused", {"node": node, "by": by, "detail": why})


def gpu_drained(gpu: int, node: str, by: str, why: str) -> Reason:
    """Return a GPU of the job was drained, as ``why`` says: by an admin, or for a fault if ``by`` is empty."""
    return Reason("engine-gpu-drained", {"gpu": gpu, "node": node, "by": by, "detail": why})


def moved_off(by: str) -> Reason:
    """Return an admin had the job leave its GPUs, which are not all ones that the pool gives to jobs."""
    return Reason("engine-moved-off", {"by": by})


def cancelled_by(by: str) -> Reason:
    """Return a user cancelled the job."""
    return Reason("engine-cancelled", {"by": by})


def time_limit(seconds: float) -> Reason:
    """Return the job ran as long as it may."""
    return Reason(REACHED_LIMIT, {"seconds": seconds})


def tested_long_enough(seconds: float) -> Reason:
    """Return the test run ran as long as one does, without a failure."""
    return Reason(PASSED, {"seconds": seconds})


def awaits_test(stage: str) -> Reason:
    """Return the job waits until its test run, which is at this stage, has passed."""
    return Reason("test-run-first", {"stage": stage})


def test_failed(why: str) -> Reason:
    """Return the job ended with its test run, which failed for the reason ``why``, as its sentences have it."""
    return Reason("test-run-failed", {"detail": why})


def test_cancelled(by: str) -> Reason:
    """Return the job ended with its test run, which a user cancelled."""
    return Reason("test-run-cancelled", {"by": by})


def held_and_resumed(by: str) -> Reason:
    """Return a user paused the job, and it was resumed before it had stopped."""
    return Reason(HELD_AND_RESUMED, {"by": by})


def succeeded(lost_result: str = "", *, returned: bool | None = None) -> Reason:
    """Return the job is done; ``lost_result`` says why its result could not be kept, if it could not.

    ``returned``: whether its function has returned, None if it called none.
    """
    if returned is False:
        return Reason("engine-succeeded", {"returned": 0})
    return Reason("engine-succeeded", {"lost_result": lost_result} if lost_result else {})


def succeeded_before(ended: Exit, lost_result: str) -> Reason:
    """Return the function of the job had returned before its process ended, with another exit code than 0."""
    return Reason("engine-succeeded", {**_code_or_signal(ended), **succeeded(lost_result).params})


def finished_by(by: str) -> Reason:
    """Return a user marked the job as finished."""
    return Reason(FINISHED, {"by": by})


def ended_cleanly(*, saved: bool) -> Reason:
    """Return the attempt ended with exit code 0 when it was asked to pause; ``saved`` is as for `lost`."""
    return Reason("engine-ended-cleanly", {"saved": int(saved)})


def never_saved(lost: float) -> Reason:
    """Return no checkpoint was known when the job was interrupted after ``lost`` seconds of run time."""
    return Reason(NEVER_SAVED, {"lost": lost})


def evicted(detail: str) -> Reason:
    """Return something other than the pool asked the attempt to stop; ``detail`` says what."""
    return Reason("engine-evicted", {"detail": detail})


def asked_to_pause() -> Reason:
    """Return the attempt was asked to pause, and nothing more is known."""
    return Reason("engine-paused")


def asked_again(quick: int = 0, wait: float = 0.0) -> Reason:
    """Exit 75 after progress, ``quick`` times in a row after a short time; it waits for ``wait`` seconds."""
    return Reason("engine-again", {"quick": quick, "wait": wait} if quick > 1 else {})


def asked_again_in_vain(times: int, limit: int) -> Reason:
    """Exit 75 without progress."""
    return Reason("engine-again-in-vain", {"times": times, "limit": limit})


def fruitless(times: int) -> Reason:
    """Exit 75 without progress, too often."""
    return Reason("engine-fruitless", {"times": times})


def lost(detail: str, *, saved: bool) -> Reason:
    """Return the attempt's node or supervisor vanished; ``saved`` says that the job has a checkpoint."""
    return Reason("engine-lost", {"detail": detail, "saved": int(saved)})


def blocked(detail: str) -> Reason:
    """Return something outside of the job kept the attempt from starting, as ``detail`` says."""
    return Reason(BLOCKED, {"detail": detail})


def closed_to_owner(detail: str, former: str, user: str) -> Reason:
    """Return a job that ``former`` had does not start as that of its owner ``user``, as ``detail`` says."""
    return Reason(CLOSED_TO_OWNER, {"detail": detail, "former": former, "user": user})


def withheld(detail: str) -> Reason:
    """Return the job is not tried at present, because several others could not be started, as ``detail`` says."""
    return Reason("engine-withheld", {"detail": detail})


def store_trouble(detail: str) -> Reason:
    """Return nothing starts, because the pool's store takes no writes."""
    return Reason("engine-store", {"detail": detail})


def not_launched(detail: str) -> Reason:
    """Return the executor could not start the attempt so far, and tries again."""
    return Reason(NOT_LAUNCHED, {"detail": detail})


def not_stopped(detail: str) -> Reason:
    """Return the executor could not ask the attempt to end so far, and tries again."""
    return Reason(NOT_STOPPED, {"detail": detail})


def started_without_gpus() -> Reason:
    """Return a job without GPUs started, because its project had room for one."""
    return Reason("without-gpus-started")


def next_without_gpus() -> Reason:
    """Return a job without GPUs starts next."""
    return Reason(NEXT_WITHOUT_GPUS)


def enough_without_gpus(line: tuple[str, int], running: int, most: int, place: int) -> Reason:
    """Return a job without GPUs waits because ``running`` of its line run already, of at most ``most``.

    The ``line`` is a project, and the number of jobs whose programs led to those in it.
    """
    project, steps = line
    params: dict[str, str | int | float | tuple[str, ...] | None] = {"project": project, "running": running}
    params |= {"most": most, "place": place}
    if steps:
        params["steps"] = steps
    return Reason("without-gpus-limit", params)


def out_of_service() -> Reason:
    """Return a job without GPUs waits because the machine is drained."""
    return Reason("without-gpus-drained")


def starts_unknown(why: str, days: float = 0.0) -> Reason:
    """Return a job's start, or its latest start, is unknown; ``days`` is the horizon of the forecast."""
    return Reason(f"engine-starts-{why}", {"days": days} if days else {})


def starts_unmeasured(within: float | None) -> Reason:
    """Return that a job's start depends on unknown run times, which are at most ``within`` seconds if bounded."""
    if within is None:
        return starts_unknown("unmeasured")
    step = _FINE if within < 60 * _FINE else _COARSE
    return Reason("engine-starts-unmeasured", {"within": step * ceil(within / step)})


_FINE, _COARSE = 60.0, 600.0
"""Units of bounds below an hour and above, in seconds, so that a bound stays the same for a while."""


def failed(ended: Exit, retry: int = 0, retries: int = 0) -> Reason:
    """Return the attempt failed; with ``retry``, it is tried again."""
    what = "exit" if ended.kind is ExitKind.EXITED else ended.kind.value
    params: dict[str, str | int | float | tuple[str, ...] | None] = {"kind": what, "detail": ended.detail}
    params |= _code_or_signal(ended)
    if retry:
        params |= {"retry": retry, "retries": retries}
    return Reason("engine-failed", params)


def _code_or_signal(ended: Exit) -> dict[str, str | int]:
    if ended.signal is not None:
        return {"signal": _signal_name(ended.signal)}
    return {} if ended.code is None else {"code": ended.code}


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def starting(gpus: int, borrowed: int, packages: int, home: HomeAccess = HomeAccess.USUAL) -> Reason:
    """Return an attempt is being started on ``gpus`` GPUs, the last ``borrowed`` of them beyond the quota.

    ``packages`` is the number of packages that it requires, which are installed before. ``home`` is how it has the
    home of its user.
    """
    added = {**({"packages": packages} if packages else {}), **({"home": home.value} if home else {})}
    return Reason("starting", {"gpus": gpus, "borrowed": borrowed, **added})


def running(
    gpus: int,
    borrowed: int,
    workers: int,
    most: int,
    *,
    unsaved: bool = False,
    room: tuple[float, float] | None = None,
    never_saved: float | None = None,
    deleted: bool = False,
    unused: tuple[float, float] | None = None,
    slow: Params = MappingProxyType({}),
    home: HomeAccess = HomeAccess.USUAL,
) -> Reason:
    """Return the job runs on ``gpus`` GPUs, with ``workers`` of at most ``most`` workers.

    ``unsaved`` says that its newest checkpoint did not fit on the disk, ``room`` that its result does not: for how
    many more seconds it waits for room, and until when. ``never_saved`` says that it can be paused and
    has no checkpoint: the run time that this would lose at least, in seconds; ``deleted``, that it had some.
    ``unused`` are the seconds for which it has hardly used its GPUs, and their mean utilization in that time, from
    0 to 1. ``slow`` is a `slow_placement`, ``home`` how it has the home of its user.
    """
    params: dict[str, str | int | float | tuple[str, ...] | None]
    params = {"gpus": gpus, "borrowed": borrowed, "workers": workers, "most": most}
    if unsaved:
        params["unsaved"] = 1
    if room is not None:
        params |= {"awaits_room": 1, "seconds": room[0], "until": room[1]}
    if never_saved is not None:
        params |= {"never_saved": 1, "lost": never_saved, **({"deleted": 1} if deleted else {})}
    if unused is not None:
        params |= {"unused_seconds": unused[0], "used_percent": round(100 * unused[1])}
    if home:
        params["home"] = home.value
    return Reason("running", {**params, **slow})


def slow_placement(
    spread: Spread, faster: Spread, times: float, *, runs: tuple[int, int], works: int, longer: float
) -> Params:
    """Return that jobs were ``times`` as fast with the spread ``faster`` as with ``spread``.

    ``runs`` are the numbers of runs with each of them, of the same work; or ``works`` is the number of other works
    that show it. ``longer`` is how much longer the rest of the job takes, in seconds, 0 if that is unknown.
    """
    return {
        "level": spread.level,
        "nodes": spread.nodes,
        "faster_level": faster.level,
        "faster_nodes": faster.nodes,
        "times": round(times, 2),
        "faster_runs": runs[0],
        "runs": runs[1],
        "works": works,
        "longer": _coarsely(longer),
    }


def _coarsely(seconds: float) -> float:
    """Return a duration as people estimate it, so that it rarely changes while a job runs; 0 below a minute."""
    step = next((step for least, step in COARSE if seconds >= least), 0.0)
    return step and round(seconds / step) * step


def pausing(gpus: int, *, saved: bool, found: str = "") -> Reason:
    """Return the job saves its work and gives its GPUs back; ``saved`` says that it has saved a checkpoint.

    ``found`` is the path of that one if it was recognised among the job's files: the job may save nothing more.
    """
    return Reason("pausing", {"gpus": gpus, "saved": int(saved), **({"found": found} if found else {})})


def stopping(gpus: int, seconds: float | None = None, until: float | None = None) -> Reason:
    """Return the job is being ended for good, and killed in ``seconds`` seconds, at ``until``; None: at once."""
    return Reason("stopping", {"gpus": gpus, **({} if seconds is None else {"seconds": seconds, "until": until})})


def counts_on(why: Reason) -> Params:
    """Return the parameters by which readers count on the time that a reason names; empty if it names none."""
    return {name: why.params[name] for name in ("seconds", "until") if "until" in why.params}


def not_finite(since: Mapping[str, float | None]) -> Reason | None:
    """Return since which step a metric is not finite, None if all are: the first one, and how many others."""
    if not since:
        return None
    first = min(since, key=lambda name: inf if (step := since[name]) is None else step)
    return Reason("not-finite", {"name": first, "step": since[first], "others": len(since) - 1})


def sweep(standing: SweepNumbers) -> Reason:
    """Return what the trials of a sweep do now."""
    return Reason("sweep", dict(standing))


def sweep_waits() -> Reason:
    """Return the reason that goes before why the next trial of a running sweep waits."""
    return Reason("sweep-waits")


def sweep_stopping(trials: int) -> Reason:
    """Return a cancelled sweep waits for the end of ``trials`` trials."""
    return Reason("sweep-stopping", {"trials": trials})


def sweep_ended(number: int, good: int, failed: int, cancelled: int) -> Reason:
    """Return all trials of a sweep have ended; the numbers are those of each outcome."""
    return Reason("sweep-ended", {"number": number, "good": good, "failed": failed, "cancelled": cancelled})


def population(standing: SweepNumbers) -> Reason:
    """Return what the members of a population do now: ``generation`` of ``generations``, of ``members``."""
    return Reason("population", dict(standing))


def population_copies(generation: int, generations: int) -> Reason:
    """Return the members of the next generation get their checkpoints."""
    return Reason("population-copies", {"generation": generation, "generations": generations})


def population_lost(generation: int, members: int, gone: int) -> Reason:
    """Return no member of a generation reached a value, so that the population ended."""
    return Reason("population-lost", {"generation": generation, "members": members, "gone": gone})


def population_stuck(generation: int, detail: str) -> Reason:
    """Return the checkpoints for a generation could not be copied, so that the sweep paused itself."""
    return Reason("population-stuck", {"generation": generation, "detail": detail})


def sweep_failing(failed: int) -> Reason:
    """Return the last ``failed`` trials of a sweep all failed, so that it paused itself."""
    return Reason("sweep-failing", {"failed": failed})

"""Why the scheduler started, paused or moved a job, or set GPUs aside for it."""

from __future__ import annotations

from collections.abc import Sequence

from springtide.scheduler.sentences.sentence import (
    Params,
    Sentences,
    Table,
    cause,
    follows,
    names,
    number,
    state,
    typed_gpus,
)
from springtide.scheduler.wording import amount, count, gpus, labelled, listed, plural, quoted


def quoted_name(p: Params, key: str) -> str:
    """Return the name of a job, a project or a person among the parameters."""
    return quoted(str(p.get(key) or ""))


def label(p: Params, key: str) -> str:
    """Return the name of a node, a rack or a host among the parameters."""
    return labelled(str(p.get(key) or ""))


def job_of(p: Params) -> str:
    """Return the beneficiary, for which another job makes room, with its user and project.

    It is ``a job`` if the reader may not see its name.
    """
    return f"{beneficiary(p)} of {_whose(p)}"


def beneficiary(p: Params) -> str:
    """Return the beneficiary alone: ``the job “bert”``, or ``a job`` if the reader may not see its name."""
    return f"the job {quoted_name(p, 'for_name')}" if p.get("for_name") else "a job"


def _whose(p: Params) -> str:
    """Return user and project of that job: ``susan in vision``, or ``susan`` for her own project."""
    project, user = quoted_name(p, "for_project"), quoted_name(p, "for_user")
    return f"{user} in {project}" if p.get("for_user") and user != project else project


def jobs_of(p: Params) -> str:
    """Return the names of several jobs and of their projects; empty if there are none.

    Of jobs whose names the reader may not see it is the number: ``2 jobs of “vision”``.
    """
    jobs = names(p, "names")
    projects = [quoted(name) for name in names(p, "projects")]
    whose = f" of {listed(projects)}" if projects else ""
    return f"{named_jobs(jobs)}{whose}" if jobs else ""


def named_jobs(jobs: Sequence[str]) -> str:
    """Return ``the jobs “a” and “b”``, or ``2 jobs`` if the reader may not see their names."""
    if not all(jobs):
        return plural(len(jobs), "a job", f"{amount(len(jobs))} jobs")
    return f"{plural(len(jobs), 'the job', 'the jobs')} {listed([quoted(name) for name in jobs])}"


def split(own: int, borrowed: int) -> str:
    """Return ``2 within the quota, 6 borrowed``, or only one of both if the other is 0."""
    if not borrowed:
        return "within the quota" if own == 1 else "all within the quota"
    if not own:
        return "borrowed" if borrowed == 1 else "all borrowed"
    return f"{amount(own)} within the quota, {amount(borrowed)} borrowed"


def holds_split(held: int, borrowed: int) -> str:
    """Return ``8 GPUs: 2 within the quota, 6 borrowed``."""
    own = held - borrowed
    return f"{gpus(held)}{': ' if own and borrowed else ', '}{split(own, borrowed)}"


def on_held(p: Params) -> str:
    """Return `` on 8 GPUs: 2 within the quota, 6 borrowed``, where jobs run; empty for jobs without GPUs.

    Jobs whose ``borrowed`` GPUs are not known have the number alone.
    """
    held = number(p, "gpus")
    if not held:
        return ""
    return f" on {gpus(held) if p.get('borrowed') is None else holds_split(held, number(p, 'borrowed'))}"


def _started(p: Params) -> Sentences:
    yield cause(f"It started on {gpus(number(p, 'gpus'))}, within the quota of {quoted_name(p, 'project')}.")


def _started_without_gpus(_: Params) -> Sentences:
    yield cause("It started without GPUs.")


def _started_borrowing(p: Params) -> Sentences:
    need = number(p, "gpus")
    borrowed = min(need, max(0, number(p, "held") + need - number(p, "quota")))
    yield cause(f"Enough GPUs were idle, so it started on {holds_split(need, borrowed)}.")


def _started_before(p: Params) -> Sentences:
    other = beneficiary(p) if p.get("for_name") else job_of(p)
    yield cause(f"It started on {gpus(number(p, 'gpus'))} reserved for {other}: it ends before that can start.")


def _fulfilled(p: Params) -> Sentences:
    yield cause(f"The {gpus(number(p, 'gpus'))} reserved for it became free.")


def _lost(p: Params) -> Sentences:
    nodes = [labelled(node) for node in names(p, "nodes")]
    yield cause(f"GPUs reserved for it on {listed(nodes)} are gone.")
    yield follows("It is back in line.")


def _refused(p: Params) -> Sentences:
    yield cause(f"{_project(p)} may no longer hold the {gpus(number(p, 'gpus'))} reserved for the job.")
    yield follows("It is back in line.")


def _outranked(p: Params) -> Sentences:
    reserved = number(p, "gpus")
    some = "the GPU" if reserved == 1 else f"some of the {gpus(reserved)}"
    yield cause(f"A job that goes first needs {some} reserved for it.")
    yield follows("It is back in line.")


def _replaced(p: Params) -> Sentences:
    need = number(p, "gpus")
    yield cause(f"It can have {gpus(need)} sooner than {plural(need, 'the one', 'those')} reserved for it.")


def _project(p: Params, key: str = "project") -> str:
    return f"The project {quoted_name(p, key)}"


def _grows(p: Params) -> Sentences:
    before, after = number(p, "before"), number(p, "workers")
    yield cause(f"GPUs became idle, so it grows from {amount(before)} to {count(after, 'worker')}.")


def _gang_broken(p: Params) -> Sentences:
    left, least = number(p, "workers"), number(p, "min_workers")
    if left:
        needed = count(least, "worker")
        yield cause(f"Only {amount(left)} of the {needed} that it needs {plural(left, 'was', 'were')} left.")
    else:
        yield cause("None of its workers was left.")


def _gang_mended(p: Params) -> Sentences:
    left = number(p, "before")
    yield cause(f"Only {count(left, 'worker')} {plural(left, 'was', 'were')} left.")
    yield follows(f"It continues with {count(number(p, 'workers'), 'worker')}.")


def _moved(p: Params) -> Sentences:
    yield cause(f"It had to move to other GPUs so that {job_of(p)} fits.")


def reserved(p: Params) -> Sentences:
    """Yield the job's reservation, with the holders of its GPUs."""
    need = number(p, "gpus")
    held = f" that {jobs_of(p)} {plural(len(names(p, 'names')), 'holds', 'hold')}" if names(p, "names") else ""
    yield state(f"It has a reservation for {gpus(need)}{held}.")


def reserved_until_stopped(p: Params) -> Sentences:
    """Yield the job's reservation, and that it starts once the holders of its GPUs have stopped."""
    need, holders = number(p, "gpus"), jobs_of(p)
    yield state(f"It has a reservation for {gpus(need)}.")
    if holders:
        have = plural(len(names(p, "names")), "has", "have")
        yield follows(f"It starts as soon as {holders} {have} stopped.")
    else:
        yield follows(f"It starts as soon as {plural(need, 'this is', 'these are')} free.")


def _made_room(p: Params) -> Sentences:
    return reserved_until_stopped(p)


def _promised(p: Params) -> Sentences:
    yield cause("It has waited long.")
    yield from reserved(p)


def _reserved_ahead(p: Params) -> Sentences:
    yield cause("These GPUs are its project's own.")
    yield from reserved(p)


def _made_way(p: Params) -> Sentences:
    if spared := jobs_of(p):
        who = f"{spared[0].upper()}{spared[1:]}"
        one = f"{who} was not paused instead: it was still within its minimum run time."
        several = f"{who} were not paused instead: they were still within their minimum run times."
        yield cause(plural(len(names(p, "names")), one, several))
    if kept := number(p, "keeps"):
        yield follows(f"It continues with {count(kept, 'worker')}.")


def _reclaimed(p: Params) -> Sentences:
    need = number(p, "gpus")
    request = f"its {gpus(need)} back" if p.get("within") else f"{gpus(need)} of its fair share"
    person = p.get("for_user")
    whose = f" of {quoted_name(p, 'for_user')}" if person and person != p.get("for_project") else ""
    job = f", for {beneficiary(p)}{whose}" if p.get("for_name") or whose else ""
    yield cause(f"The project {quoted_name(p, 'for_project')} asked for {request}{job}.")
    yield from _made_way(p)


def _limit_lowered(p: Params) -> Sentences:
    limit, held = typed_gpus(p, number(p, "limit")), number(p, "held")
    at = quoted_name(p, "at")
    if p.get("budget_of"):
        yield cause(
            f"The project {at} was over its budget for {p.get('budget_month')}, so that its jobs run only within "
            f"its quota, which is {limit}; it held {held}."
        )
    else:
        yield cause(f"The limit of the project {at} was lowered to {limit}, and it held {held}.")
    yield from _made_way(p)


def _node_closes(p: Params) -> Sentences:
    nodes = [labelled(name) for name in names(p, "nodes")]
    what = f"The {plural(len(nodes), 'node', 'nodes')} {listed(nodes)} {plural(len(nodes), 'closes', 'close')}"
    yield cause(f"{what} for maintenance.")
    yield follows("It runs again by itself as soon as GPUs are free for it.")


def _preempted(p: Params) -> Sentences:
    yield cause(f"It made way for {job_of(p)}, which has a higher priority.")
    yield from _made_way(p)


def _rotated(p: Params) -> Sentences:
    yield cause(f"It made way for {job_of(p)}, which has had less GPU time.")
    yield from _made_way(p)


def _rotated_for_shorter(p: Params) -> Sentences:
    yield cause(f"It made way for {job_of(p)}: jobs like that one usually need less GPU time.")
    yield from _made_way(p)


DECISIONS: Table = {
    "started": _started,
    "started-borrowing": _started_borrowing,
    "without-gpus-started": _started_without_gpus,
    "started-before": _started_before,
    "reservation-fulfilled": _fulfilled,
    "reservation-lost": _lost,
    "reservation-refused": _refused,
    "reservation-outranked": _outranked,
    "reservation-replaced": _replaced,
    "grows": _grows,
    "gang-broken": _gang_broken,
    "gang-mended": _gang_mended,
    "moved": _moved,
    "room-made": _made_room,
    "promised": _promised,
    "reserved-ahead": _reserved_ahead,
    "reclaimed": _reclaimed,
    "limit-lowered": _limit_lowered,
    "node-closes": _node_closes,
    "preempted": _preempted,
    "rotated": _rotated,
    "rotated-for-shorter": _rotated_for_shorter,
}

"""Why: each reason is a code with what fills its sentence, and `render` makes the sentence.

Codes of decisions: ``started``, ``started-borrowing``, ``reservation-fulfilled``, ``reservation-lost``,
``reservation-refused``, ``reservation-replaced``, ``grows``, ``moved``, ``room-made``, ``promised``,
``reclaimed``, ``preempted``, ``rotated``, ``gang-broken``, ``gang-mended``. Codes of waiting jobs: ``held``,
``back-off``, ``unknown-project``, ``over-limit``, ``beyond-quota``, ``too-large``, ``gang-too-large``,
``awaits-pause``, ``next``, ``share-used``, ``too-soon``, ``no-room``. Others: ``running``, ``pausing``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from springtide.scheduler.model import Job, Placement, Reason
from springtide.scheduler.policy.fair_share import UNLIMITED
from springtide.scheduler.policy.tree import Seat

Param = str | int | float | tuple[str, ...] | None
Params = Mapping[str, Param]

LISTED = 3
"""How many names a sentence spells out."""


def label(job: Job) -> str:
    """What people call the job."""
    return job.name or job.id


def _about(job: Job, **more: Param) -> dict[str, Param]:
    return {"job": job.id, "name": label(job), "project": job.project, **more}


def _quota(seat: Seat) -> int | None:
    return None if seat.quota == UNLIMITED else seat.quota


# ---------- decisions


def started(job: Job, leaf: Seat) -> Reason:
    """The job fits on free GPUs, within quota or borrowed."""
    need = job.gpus * job.min_workers
    code = "started" if leaf.claimed + need <= leaf.quota else "started-borrowing"
    return Reason(code, _about(job, gpus=need, quota=_quota(leaf), held=leaf.claimed))


def fulfilled(job: Job) -> Reason:
    """The GPUs reserved for the job are free."""
    return Reason("reservation-fulfilled", _about(job, gpus=len(job.reserved) * job.gpus))


def lent(job: Job, promised: Job) -> Reason:
    """The job ends before another can start for which its GPUs are set aside."""
    gpus = job.gpus * job.min_workers
    return Reason("started-before", _about(job, gpus=gpus, for_job=promised.id, for_name=label(promised)))


def node_gone(job: Job) -> Reason:
    """A node of the reservation is lost."""
    return Reason("reservation-lost", _about(job, nodes=tuple(sorted({worker.node for worker in job.reserved}))))


def refused_meanwhile(job: Job) -> Reason:
    """The job's project may not hold what was reserved any more: its quota or limit was lowered."""
    return Reason("reservation-refused", _about(job, gpus=len(job.reserved) * job.gpus))


def better_came(job: Job) -> Reason:
    """The job need not wait for what was promised: room can be made for it elsewhere."""
    return Reason("reservation-replaced", _about(job, gpus=len(job.reserved) * job.gpus))


def grows(job: Job, placed: Placement) -> Reason:
    """An elastic job gets more workers."""
    return Reason("grows", _about(job, workers=len(placed), before=len(job.placement)))


def broken(job: Job) -> Reason:
    """The gang has fewer workers than it needs."""
    return Reason("gang-broken", _about(job, workers=len(job.placement), min_workers=job.min_workers))


def mended(job: Job, placed: Placement) -> Reason:
    """The gang gets new workers for those it lost."""
    return Reason("gang-mended", _about(job, workers=len(placed), before=len(job.placement)))


def makes_room(job: Job, beneficiary: Job) -> Reason:
    """The job is moved to other GPUs so that another fits."""
    return Reason(
        "moved",
        _about(job, for_job=beneficiary.id, for_name=label(beneficiary), for_project=beneficiary.project),
    )


def room_was_made(job: Job, victims: Sequence[Job]) -> Reason:
    """GPUs are set aside until those who hold them have stopped."""
    return Reason(
        "room-made",
        _about(
            job,
            gpus=job.gpus * job.min_workers,
            jobs=tuple(each.id for each in victims),
            names=tuple(label(each) for each in victims),
            projects=tuple(sorted({each.project for each in victims})),
        ),
    )


def promised(job: Job, holders: Sequence[Job]) -> Reason:
    """GPUs are set aside that others still use, for the job has waited too long."""
    return Reason(
        "promised",
        _about(
            job,
            gpus=job.gpus * job.min_workers,
            jobs=tuple(each.id for each in holders),
            names=tuple(label(each) for each in holders),
            projects=tuple(sorted({each.project for each in holders})),
        ),
    )


def made_way(victim: Job, theirs: Seat, job: Job, mine: Seat, *, kind: str, keeps: int) -> Reason:
    """The job is paused, or gives up workers and keeps some, for another."""
    return Reason(
        kind,
        _about(
            victim,
            for_job=job.id,
            for_name=label(job),
            for_project=job.project,
            for_user=job.user,
            gpus=job.gpus * job.min_workers,
            within=int(mine.claimed + job.gpus * job.min_workers <= mine.quota),
            held=theirs.claimed,
            quota=_quota(theirs),
            keeps=keeps,
        ),
    )


# ---------- sentences


def render(reason: Reason) -> str:
    """The reason as a sentence, without a capital or a full stop. Names in it are as users wrote them."""
    return SENTENCES.get(reason.code, _plainly)(reason.params)


def _plainly(params: Params) -> str:
    return ", ".join(f"{key} {value}" for key, value in sorted(params.items()))


def _gpus(count: Param) -> str:
    return f"{count} GPU" if count == 1 else f"{count} GPUs"


def _are(count: Param) -> str:
    return f"{count} is" if count == 1 else f"{count} are"


def _listed(names: Param) -> str:
    some = list(names) if isinstance(names, tuple) else []
    if len(some) > LISTED:
        some = [*some[:LISTED], f"{len(some) - LISTED} more"]
    return " and ".join([", ".join(some[:-1]), some[-1]]) if len(some) > 1 else "".join(some)


def _of(names: Param) -> str:
    return f" of {_listed(names)}" if names else ""


def _types(types: Param) -> str:
    return f" {'/'.join(types)}" if isinstance(types, tuple) and types else ""


def _held_of(p: Params) -> str:
    quota = p["quota"]
    return (
        f"{p['project']} holds {p['held']}"
        if quota is None
        else f"{p['project']} holds {p['held']} of its {quota}"
    )


def _made_way(p: Params) -> str:
    return f"gives up workers and keeps {p['keeps']}, for" if p["keeps"] else "paused for"


def _reclaimed(p: Params) -> str:
    asked = f"its {_gpus(p['gpus'])} back" if p["within"] else f"{_gpus(p['gpus'])} of its fair share"
    return f"{p['for_project']} asked for {asked}: {_made_way(p)} {p['for_name']}"


def _room_made(p: Params) -> str:
    when = f"{_listed(p['names'])}{_of(p['projects'])} stopped" if p["names"] else "they are free"
    return f"{_gpus(p['gpus'])} are reserved for it: starts as soon as {when}"


def _what(p: Params) -> str:
    gpus, workers = p["gpus"], p["workers"]
    return f"a {gpus}-GPU job" if workers == 1 else f"a gang of {workers} workers"


def _beyond_share(p: Params) -> str:
    """The job is more than the project may hold at all, whatever of its own ended."""
    quota = f"its quota were {p['wanted']} or " if p["wanted"] is not None else ""
    need = "needs more" if p["workers"] == 1 else f"with {_gpus(p['gpus'])} each needs more"
    return (
        f"{_what(p)} {need} than the {p['may_hold']} it may hold right now;"
        f" it would start if {quota}others asked for less"
    )


def _lacking(p: Params) -> str:
    """What the job needs, where most of it is free, and whose end would do."""
    gpus, workers = p["gpus"], p["workers"]
    need = f"needs one node with {gpus} free" if workers == 1 else f"needs {workers} times {gpus} free GPUs"
    what = _what(p)
    where = f"; {_are(p['node_free'])} free on {p['node']}" if p["node_free"] else "; none is free"
    if workers != 1:
        where = f"; {_are(p['free'])} free in all"
    if p["reserved"]:
        where += f"; {_are(p['reserved'])} reserved for others"
    if p.get("if_name") is None:
        return f"{what} {need}{where}"
    whose = f"{p['if_project']}'s {'borrowed ' if p.get('if_borrowed') else ''}job {p['if_name']}"
    return f"{what} {need}{where}; it would start if {whose} ended"


SENTENCES: Mapping[str, Callable[[Params], str]] = {
    "started": lambda p: f"{p['project']} is within its quota: starts on {_gpus(p['gpus'])}",
    "started-borrowing": lambda p: f"GPUs are idle: starts on {_gpus(p['gpus'])}, borrowed by {p['project']}",
    "started-before": lambda p: (
        f"starts on {_gpus(p['gpus'])} set aside for {p['for_name']}: it ends before that can start"
    ),
    "reservation-fulfilled": lambda p: f"the {_gpus(p['gpus'])} reserved for it are free: starts",
    "reservation-lost": lambda p: f"its reserved GPUs on {_listed(p['nodes'])} are gone: back in line",
    "reservation-refused": lambda p: (
        f"{p['project']} may not hold the {_gpus(p['gpus'])} reserved for it any more: back in line"
    ),
    "reservation-replaced": lambda p: f"room for its {_gpus(p['gpus'])} can be made sooner elsewhere",
    "grows": lambda p: f"GPUs are idle: grows from {p['before']} to {p['workers']} workers",
    "gang-broken": lambda p: f"only {p['workers']} of at least {p['min_workers']} workers are left: stops",
    "gang-mended": lambda p: f"{p['before']} workers were left: restarts with {p['workers']}",
    "moved": lambda p: f"moves to other GPUs so that {p['for_name']} of {p['for_project']} fits",
    "room-made": _room_made,
    "promised": lambda p: (
        f"has waited for long: gets {_gpus(p['gpus'])} as soon as {_listed(p['names'])}{_of(p['projects'])} ended"
    ),
    "reclaimed": _reclaimed,
    "preempted": lambda p: f"{p['for_name']} of {p['for_project']} has a higher priority: {_made_way(p)} it",
    "rotated": lambda p: f"{p['for_name']} of {p['for_project']} has had less GPU time: {_made_way(p)} it",
    "held": lambda _: "paused by its user; it continues when resumed",
    "back-off": lambda p: f"it failed; the next try is in {p['seconds']} s",
    "unknown-project": lambda p: f"there is no project {p['project']}",
    "over-limit": lambda p: (
        f"{p['at']} holds {p['held']} of its limit of {p['limit']}; it needs"
        f" {_gpus(p['gpus'])} more; it would start if the limit were higher or other jobs of {p['at']} ended"
    ),
    "beyond-quota": lambda p: (
        f"a job that is not preemptible must fit in the quota; {p['at']} has {p['firm']} of its"
        f" {p['quota']} in such jobs and it needs {_gpus(p['gpus'])}; it would start if it were preemptible"
    ),
    "too-large": lambda p: (
        f"a worker needs {_gpus(p['gpus'])} on one node; the largest{_types(p['gpu_types'])} node"
        f" has {p['largest']}"
    ),
    "gang-too-large": lambda p: (
        f"it needs {p['workers']} workers with {_gpus(p['gpus'])} each;"
        f" all{_types(p['gpu_types'])} nodes together have room for {p['most']}"
    ),
    "awaits-pause": lambda p: (
        f"{_gpus(p['gpus'])} are reserved for it: starts as soon as"
        f" {_listed(p['names'])}{_of(p['projects'])} stopped"
    ),
    "next": lambda p: f"{_gpus(p['gpus'])} are free for it: it starts next",
    "share-used": lambda p: f"{_held_of(p)}; {_beyond_share(p) if 'may_hold' in p else _lacking(p)}",
    "too-soon": lambda p: (
        f"{_held_of(p)}; {_lacking(p)}; who would make way has only just started and is left"
        f" alone for {p['seconds']} s more"
    ),
    "no-room": lambda p: f"{_held_of(p)}; {_lacking(p)}",
    "running": lambda _: "it runs",
    "pausing": lambda _: "it is being paused",
}

"""Why a job waits, the changes that would let it start, and its position in the queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from springtide.scheduler.model import Alternative, Amount, StartsIf
from springtide.scheduler.sentences.acts import edit_words
from springtide.scheduler.sentences.budgets import is_limit
from springtide.scheduler.sentences.decisions import (
    label,
    named_jobs,
    quoted_name,
    reserved,
    reserved_until_stopped,
)
from springtide.scheduler.sentences.sentence import (
    Params,
    Role,
    Sentence,
    Sentences,
    Table,
    cause,
    change,
    detail,
    ease,
    first_drains,
    follows,
    gpu_noun,
    names,
    number,
    real,
    state,
    typed_gpus,
)
from springtide.scheduler.wording import (
    ago,
    amount,
    cores_and_memory,
    count,
    duration,
    gpus,
    labelled,
    listed,
    ordinal_place,
    plural,
    quoted,
    roughly,
)

NEVER = "The pool as it is can never run it."


MOST_NAMED = 3
"""Maximum number of jobs that a sentence names."""
MOST_NEW_NODES = 16
"""Maximum number of new nodes that a sentence asks for."""
STARTS_NEVER = frozenset({"engine-starts-never", "engine-starts-drained", "engine-starts-budget"})
"""Codes for a job that does not start even after the end of all running jobs."""
AT_ONCE_S = 10.0
"""Time below which a start is expected at once, in seconds; front ends say "any moment"."""


def _held(_: Params) -> Sentences:
    yield state("It was paused by its user.")
    yield follows("It runs again when it is resumed.")


def _back_off(p: Params) -> Sentences:
    yield follows(f"It can run again in {roughly(max(1.0, real(p, 'seconds')))}.")


def _unknown_project(p: Params) -> Sentences:
    yield state(f"There is no project {quoted_name(p, 'project')}.")
    yield change("It can start when there is one.")


def _over_limit(p: Params) -> Sentences:
    need, limit, at = number(p, "gpus"), number(p, "limit"), quoted_name(p, "at")
    if need > limit:
        most = typed_gpus(p, limit) if limit else f"no {gpu_noun(p)}"
        yield state(
            f"The project {at} may hold {f'at most {most}' if limit else most}, and the job needs {amount(need)}."
        )
        if not is_limit(p):
            yield change("With this limit it can never start.")
        return
    held, claimed = number(p, "held"), number(p, "claimed")
    waits = claimed - held
    more = f", {amount(waits)} more {plural(waits, 'is', 'are')} reserved for it" if waits > 0 else ""
    holds = amount(held) if held else "none"
    yield state(
        f"The project {at} may hold at most {typed_gpus(p, limit)}:"
        f" it holds {holds}{more}, and the job needs {amount(need)}."
    )


def _limit_held(p: Params) -> Sentences:
    yield state(f"Pausing jobs still hold GPUs within the limit of {quoted_name(p, 'at')}.")
    yield follows("It starts when they have stopped.")


def _bound(p: Params) -> Sentences:
    need, at = number(p, "gpus"), quoted_name(p, "at")
    yield state(f"After a long wait {gpus(need)} {plural(need, 'is', 'are')} reserved for it.")
    yield follows(f"Other jobs of the project {at} have to end first: it may hold no more.")


def _beyond_quota(p: Params) -> Sentences:
    need, quota, at = number(p, "gpus"), number(p, "quota"), quoted_name(p, "at")
    firm = number(p, "firm")
    yield state("Non-preemptible jobs must fit in the quota together.")
    have = f"such jobs have {amount(firm) if firm else 'none'} of it, and this one needs {amount(need)}"
    of_them = f" of {gpu_noun(p)}s" if p.get("of_type") else ""
    if below := number(p, "below"):
        left = f"{amount(quota) if quota else 'none'} to its own jobs"
        yield state(
            f"The projects below {at} have {typed_gpus(p, below)} of its quota, which leaves {left}: {have}."
        )
    else:
        quota_is = f"The quota of {at} is {typed_gpus(p, quota)}, {have}."
        yield state(quota_is if quota else f"The project {at} has no quota{of_them}.")
    if need > quota:
        yield change("With this quota it can never start.")


def _typed(p: Params, noun: str) -> str:
    """Return the noun with the GPU types that the job accepts: ``GPU``, ``v100 GPU``, ``v100 or t4 node``."""
    types = " or ".join(labelled(gpu_type) for gpu_type in names(p, "gpu_types"))
    return f"{types} {noun}" if types else noun


def _with_rdma(p: Params) -> str:
    """Return the suffix for the job's nodes if its workers need RDMA, else an empty text."""
    return " with RDMA" if number(p, "rdma") else ""


def _too_large(p: Params) -> Sentences:
    need, largest, node = gpus(number(p, "gpus")), number(p, "largest"), _typed(p, "node")
    who = "Each worker" if number(p, "workers") > 1 else "It"
    node += _with_rdma(p)
    has = f"and the largest {node} has {amount(largest)}" if largest else f"and no {node} can be used now"
    yield state(f"{who} needs {need} on one node, {has}.")
    yield from _full_groups(p)
    yield from _never(p, NEVER if largest else f"It can start when a {node} can be used again.")


def _per_gpu_too_large(p: Params) -> Sentences:
    who = "Each worker" if number(p, "workers") > 1 else "It"
    request, most = (cores_and_memory(real(p, f"{way}cpus"), real(p, f"{way}memory")) for way in ("", "most_"))
    need = _gpus(p)
    node = f"node{_with_rdma(p)}"
    yield state(f"{who} needs {request} with {need}, and no {node} has that for {need}: the nearest has {most}.")
    yield from _never(p)


def _no_rdma(p: Params) -> Sentences:
    who = f"Each worker with {_gpus(p)}" if number(p, "workers") > 1 else "It"
    yield state(
        f"{who} needs RDMA, and no {_typed(p, 'node')} that can be used now has it for a worker of that size."
    )
    yield from _full_groups(p)
    yield from _never(p)


def _suitable(p: Params) -> Sentences:
    """Yield on how many nodes a worker with further requests than GPUs can run, if not on all."""
    if "suitable" in p:
        amounts, suitable = cores_and_memory(real(p, "cpus"), real(p, "memory")), number(p, "suitable")
        requests = [
            *([f"{amounts} for {gpus(number(p, 'gpus'))}"] if amounts else []),
            *(["RDMA"] if number(p, "rdma") else []),
        ]
        nodes = count(number(p, "nodes"), "such node" if names(p, "gpu_types") else "node")
        yield state(f"Only {amount(suitable)} of {nodes} {plural(suitable, 'has', 'have')} {listed(requests)}.")


def _gang_too_large(p: Params) -> Sentences:
    most = number(p, "most")
    have = f"all {_typed(p, 'node')}s{_with_rdma(p)} together have room for {amount(most) if most else 'none'}"
    yield state(f"It needs {_workers(p)}, and {have}.")
    yield from _full_groups(p)
    yield from _never(p)


def _no_level(p: Params) -> Sentences:
    level = label(p, "level")
    yield state(f"It has to be in one {level}, and no {_typed(p, 'node')}{_with_rdma(p)} has the label {level}.")
    yield from _full_groups(p)
    yield from _never(p)


def _domain_too_small(p: Params) -> Sentences:
    level, most = label(p, "level"), number(p, "most")
    what = _workers(p) if number(p, "workers") > 1 else _gpus(p)
    room = f"the largest has room for {amount(most)}" if most else "none has room for that"
    yield state(f"It needs {what} in one {level}, and {room}.")
    yield from _full_groups(p)
    yield from _never(p)


def _workers(p: Params) -> str:
    return f"{count(number(p, 'workers'), 'worker')} with {_gpus(p)} each"


def _gpus(p: Params) -> str:
    return count(number(p, "gpus"), _typed(p, "GPU"))


def _awaits(p: Params) -> Sentences:
    if p.get("seconds") is not None:
        yield state(f"It has a reservation for {gpus(number(p, 'gpus'))}.")
        rest = roughly(max(1.0, real(p, "seconds")))
        yield follows(f"Running jobs can be paused for it in {rest}, when their minimum run time is over.")
    elif p.get("pausing", 1):
        yield from reserved_until_stopped(p)
    else:
        yield from reserved(p)


def _next(_: Params) -> Sentences:
    yield state("Enough GPUs are free for it.")
    yield follows("It starts next.")


def _room(p: Params) -> Sentences:
    """Yield the job's request, the free GPUs, and the usage of its project."""
    need, workers, free, room = (number(p, key) for key in ("gpus", "workers", "node_free", "room"))
    aside, idle = number(p, "reserved"), number(p, "idle_reserved")
    what = _workers(p) if workers > 1 else _gpus(p)
    level = p.get("require")
    if room >= workers and level is not None:
        yield state(f"Waiting for {what} in one {labelled(str(level))}: none has room.")
    elif workers > 1:
        yield state(f"Waiting for {what}: {f'room for {amount(room)}' if room else 'no room'} now.")
    elif not free and idle:
        reserved = f"{amount(idle)} idle {plural(idle, 'one is', 'ones are')} reserved for others"
        yield state(f"Waiting for {what}{' on one node' if need > 1 else ''}: {reserved}.")
    elif need == 1 or not free:
        yield state(f"Waiting for {what}{' on one node' if need > 1 else ''}: none is free.")
    else:
        yield state(f"Waiting for {what} on one node: no node has more than {amount(free)} free.")
    yield from _suitable(p)
    if aside and (free or not idle):
        yield state(f"Reserved for others: {typed_gpus(p, aside)}.")
    yield from _full_groups(p)
    yield state(f"The project {quoted_name(p, 'at')} {_holds(p)}.")
    yield from _drained(p)


def _never(p: Params, otherwise: str = NEVER) -> Sentences:
    """Yield the drains after whose end the pool can run the job; without such ``otherwise``."""
    if names(p, "drained"):
        yield from _drained(p)
    elif undrain := names(p, "undrain"):
        yield change(f"It can start once {listed(undrain)} {plural(len(undrain), 'is', 'are')} undrained.")
    else:
        yield change(otherwise)


def _drained(p: Params) -> Sentences:
    """Yield until when nodes and GPUs are drained that the job could use."""
    if (drains := first_drains(p)) is not None:
        what, many = f"{drains.what[0].upper()}{drains.what[1:]}", drains.number
        yield follows(
            f"{what} {plural(many, 'is', 'are')} drained until {drains.end}, and {plural(many, 'comes', 'come')}"
            " back then."
        )


def _closes_first(p: Params) -> Sentences:
    """Yield that nodes close before the job would have left them, and the known run time of the job."""
    nodes = [labelled(name) for name in names(p, "nodes")]
    where = f"the {plural(len(nodes), 'node', 'nodes')} {listed(nodes)}"
    first = label(p, "first")
    if p.get("starts"):
        when = f"{first} is closed from {p['starts']} to {p['ends']}"
    else:
        when = f"{first} closes in {roughly(real(p, 'seconds'))}, for {duration(real(p, 'lasts'))}"
    yield state(f"It does not start on {where} now: {when}.")
    yield from detail(p)
    yield state(_needs(p))
    yield follows(f"It can start there afterwards{'' if p.get('only_there') else ', and elsewhere before that'}.")
    if limit := real(p, "limit"):
        yield change(f"It could start now with a time limit of {duration(limit // 60 * 60)}.")


def _needs(p: Params) -> str:
    needs = p.get("needs")
    if needs is None:
        return "It has no time limit, and cannot be paused."
    cannot = "has saved no checkpoint" if p.get("preemptible") else "cannot be paused"
    if not p.get("known") and not p.get("saves"):
        return f"How long it runs is unknown, and it {cannot}."
    if p.get("saves") and p.get("preemptible"):
        if not p.get("known"):
            return "How long it runs is unknown; the time left is too short for a pause."
        return f"It needs about {roughly(real(p, 'needs'))}; the time left is too short for a pause to pay."
    return f"It needs about {roughly(real(p, 'needs'))}, and {cannot}."


def _full_groups(p: Params) -> Sentences:
    """Yield the node groups that could hold the job but have reached their maximum."""
    if groups := names(p, "full_groups"):
        which = f"The node {plural(len(groups), 'group')} {listed([labelled(group) for group in groups])}"
        yield state(f"{which} {plural(len(groups), 'has or awaits', 'have or await')} as many nodes as allowed.")


def _awaits_node(p: Params) -> Sentences:
    """Yield that the present nodes have no room, and which nodes were requested from the cluster, and when."""
    what = (
        _workers(p) if number(p, "workers") > 1 else f"{_gpus(p)}{' on one node' if number(p, 'gpus') > 1 else ''}"
    )
    requested, most, group = number(p, "asked"), number(p, "most"), label(p, "group")
    yield state(f"No node that is there has room for {what} now.")
    have = f"has {amount(number(p, 'present')) if number(p, 'present') else 'none'} of at most {amount(most)}"
    if not requested:
        if error := p.get("error"):
            yield state(f"The cluster refuses a node of the group {group}: {str(error).rstrip('.')}.")
        else:
            yield follows(f"If that stays so, the pool requests a node of the group {group}, which {have}.")
        return
    nodes = (
        f"A node of the group {group} was"
        if requested == 1
        else f"Of the group {group} {amount(requested)} nodes were"
    )
    since = real(p, "since")
    yield state(f"{nodes} requested {ago(since, since + real(p, 'seconds'))}; the group {have}.")
    if p.get("late"):
        yield change("This takes unusually long: an administrator of the cluster can find the cause.")
    else:
        yield follows("It starts when there is room.")


def _holds(p: Params) -> str:
    """Return the project's usage, compared with its quota."""
    held, quota = number(p, "held"), p.get("quota")
    if quota is None:
        return f"holds {typed_gpus(p, held)}" if held else f"holds no {gpu_noun(p)}"
    own = number(p, "quota")
    if held > own:
        return (
            f"holds {typed_gpus(p, held)}: its {amount(own)} and {amount(held - own)} borrowed"
            if own
            else f"holds {count(held, f'borrowed {gpu_noun(p)}')}"
        )
    if not own:
        return f"holds no {gpu_noun(p)} and has no quota"
    if held == own:
        return f"holds its {typed_gpus(p, own)}"
    if not held:
        return f"holds none of its {typed_gpus(p, own)}" if own > 1 else f"does not hold its {typed_gpus(p, 1)}"
    return f"holds {amount(held)} of its {typed_gpus(p, own)}"


def _place(p: Params) -> Sentences:
    place = number(p, "place")
    line = f" for {gpu_noun(p)}s" if p.get("of_type") else ""
    project = quoted_name(p, "project")
    whose = f", after {count(place - 1, 'job')} of {project}" if place > 1 else ""
    if place:
        of = f" of {project}" if place == 1 else ""
        yield Sentence(Role.PLACE, f"{ordinal_place(place)}{of}{line}{whose}.")
    if place > 1 and "usual_runtime" in p:
        yield Sentence(Role.PLACE, _order_by_run_times(p))


def _order_by_run_times(p: Params) -> str:
    if p["usual_runtime"] is None:
        return "Equal jobs with known short run times go first."
    usual = roughly(max(1.0, real(p, "usual_runtime")))
    return f"Jobs like it ran for about {usual}; equal jobs with less GPU time go first."


def _share_used(p: Params) -> Sentences:
    yield from _room(p)
    if "may_hold" in p and "would_hold" in p:
        would, share = amount(number(p, "would_hold")), amount(number(p, "may_hold"))
        if p.get("own"):
            yield state(f"The share of its own jobs is {share} now; with this job they hold {would}.")
        else:
            reserved = number(p, "would_hold") - number(p, "held") - number(p, "gpus") * number(p, "workers")
            others = f" and {gpus(reserved)} reserved for others" if reserved > 0 else ""
            yield state(f"Its share is {share} now; with this job{others} it holds {would}.")
    yield from _place(p)


def _too_soon(p: Params) -> Sentences:
    yield from _room(p)
    rest = roughly(max(1.0, real(p, "seconds")))
    yield follows(f"Other jobs can make way for it in {rest}, when their minimum run time is over.")
    yield from _place(p)


def _no_room(p: Params) -> Sentences:
    yield from _room(p)
    yield from _place(p)


def _enough_without_gpus(p: Params) -> Sentences:
    running, most, project = number(p, "running"), number(p, "most"), quoted_name(p, "project")
    if not most:
        yield state(f"The project {project} may not run jobs without GPUs.")
        yield change(f"It can start when an administrator of {project} allows them.")
        return
    bound = "as many as it may at a time" if running == most else f"and may run only {amount(most)} at a time"
    step = number(p, "steps") if p.get("steps") else 0
    sent = f" in step {step + 1} of chains of jobs" if step else ""
    yield state(f"The project {project} runs {count(running, 'job')} without GPUs{sent}, {bound}.")
    if number(p, "place") == 1:
        enough = "one of them has" if running == most else f"{amount(running - most + 1)} of them have"
        yield ease(f"It starts when {'that job has' if running == 1 else enough} ended.")
    yield from _place(p)


def _next_without_gpus(_: Params) -> Sentences:
    yield state("It needs no GPU.")
    yield follows("It starts next.")


def _out_of_service(p: Params) -> Sentences:
    yield state("The machine is drained: no job starts on it.")
    drains = first_drains(p)
    yield follows("It starts when the machine is undrained." if drains is None else f"It starts at {drains.end}.")


def _edited(p: Params) -> Sentences:
    yield cause(f"An administrator, {quoted_name(p, 'by')}, {edit_words(p)}")


WAITING: Table = {
    "engine-edited": _edited,
    "held": _held,
    "back-off": _back_off,
    "unknown-project": _unknown_project,
    "over-limit": _over_limit,
    "limit-held": _limit_held,
    "bound": _bound,
    "beyond-quota": _beyond_quota,
    "too-large": _too_large,
    "per-gpu-too-large": _per_gpu_too_large,
    "no-rdma": _no_rdma,
    "gang-too-large": _gang_too_large,
    "no-level": _no_level,
    "domain-too-small": _domain_too_small,
    "awaits-pause": _awaits,
    "awaits-node": _awaits_node,
    "next": _next,
    "share-used": _share_used,
    "too-soon": _too_soon,
    "no-room": _no_room,
    "node-closes-first": _closes_first,
    "without-gpus-limit": _enough_without_gpus,
    "without-gpus-next": _next_without_gpus,
    "without-gpus-drained": _out_of_service,
}


Amounts = Mapping[str, tuple[Amount, Amount]]
"""The quota and the limit of each project."""

Named = Callable[[str], tuple[str, str]]
"""Returns the name for people of the job with this id, empty if the reader may not see it, and its project."""


def starts_if_sentences(starts_if: StartsIf, named: Named, amounts: Amounts) -> tuple[Sentence, ...]:
    """Return the sentence with the first alternative of readable length; empty if there is none.

    ``amounts`` are the present quotas and limits of the projects.
    """
    for alternative in starts_if.alternatives:
        if len(alternative.remove_jobs) <= MOST_NAMED and alternative.add_nodes <= MOST_NEW_NODES:
            text = f"It could start {alternative_words(alternative, named, amounts)}."
            return (ease(text) if alternative.remove_jobs else change(text),)
    return ()


def alternative_words(change_: Alternative, named: Named, amounts: Amounts) -> str:
    """Return ``if the job a of vision ended``, ``with a quota of 4 for vision``, and so on."""
    if change_.remove_jobs:
        return f"if {_jobs([named(job_id) for job_id in change_.remove_jobs])} ended"
    if change_.add_nodes:
        return f"with {count(change_.add_nodes, 'more node')} like the largest"
    raised = [("quota", project, amounts.get(project, (0, None))[0], to) for project, to in change_.quota.items()]
    raised += [("limit", project, amounts.get(project, (0, None))[1], to) for project, to in change_.limit.items()]
    return listed([_raised(*bound) for bound in raised])


def _jobs(jobs: Sequence[tuple[str, str]]) -> str:
    by_project = {project: [name for name, of in jobs if of == project] for _, project in jobs}
    if not all(name for name, _ in jobs):
        return listed([f"{named_jobs(each)} of {quoted(project)}" for project, each in by_project.items()])
    each_project = [
        f"{listed([quoted(name) for name in each])} of {quoted(project)}" for project, each in by_project.items()
    ]
    return f"the {plural(len(jobs), 'job', 'jobs')} {listed(each_project)}"


def _raised(what: str, project: str, before: Amount, to: Amount) -> str:
    if isinstance(to, Mapping):
        earlier = before if isinstance(before, Mapping) else {}
        missing = 0 if what == "quota" else None
        parts = {gpu_type: gpus for gpu_type, gpus in to.items() if gpus != earlier.get(gpu_type, missing)}
        bounds = ((gpus, f" {labelled(each)} GPUs") for each, gpus in parts.items())
        return listed([_with_bound(what, gpus, of, project) for gpus, of in bounds])
    return _with_bound(what, to, "", project)


def _with_bound(what: str, gpus: int | None, of: str, project: str) -> str:
    if gpus is None:
        return f"without the {what}{f' of{of}' if of else ''} for {quoted(project)}"
    return f"with a {what} of {amount(gpus)}{of} for {quoted(project)}"


@dataclass(frozen=True, slots=True)
class Expected:
    """A forecast: the seconds from its making to the likely start, or the code of why that is unknown."""

    after: float | None
    code: str = ""


def agreed(said: Sequence[Sentence], expected: Expected | None) -> tuple[tuple[Sentence, ...], bool]:
    """Return the sentences that agree with the forecast, and whether the forecast adds to them.

    Events that would let the job start earlier are left out if it starts at once, or if no end of other jobs lets
    it start. If only a change by a person lets the job start, the forecast adds nothing.
    """
    if expected is None:
        return tuple(said), True
    never = expected.code in STARTS_NEVER
    if never and any(sentence.role is Role.CHANGE for sentence in said):
        return tuple(said), False
    at_once = expected.after is not None and expected.after < AT_ONCE_S
    if never or at_once:
        return tuple(sentence for sentence in said if sentence.role is not Role.EASE), True
    return tuple(said), True

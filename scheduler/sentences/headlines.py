"""Headlines: the reason of a job in one line; `render` has the whole sentences, which a front end unfolds.

A reason gives its parts, the most important first. The headline has the first one and those of the following that
still fit. Its brief form leaves room for times, which pages count themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Self, TypeAlias

from springtide.scheduler.model import Reason
from springtide.scheduler.sentences.decisions import named_jobs
from springtide.scheduler.sentences.sentence import Params, first_drains, gpu_noun, names, number, real
from springtide.scheduler.wording import (
    amount,
    cores_and_memory,
    count,
    duration,
    given,
    gpus,
    labelled,
    listed,
    ordinal_place,
    plural,
    quoted,
    roughly,
)

LONGEST_HEADLINE: Final = 90
"""Maximum length of a headline, in characters."""
LONGEST_NAME: Final = 24
"""Length to which a name is shortened in a headline, in characters."""
LONGEST_TYPE: Final = 12
"""Length to which the GPU types of a job are shortened, in characters."""
MOST_NAMED: Final = 2
"""Maximum number of jobs that a headline names."""
LONGEST_BRIEF: Final = 50
"""Maximum length of the brief form of a headline, in characters."""
CANNOT: Final = "Cannot start"


class Part(str):
    """A part of a headline that is longer than `LONGEST_BRIEF` with the names in it, and its ``brief`` form."""

    __slots__ = ("brief",)
    brief: str

    def __new__(cls, words: str, brief: str) -> Self:
        """Return the part."""
        part = super().__new__(cls, words)
        part.brief = brief
        return part


Parts: TypeAlias = Iterator[str]


def headline(*reasons: Reason) -> str:
    """Return the reasons in one line of at most `LONGEST_HEADLINE` characters; empty if none has a headline."""
    return longer_headline("", *reasons)


def brief_headline(*reasons: Reason) -> str:
    """Return the first part of the headline in at most `LONGEST_BRIEF` characters; empty if there is none."""
    for part in _parts(reasons):
        return shortened(part.brief if isinstance(part, Part) else part, LONGEST_BRIEF)
    return ""


def longer_headline(line: str, *reasons: Reason) -> str:
    """Return a headline with those of the parts of further reasons that fit."""
    for part in _parts(reasons):
        longer = f"{line} {part}" if line else part
        if line and len(longer) > LONGEST_HEADLINE:
            break
        line = longer
    return shortened(line, LONGEST_HEADLINE)


def _parts(reasons: Sequence[Reason]) -> Parts:
    return (part for why in reasons if why.code in HEADLINES for part in HEADLINES[why.code](why.params))


def shortened(text: str, most: int) -> str:
    """Return a text on one line, which ends in ``…`` if it has more than ``most`` characters."""
    words = " ".join(text.split())
    return words if len(words) <= most else f"{words[: most - 1].rstrip()}…"


def _name(p: Params, key: str) -> str:
    """Return the name of a project or a person among the parameters."""
    return _quoted(str(p.get(key) or ""))


def _label(p: Params, key: str) -> str:
    """Return the name of a node or a rack among the parameters."""
    return labelled(shortened(str(p.get(key) or ""), LONGEST_NAME))


def _quoted(name: str) -> str:
    return quoted(shortened(name, LONGEST_NAME))


def _jobs(p: Params) -> str:
    """Return the names of the jobs among the parameters, or their number."""
    jobs = names(p, "names")
    if not all(jobs):
        return named_jobs(jobs)
    return count(len(jobs), "job") if len(jobs) > MOST_NAMED else listed([_quoted(each) for each in jobs])


def _typed(p: Params) -> str:
    types = names(p, "gpu_types")
    return f"{shortened(' or '.join(types), LONGEST_TYPE)} " if types else ""


def _gpus(p: Params) -> str:
    return count(number(p, "gpus"), f"{_typed(p)}GPU")


def _waiting(need: str, why: str, where: str = "") -> Part:
    """Return a part like ``Waiting for 4 GPUs: none is free``."""
    return Part(f"Waiting for {need}{where}: {why}.", f"Waiting for {need}.")


def _request(p: Params) -> str:
    """Return ``4 GPUs`` or ``2 workers with 4 GPUs``."""
    many = number(p, "workers")
    return f"{count(many, 'worker')} with {_gpus(p)}" if many > 1 else _gpus(p)


def _on(p: Params) -> str:
    """Return `` on 4 GPUs (3 borrowed)``, or `` without GPUs``."""
    return _on_held(p) or " without GPUs"


def _on_held(p: Params) -> str:
    held, borrowed = number(p, "gpus"), number(p, "borrowed")
    if not held:
        return ""
    return f" on {gpus(held)}{f' ({amount(borrowed)} borrowed)' if borrowed else ''}"


def _said(text: str) -> Callable[[Params], Parts]:
    def parts(_: Params) -> Parts:
        yield text

    return parts


def _by(text: str) -> Callable[[Params], Parts]:
    """Return the parts of an act of the person or job whose name is ``by``."""

    def parts(p: Params) -> Parts:
        yield Part(f"{text} by {_name(p, 'by')}." if p.get("by") else f"{text}.", f"{text}.")

    return parts


def _for(why: str, past: str = "Paused", present: str = "Pausing") -> Callable[[Params], Parts]:
    """Return the parts of a pause for another job."""

    def parts(p: Params) -> Parts:
        yield _made_way(p, why, past, present)

    return parts


def _made_way(p: Params, why: str, past: str = "Paused", present: str = "Pausing") -> Part:
    """Return a part like ``Paused for “a” (why)``, in the present while the job makes way."""
    job = _name(p, "for_name") if p.get("for_name") else f"a job of {_name(p, 'for_project')}"
    brief = f"{present if p.get('under_way') else past} for {job}"
    return Part(f"{brief} ({why}).", f"{brief}.")


def _reclaimed(p: Params) -> Parts:
    what = "GPUs" if p.get("within") else "share"
    yield _made_way(p, f"{what} of {_name(p, 'for_project')}" if p.get("for_name") else f"its {what}")


def _held(p: Params) -> Parts:
    yield from _by("Kept paused" if p.get("kept") else "Paused")(p)


def _place(p: Params) -> Parts:
    if place := number(p, "place"):
        of = f" of {_name(p, 'project')}" if p.get("project") else ""
        yield f"{ordinal_place(place)}{of}{f' for {gpu_noun(p)}s' if p.get('of_type') else ''}."


def _back_off(p: Params) -> Parts:
    yield f"Runs again in {roughly(max(1.0, real(p, 'seconds')))}."


def _unknown_project(p: Params) -> Parts:
    yield Part(f"{CANNOT}: there is no project {_name(p, 'project')}.", f"{CANNOT}: its project is unknown.")


def _over_limit(p: Params) -> Parts:
    need, limit, at = number(p, "gpus"), number(p, "limit"), _name(p, "at")
    if p.get("budget_of"):
        yield _waiting(gpus(need), f"{at} is over its budget")
    elif need > limit:
        most = amount(limit) if limit else "none"
        yield Part(f"{CANNOT}: needs {gpus(need)}, and {at} may hold {most}.", f"{CANNOT}: needs {gpus(need)}.")
    else:
        held = amount(number(p, "held")) if number(p, "held") else "none"
        yield _waiting(gpus(need), f"{at} holds {held} of at most {amount(limit)}")


def _limit_held(p: Params) -> Parts:
    yield Part(
        f"Starts when pausing jobs of {_name(p, 'at')} have stopped.", "Starts when pausing jobs have stopped."
    )


def _bound(p: Params) -> Parts:
    yield _for_it(p, f"starts when other jobs of {_name(p, 'at')} end")


def _beyond_quota(p: Params) -> Parts:
    need, quota, at = number(p, "gpus"), number(p, "quota"), _name(p, "at")
    if need > quota:
        left = amount(quota) if quota else "none"
        bound = f"teams leave {at} {left}" if p.get("below") else f"the quota of {at} is {amount(quota)}"
        yield f"{CANNOT}: not preemptible, needs {gpus(need)}, {bound}."
    else:
        yield _waiting(gpus(need), "it is not preemptible", f" within the quota of {at}")


def _drained_first(p: Params) -> Parts:
    """Yield the drained nodes and their ends, if the pool can run the job then."""
    if (drains := first_drains(p)) is not None:
        what = shortened(drains.what, LONGEST_NAME + len("the node "))
        words = f"Waiting: {what} {plural(drains.number, 'is', 'are')} drained"
        yield Part(f"{words} until {drains.end}.", f"{words}.")
    elif undrain := names(p, "undrain"):
        more = f" and {len(undrain) - 1} more" if len(undrain) > 1 else ""
        what = shortened(f"{undrain[0]}{more}", LONGEST_NAME + len("the node "))
        yield f"Waiting: {what} {plural(len(undrain), 'is', 'are')} drained."


def _too_large(p: Params) -> Parts:
    if names(p, "drained") or names(p, "undrain"):
        yield from _drained_first(p)
        return
    need, largest = gpus(number(p, "gpus")), number(p, "largest")
    if largest:
        yield f"{CANNOT}: needs {need} on one node, the largest {_typed(p)}node has {amount(largest)}."
    else:
        yield _waiting(need, f"no {_typed(p)}node can be used now", " on one node")


def _per_gpu_too_large(p: Params) -> Parts:
    yield f"{CANNOT}: no node has {cores_and_memory(real(p, 'cpus'), real(p, 'memory'))} for {_gpus(p)}."


def _no_rdma(p: Params) -> Parts:
    yield f"{CANNOT}: no node has RDMA for {_gpus(p)}."


def _gang_too_large(p: Params) -> Parts:
    if names(p, "drained") or names(p, "undrain"):
        yield from _drained_first(p)
        return
    most = number(p, "most")
    yield f"{CANNOT}: needs {_request(p)}, there is room for {amount(most) if most else 'none'}."


def _no_level(p: Params) -> Parts:
    yield Part(f"{CANNOT}: no node has the label {_label(p, 'level')}.", f"{CANNOT}: no node has its label.")


def _domain_too_small(p: Params) -> Parts:
    yield f"{CANNOT}: no {_label(p, 'level')} has room for {_request(p)}."
    if most := number(p, "most"):
        yield f"The largest has room for {amount(most)}."


def _for_it(p: Params, why: str) -> Part:
    """Return a part like ``4 GPUs reserved: starts when “a” ends``."""
    reserved = f"{gpus(number(p, 'gpus'))} reserved"
    return Part(f"{reserved}: {why}.", f"{reserved}.")


def _awaits(p: Params) -> Parts:
    jobs, ends = names(p, "names"), plural(len(names(p, "names")), "ends", "end")
    freed = f"{gpus(number(p, 'gpus'))} {plural(number(p, 'gpus'), 'is', 'are')} being freed for it"
    if p.get("seconds") is not None:
        rest = roughly(max(1.0, real(p, "seconds")))
        who = _jobs(p) if len(jobs) == 1 else count(len(jobs), "job")
        yield _for_it(p, f"{who} can be paused in {rest} (minimum run time)")
    elif not p.get("pausing", 1) and jobs:
        yield _for_it(p, f"starts when {_jobs(p)} {ends}")
    else:
        yield Part(f"{freed} by {_jobs(p)}." if jobs else f"{freed}.", f"{freed}.")


def _room(p: Params) -> Parts:
    need, many = number(p, "gpus"), number(p, "workers")
    level, free, room = p.get("require"), number(p, "node_free"), number(p, "room")
    if room >= many and level is not None:
        yield Part(f"Waiting for {_request(p)} in one {_label(p, 'require')}.", f"Waiting for {_request(p)}.")
    elif many > 1:
        yield _waiting(_request(p), f"{f'room for {amount(room)}' if room else 'no room'} now")
    elif not free and (idle := number(p, "idle_reserved")):
        yield _waiting(_request(p), f"{amount(idle)} idle {plural(idle, 'one is', 'ones are')} reserved")
    elif need == 1 or not free:
        yield _waiting(_request(p), "none is free")
    else:
        yield _waiting(_request(p), f"{amount(free)} {plural(free, 'is', 'are')} free", " on one node")
    yield from _place(p)


def _too_soon(p: Params) -> Parts:
    rest = roughly(max(1.0, real(p, "seconds")))
    yield _waiting(_request(p), f"others can make way in {rest}")
    yield from _place(p)


def _awaits_node(p: Params) -> Parts:
    requested, group = number(p, "asked"), _label(p, "group")
    if not requested and p.get("error"):
        yield Part(f"Waiting for a node of {group}, which the cluster refuses.", "Waiting for a node.")
    elif not requested:
        yield _waiting(_request(p), f"a node of {group} comes next")
    elif p.get("late"):
        late = f"{plural(requested, 'is', 'are')} late"
        yield Part(f"{count(requested, 'new node')} of {group} {late}.", f"{count(requested, 'new node')} {late}.")
    else:
        brief = f"Waiting for {count(requested, 'new node')}"
        yield Part(f"{brief} of {group}.", f"{brief}.")


def _enough_without_gpus(p: Params) -> Parts:
    project, most = _name(p, "project"), number(p, "most")
    if not most:
        yield f"{CANNOT}: {project} may not run jobs without GPUs."
        return
    yield f"Waiting: {project} runs {count(number(p, 'running'), 'job')} without GPUs, the most that it may."
    yield from _place(p)


def _starting(p: Params) -> Parts:
    if packages := number(p, "packages"):
        yield f"Installing {count(packages, 'package')}: progress is in the log."
    else:
        yield f"Starting{_on(p)}."


def _running(p: Params) -> Parts:
    yield f"Running{_on(p)}."
    if p.get("awaits_room"):
        yield "The disk is full: its result waits for room."
    elif p.get("unsaved"):
        yield "The disk is full: its newest checkpoint is not saved."
    elif p.get("lost"):
        yield f"A pause would lose over {roughly(real(p, 'lost'))} of work."
    elif p.get("never_saved"):
        yield "Its checkpoints were deleted, or are damaged." if p.get("deleted") else "No checkpoint seen yet."
    if p.get("unused_seconds"):
        yield f"{number(p, 'used_percent')} % used for {roughly(real(p, 'unused_seconds'))}."


def _not_finite(p: Params) -> Parts:
    step = p.get("step")
    name = given(str(p.get("name")), LONGEST_NAME)
    yield f"{name} is not finite." if step is None else f"{name} not finite since step {amount(real(p, 'step'))}."


def _node_closed(words: str) -> Callable[[Params], Parts]:
    """Return the parts about a closed node of a job."""

    def parts(p: Params) -> Parts:
        since = f" since {p['since']}" if p.get("since") else ""
        yield f"Node {_label(p, 'node')} {words}{since}."

    return parts


def _pausing(p: Params) -> Parts:
    yield "Saving its work." if p.get("saved", 1) and not p.get("found") else "Stopping for a pause."


def _sweep(p: Params) -> Parts:
    running, ended, trials = number(p, "running"), number(p, "ended"), number(p, "number")
    if running:
        yield f"Running {count(running, 'trial')}{_on_held(p)}."
    yield f"{amount(ended)} of {count(trials, 'trial')} ended."


def _sweep_stopping(p: Params) -> Parts:
    yield f"Stopping {count(number(p, 'trials'), 'trial')}."


def _sweep_ended(p: Params) -> Parts:
    parts = [
        f"{amount(number(p, key))} {word}"
        for key, word in (("good", "succeeded"), ("failed", "failed"), ("cancelled", "cancelled"))
        if number(p, key)
    ]
    yield f"{count(number(p, 'number'), 'trial')}: {listed(parts)}."


def _population(p: Params) -> Parts:
    running, ended, members = number(p, "running"), number(p, "ended"), number(p, "members")
    generation = f"Generation {amount(number(p, 'generation'))} of {amount(number(p, 'generations'))}"
    if running:
        yield f"{generation} · {running} of {members} members {plural(running, 'runs', 'run')}{_on_held(p)}."
    else:
        yield f"{generation} · {ended} of {members} members {plural(ended, 'has', 'have')} finished it."


def _population_copies(p: Params) -> Parts:
    yield f"Generation {number(p, 'generation')} of {number(p, 'generations')} · copying checkpoints."


def _population_lost(p: Params) -> Parts:
    if number(p, "gone"):
        yield f"No member has a checkpoint to continue from after generation {number(p, 'generation')}."
    else:
        yield f"No member reached a value in generation {number(p, 'generation')}."


def _population_stuck(p: Params) -> Parts:
    yield f"Paused: the checkpoints for generation {number(p, 'generation')} could not be copied."


def _sweep_failing(p: Params) -> Parts:
    yield f"Paused: the last {count(number(p, 'failed'), 'trial')} failed. Resume or cancel it."


def _test_run(p: Params) -> Parts:
    now = "in progress" if p.get("stage") == "running" else "waits for a GPU"
    yield f"Test run {now}: if it passes, the job joins the queue."


def _drained(p: Params) -> Parts:
    yield f"The node {_label(p, 'node')} was drained."


def _gpu_drained(p: Params) -> Parts:
    yield f"GPU {number(p, 'gpu')} of {_label(p, 'node')} was drained."


def _time_limit(p: Params) -> Parts:
    yield f"Ended by its time limit of {duration(real(p, 'seconds'))}."


def _succeeded(p: Params) -> Parts:
    yield "Finished. Its result could not be kept." if p.get("lost_result") else "Finished."


def _fruitless(p: Params) -> Parts:
    yield f"Asked to run again {count(number(p, 'times'), 'time')} without progress."


def _never_saved(p: Params) -> Parts:
    work = f": {duration(real(p, 'lost'))} of work lost" if real(p, "lost") >= 1 else ""
    yield f"No checkpoint{work}."


def _lost(_: Params) -> Parts:
    yield "It was lost while it ran."


def _failed(p: Params) -> Parts:
    kind = p.get("kind")
    if kind == "refused":
        yield "It could not be started."
    elif kind == "lost":
        yield "It was lost: nothing is known of its end."
    elif kind == "over-disk":
        yield "It kept too much on the disk."
    elif "signal" in p:
        yield f"Ended by {p['signal']}{', often a lack of memory' if p['signal'] == 'SIGKILL' else ''}."
    else:
        yield f"Ended with exit code {p['code']}." if "code" in p else "Ended without an exit code."
    if "retry" in p:
        yield f"Retry {amount(number(p, 'retry'))} of {amount(number(p, 'retries'))}."


def _closes_first(p: Params) -> Parts:
    when = f"from {p['starts']}" if p.get("starts") else f"in {roughly(real(p, 'seconds'))}"
    yield f"Waiting: {shortened(_label(p, 'first'), LONGEST_NAME)} has maintenance {when}."


def _node_closes(p: Params) -> Parts:
    nodes = names(p, "nodes")
    yield f"Maintenance of {shortened(labelled(nodes[0]), LONGEST_NAME) if nodes else 'its node'}."


def _limit_lowered(p: Params) -> Parts:
    if p.get("budget_of"):
        yield f"{_name(p, 'at')} was over its budget, which left it {gpus(number(p, 'limit'))}."
    else:
        yield f"The limit of {_name(p, 'at')} was lowered to {amount(number(p, 'limit'))}."


def _grows(p: Params) -> Parts:
    yield f"Grows from {amount(number(p, 'before'))} to {count(number(p, 'workers'), 'worker')}."


def _gang_broken(p: Params) -> Parts:
    yield f"{amount(number(p, 'workers'))} of {count(number(p, 'min_workers'), 'worker')} left."


def _gang_mended(p: Params) -> Parts:
    yield f"Continues with {count(number(p, 'workers'), 'worker')}."


def _reserved(p: Params) -> Parts:
    reserved = f"{count(number(p, 'gpus'), gpu_noun(p))} reserved"
    yield Part(f"{reserved} held by {_jobs(p)}." if names(p, "names") else f"{reserved}.", f"{reserved}.")


def _started(p: Params) -> Parts:
    yield f"Started{_on(p)}."


HEADLINES: Final[Mapping[str, Callable[[Params], Parts]]] = {
    "held": _said("Paused by its user: resume it to let it run again."),
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
    "next": _said("Starts next."),
    "share-used": _room,
    "too-soon": _too_soon,
    "no-room": _room,
    "node-closes-first": _closes_first,
    "without-gpus-limit": _enough_without_gpus,
    "without-gpus-next": _said("Starts next."),
    "without-gpus-drained": _said("Waiting: the machine is drained."),
    "starting": _starting,
    "running": _running,
    "pausing": _pausing,
    "stopping": _said("Stopping."),
    "not-finite": _not_finite,
    "sweep": _sweep,
    "sweep-waits": _said("The next trial waits."),
    "sweep-stopping": _sweep_stopping,
    "sweep-ended": _sweep_ended,
    "sweep-failing": _sweep_failing,
    "population": _population,
    "population-copies": _population_copies,
    "population-lost": _population_lost,
    "population-stuck": _population_stuck,
    "test-run-first": _test_run,
    "test-run-long-enough": _said("Its test run ran long enough."),
    "test-run-failed": _said("Its test run failed: see its log."),
    "test-run-cancelled": _by("Test run cancelled"),
    "engine-edited": _by("Edited"),
    "engine-on-hold": _by("Put on hold"),
    "engine-on-hold-runs": _by("Put on hold for later runs"),
    "engine-paused-for-hold": _by("Paused when put on hold"),
    "engine-frozen": _by("Project frozen"),
    "engine-frozen-runs": _by("Project frozen for later runs"),
    "engine-paused-for-freeze": _by("Paused when its project was frozen"),
    "engine-closes": lambda p: iter([f"Maintenance from {p.get('starts')}."]),
    "node-not-ready": _node_closed("not ready"),
    "node-leaving": _node_closed("about to be removed"),
    "node-cordoned": _node_closed("cordoned"),
    "engine-held": _held,
    "engine-drained": _drained,
    "without-gpus-paused": _drained,
    "engine-gpu-drained": _gpu_drained,
    "engine-moved-off": _by("Moved off its GPUs"),
    "engine-cancelled": _by("Cancelled"),
    "engine-time-limit": _time_limit,
    "engine-succeeded": _succeeded,
    "engine-finished": _by("Marked as finished"),
    "engine-ended-cleanly": _said("It ended with 0 when asked to pause: finished?"),
    "engine-never-saved": _never_saved,
    "engine-evicted": _said("Ended from outside the pool."),
    "engine-held-and-resumed": _said("Paused and resumed."),
    "engine-paused": _said("Asked to pause."),
    "engine-again": _said("It asked to run again."),
    "engine-again-in-vain": _said("It asked to run again, without progress."),
    "engine-fruitless": _fruitless,
    "engine-lost": _lost,
    "engine-blocked": _said("It could not be started here, and is tried again."),
    "engine-closed-to-owner": _said("It was handed over, and cannot start as its new owner's."),
    "engine-withheld": _said("Launching has stopped for now: several jobs could not be started."),
    "engine-store": _said("Waits until the pool can write: nothing starts at present."),
    "engine-not-launched": _said("It could not be started so far, and is tried again."),
    "engine-not-stopped": _said("It runs on: it could not be asked to end so far."),
    "engine-failed": _failed,
    "started": _started,
    "started-borrowing": _started,
    "started-before": _started,
    "without-gpus-started": _said("Started without GPUs."),
    "reservation-fulfilled": _said("Its reserved GPUs are free."),
    "reservation-lost": _said("Its reserved GPUs are gone."),
    "reservation-refused": _said("Its project may not hold its reserved GPUs any more."),
    "reservation-outranked": _said("A job that goes first needs its reserved GPUs."),
    "reservation-replaced": _said("It can have other GPUs sooner."),
    "grows": _grows,
    "gang-broken": _gang_broken,
    "gang-mended": _gang_mended,
    "moved": _for("it needs these GPUs", "Moved", "Moving"),
    "room-made": _reserved,
    "promised": _reserved,
    "reserved-ahead": _reserved,
    "reclaimed": _reclaimed,
    "limit-lowered": _limit_lowered,
    "node-closes": _node_closes,
    "preempted": _for("higher priority"),
    "rotated": _for("less GPU time so far"),
    "rotated-for-shorter": _for("usually shorter"),
}
"""The parts of headlines by code, for all codes that a job can have as its reason."""

"""What sentences on cards and pages claim, as facts that can be compared with each other and with the pool.

A fact is a key, such as ``("held", "vision", "t4")``, and a value. `facts_of` reads facts out of a sentence, and
`truth` has the same keys from the engine's views of jobs, projects and GPUs. A sentence that no rule reads is an
error: whoever adds one says here what it claims.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import TypeAlias

from springtide.scheduler import wire

Key: TypeAlias = tuple[str, ...]
Fact: TypeAlias = tuple[Key, object]
Rule: TypeAlias = Callable[[wire.Job, re.Match[str]], Iterable[Fact]]

SENTENCE_END = re.compile(r"(?<=[.?!]) (?=[A-Z\d])")
SPAN = r"(?:just now|[\d., a-z]+ ago)"
AT = r"at (?:\d+ \w+ |\w+ \d+ )?\d\d:\d\d"
SPLIT = (
    r"(?:(?:, |: )(?:all )?(?:(?P<own>\d+) )?(?P<within>within the quota)?"
    r"(?:, )?(?:(?P<more>\d+) )?(?P<borrowed>borrowed)?)"
)
JOB = r"“(?P<job>[^”]+)”"
SPREAD = r"(?:on one node|on {0} nodes(?: of one \w+)?|in one GPU link island|on one processor socket)"
HERE, THERE = (SPREAD.format(f"(?P<{name}>\\d+)") for name in ("nodes", "other"))
TYPED = r"(?:(?P<type>\w+) )?GPUs?"


def _number(found: re.Match[str], group: str) -> int:
    words = found.groupdict().get(group)
    return int(words) if words and words not in {"none", "no"} else 0


def _split(whose: Key, total: int, found: re.Match[str]) -> Iterator[Fact]:
    """Yield how many of ``total`` GPUs are held, and how many of them are borrowed."""
    both = found["within"] and found["borrowed"]
    yield ("held", *whose), total
    yield ("borrowed", *whose), _number(found, "more") if both else total if found["borrowed"] else 0
    if both:
        yield ("held", *whose), _number(found, "own") + _number(found, "more")


def _running(job: wire.Job, found: re.Match[str]) -> Iterator[Fact]:
    yield ("state", job.id), found["state"].lower()
    yield from _split((job.id,), _number(found, "gpus"), found)


def _waiting(job: wire.Job, found: re.Match[str]) -> Iterator[Fact]:
    yield ("waits", job.id), True
    yield ("gpus", job.id), _number(found, "gpus")
    yield ("workers", job.id), _number(found, "workers") or 1
    if found["none"]:
        yield ("free", *job.options.gpu_types), 0


def _project(job: wire.Job, found: re.Match[str]) -> Iterator[Fact]:
    """Read the GPUs of a project: of its only type, or of the named one."""
    whose = (found["project"], found["type"])
    words = found["holds"]
    numbers = [int(each) for each in re.findall(r"\b\d+\b", re.sub(rf"{whose[1]}\b", "", words))]
    if words.startswith(("none", "not")):
        yield ("held", *whose), 0
        yield ("quota", *whose), numbers[0]
    elif words.startswith("no "):
        yield ("held", *whose), 0
    elif words.startswith("its "):
        yield ("held", *whose), numbers[0]
        yield ("quota", *whose), numbers[0]
    elif "borrowed" in words:
        yield ("held", *whose), numbers[0]
        yield ("borrowed", *whose), numbers[-1]
        if len(numbers) == 3:
            yield ("quota", *whose), numbers[1]
    else:
        yield ("held", *whose), numbers[0]
        yield ("quota", *whose), numbers[1]


def _place(job: wire.Job, found: re.Match[str]) -> Iterator[Fact]:
    yield ("place", job.id), int(found["place"] or 1)
    yield ("line", job.id), found["type"]
    if found["of"]:
        yield ("project", job.id), found["of"]
    if found["before"]:
        yield ("place", job.id), int(found["before"]) + 1
        yield ("project", job.id), found["project"]


def _limit(job: wire.Job, found: re.Match[str]) -> Iterator[Fact]:
    whose = (found["project"], found["type"])
    yield ("limit", *whose), int(found["limit"])
    yield ("needs", job.id), int(found["needs"])
    if found["held"]:
        yield ("held", *whose), _number(found, "held")


def _sweep(job: wire.Job, found: re.Match[str]) -> Iterator[Fact]:
    yield ("trials running", job.id), int(found["trials"])
    yield from _split((job.id,), _number(found, "gpus"), found)


def _slow(job: wire.Job, found: re.Match[str]) -> Iterator[Fact]:
    """Read on how many nodes a job runs, and how jobs like it compare on another number of them."""
    nodes, other = _number(found, "nodes") or 1, _number(found, "other") or 1
    yield ("nodes", job.id), nodes
    yield ("times as fast", job.id, str(other), str(nodes)), found["times"]
    yield ("runs", job.id, str(other)), _number(found, "there")
    yield ("runs", job.id, str(nodes)), _number(found, "like")


def _slow_by_others(job: wire.Job, found: re.Match[str]) -> Iterator[Fact]:
    nodes, other = _number(found, "nodes") or 1, _number(found, "other") or 1
    yield ("nodes", job.id), nodes
    yield ("usually times as fast", str(other), str(nodes)), found["times"]
    yield ("kinds", str(other), str(nodes)), _number(found, "kinds")


def _headline_of_running(job: wire.Job, found: re.Match[str]) -> Iterator[Fact]:
    yield ("state", job.id), found["state"].lower()
    yield ("held", job.id), _number(found, "gpus")
    yield ("borrowed", job.id), _number(found, "borrowed")


def _headline_of_sweep(job: wire.Job, found: re.Match[str]) -> Iterator[Fact]:
    yield ("trials running", job.id), _number(found, "trials")
    yield ("held", job.id), _number(found, "gpus")
    yield ("borrowed", job.id), _number(found, "borrowed")


def _of_job(key: str, group: str = "number") -> Rule:
    return lambda job, found: [((key, job.id), int(found[group]))]


def _is(key: str, value: object) -> Rule:
    return lambda job, _: [((key, job.id), value)]


def _named(state: str) -> Rule:
    """Read that a job of a project is in a state."""
    return lambda _, found: [(("named", found["job"], found["project"]), state)]


HEADLINES: list[tuple[str, Rule]] = [
    (r"(?P<state>Starting|Running) on (?P<gpus>\d+) GPUs?(?: \((?P<borrowed>\d+) borrowed\))?\.",
     _headline_of_running),
    (r"Running (?P<trials>\d+) trials? on (?P<gpus>\d+) GPUs?(?: \((?P<borrowed>\d+) borrowed\))?\.",
     _headline_of_sweep),
    (r"(?P<ended>\d+) of (?P<number>\d+) trials? ended\.", lambda job, found: [
        (("trials", job.id), int(found["number"])), (("trials ended", job.id), int(found["ended"]))
    ]),
    (r"No checkpoint seen yet\.", _is("state", "running")),
    (r"A pause would lose over [\w ]+ of work\.", _is("state", "running")),
    (r"The disk is full: its (?:result waits for room|newest checkpoint is not saved)\.", _is("state", "running")),
    (r"(?:Saving its work|Stopping for a pause)\.", _is("state", "pausing")),
    (r"It could not be started so far, and is tried again\.", _is("state", "starting")),
    (rf"Pau(?:sed|sing) for {JOB} \((?:GPUs|share) of “(?P<project>[^”]+)”\)\.",
     lambda _, found: [(("project of", found["job"]), found["project"])]),
    (rf"Paused for {JOB}\.", _is("waits", True)),
    (rf"Waiting for (?:\d+ workers? with )?(?P<gpus>\d+) {TYPED}\.", lambda job, found: [
        (("waits", job.id), True), (("gpus", job.id), _number(found, "gpus"))
    ]),
    (r"(?P<number>\d+) GPUs? reserved\.", _of_job("needs")),
    (r"Starts when pausing jobs have stopped\.", _is("waits", True)),
    ((rf"Waiting for (?:(?P<workers>\d+) workers? with )?(?P<gpus>\d+) {TYPED}(?: on one node)?: "
     r"(?:(?P<none>none is free|\d+ idle ones? (?:is|are) reserved)|"
     r"\d+ (?:is|are) free|(?:no room|room for \d+) now)\."), _waiting),
    (r"(?P<number>\d+) GPUs? (?:is|are) being freed for it(?: by .+)?\.", _of_job("needs")),
    ((r"(?P<number>\d+) GPUs? reserved: (?:starts when .+ ends?|"
      r"(?:\d+ jobs?|“.+”) can be paused in [\w ]+ \(minimum run time\))\."), _of_job("needs")),
    (r"Cannot start: needs (?P<needs>\d+) GPUs?, and “(?P<project>[^”]+)” may hold (?P<limit>\d+)\.",
     lambda job, found: [(("needs", job.id), int(found["needs"])), (("waits", job.id), True)]),
    (r"Cannot start: not preemptible, needs (?P<number>\d+) GPUs?, the quota of “[^”]+” is \d+\.",
     _of_job("needs")),
    (r"Cannot start: .+\.", _is("waits", True)),
    (r"Waiting for (?P<number>\d+) GPUs?: “(?P<project>[^”]+)” holds (?:\d+|none) of at most \d+\.",
     _of_job("needs")),
    (r"Waiting for (?P<number>\d+) GPUs? within the quota of “(?P<project>[^”]+)”: it is not preemptible\.",
     lambda job, found: [(("needs", job.id), int(found["number"])), (("preemptible", job.id), False)]),
    (r"Paused by “(?P<user>[^”]+)”\.", _is("held by user", True)),
    (r"Cancelled by “(?P<user>[^”]+)”\.", _is("state", "cancelled")),
    (r"Finished\.", _is("state", "succeeded")),
    (r"Retry (?P<number>\d+) of (?P<retries>\d+)\.", _of_job("failures")),
    (r"Ended with exit code (?P<number>\d+)\.", _of_job("exit code")),
    (r"Runs again in [\w ]+\.", _is("waits", True)),
    (r"No checkpoint(?:: [\w ]+ of work lost)?\.", _is("waits", True)),
    (rf"(?:Resumed|Started again from the beginning) {SPAN}, after a pause of [\w ]+\.", _is("resumes", True)),
]  # fmt: skip


RULES: list[tuple[str, Rule]] = [
    *HEADLINES,
    (rf"(?P<state>Starting|Running) on (?P<gpus>\d+) GPUs?{SPLIT}\.", _running),
    (r"It runs with (?P<number>\d+) of at most (?P<most>\d+) workers?\.", lambda job, found: [
        (("workers running", job.id), int(found["number"])), (("workers", job.id), int(found["most"]))
    ]),
    ((rf"It runs {HERE}: jobs like it were (?P<times>[\d.]+) times as fast {THERE} "
     r"\((?P<there>\d+) runs? there against (?P<like>\d+) like this\)\."), _slow),
    ((rf"It runs {HERE}: other jobs were (?P<times>[\d.]+) times as fast {THERE} "
     r"\((?P<kinds>\d+) kinds of jobs\)\."), _slow_by_others),
    (r"The rest of its work takes about [\w ]+ longer here\.", _is("reports steps", True)),
    (r"(?:Saving its work|Stopping for a pause), then giving its (?P<gpus>\d+) GPUs? back\.", lambda job, found: [
        (("state", job.id), "pausing"), (("held", job.id), int(found["gpus"]))
    ]),
    (r"It could not be started so far\.", _is("state", "starting")),
    (r"The job's files cannot be written: .+", _is("state", "starting")),
    (r"It is tried again\.", _is("state", "starting")),
    ((r"(?:No checkpoint of it has been seen yet|Its checkpoints were deleted, or are damaged): "
      r"a pause would start it from the beginning, unless .+\."), _is("state", "running")),
    (r"More than [\w ]+ of work would be lost\.", _is("state", "running")),
    (r"Without room it fails in [\w ]+\.", _is("state", "running")),
    (r"Delete outputs of ended jobs, or have an administrator make room\.", _is("state", "running")),
    (r"Have it save checkpoints, such as with job\.save\(\) of springtide\.training\.", _is("state", "running")),
    (r"Its newest checkpoint is “.+”\.", _is("state", "pausing")),
    (r"No checkpoint is known so far: without one it starts again from the beginning, unless .+\.",
     _is("state", "pausing")),
    (r"No checkpoint was known(?:: [\w ]+ of work was lost, unless [^.]+)?\.", _is("waits", True)),
    (r"It starts again from the beginning\.", _is("waits", True)),
    (rf"The project “(?P<project>[^”]+)” asked for its \d+ GPUs? back, for the job {JOB}(?: of “[^”]+”)?\.",
     lambda _, found: [(("project of", found["job"]), found["project"])]),
    ((rf"Waiting for (?:(?P<workers>\d+) workers? with )?(?P<gpus>\d+) {TYPED}(?: each)?(?: on one node)?: "
     r"(?:(?P<none>none is free|\d+ idle ones? (?:is|are) reserved for others)|"
     r"no node has more than \d+ free|(?:no room|room for \d+) now)\."),
     _waiting),
    (rf"Reserved for others: (?P<gpus>\d+) {TYPED}\.", lambda _, found: [
        (("reserved", found["type"]), int(found["gpus"]))
    ]),
    (r"The project “(?P<project>[^”]+)” (?:holds|does) (?P<holds>[^.]*?\b(?P<type>t4|a100)\b[^.]*)\.", _project),
    (r"(?:Its share|The share of its own jobs) is \d+ now; with this job(?: and .+)? (?:it holds|they hold) \d+\.",
     _is("waits", True)),
    (rf"It could start if the job {JOB} of “(?P<project>[^”]+)” ended\.", _is("waits", True)),
    (r"It could start (?:if the jobs .+ ended|with(?:out)? .+)\.", _is("waits", True)),
    (r"The pool as it is can never run it\.", _is("waits", True)),
    (r"With this (?:limit|quota) it can never start\.", _is("waits", True)),
    ((r"(?:Next|Number (?P<place>\d+)) in line(?: of “(?P<of>[^”]+)”)?(?: for (?P<type>\w+) GPUs)?"
     r"(?:, after (?P<before>\d+) jobs? of “(?P<project>[^”]+)”)?\."), _place),
    (r"Jobs like it ran for about [\w ]+; equal jobs with less GPU time go first\.",
     _is("waits", True)),
    (r"Equal jobs with known short run times go first\.", _is("waits", True)),
    ((rf"The project “(?P<project>[^”]+)” may hold at most (?P<limit>\d+) {TYPED}"
     r"(?:: it holds (?P<held>\w+))?, and the job needs (?P<needs>\d+)\."), _limit),
    (r"Non-preemptible jobs must fit in the quota together\.", _is("preemptible", False)),
    ((rf"The quota of “(?P<project>[^”]+)” is (?P<quota>\d+) {TYPED}, such jobs have (?P<firm>\w+) of it, and "
     r"this one needs (?P<needs>\d+)\."), lambda job, found: [
         (("quota", found["project"], found["type"]), int(found["quota"])),
         (("firm", found["project"], found["type"]), _number(found, "firm")),
         (("needs", job.id), int(found["needs"])),
     ]),
    (r"It has a reservation for (?P<number>\d+) GPUs?(?: that the jobs? .+ holds?)?\.", _of_job("needs")),
    (rf"It starts as soon as the job {JOB} of “(?P<project>[^”]+)” has stopped\.", _named("pausing")),
    (r"It was paused by “(?P<user>[^”]+)”\.", _is("held by user", True)),
    (r"It runs again when it is resumed\.", _is("held by user", True)),
    (r"It was cancelled by “(?P<user>[^”]+)”\.", _is("state", "cancelled")),
    (r"It has finished\.", _is("state", "succeeded")),
    (r"It ended with exit code (?P<number>\d+)\.", _of_job("exit code")),
    (r"It is run again: retry (?P<number>\d+) of (?P<retries>\d+)\.", _of_job("failures")),
    (r"It can run again in [\w ]+\.", _is("waits", True)),
    (rf"Running (?P<trials>\d+) trials? on (?P<gpus>\d+) GPUs?{SPLIT}\.", _sweep),
    (r"None of (?P<number>\d+) trials has ended yet\.", lambda job, found: [
        (("trials", job.id), int(found["number"])), (("trials ended", job.id), 0)
    ]),
    (r"Its trial (?:has not ended|does not run) yet\.", lambda job, _: [
        (("trials", job.id), 1), (("trials ended", job.id), 0)
    ]),
    (r"The next trial waits\.", _is("waits", True)),
    (rf"Failed {AT} with exit code (?P<number>\d+)\.", _of_job("exit code")),
    (rf"Failed {AT}\.", _is("state", "failed")),
    (rf"(?P<state>Finished|Cancelled) {AT}\.", lambda job, found: [
        (("state", job.id), {"Finished": "succeeded"}.get(found["state"], "cancelled"))
    ]),
    (rf"Cancelled by “(?P<user>[^”]+)” {AT}\.", _is("state", "cancelled")),
    (rf"(?:Resumed|Started again from the beginning) {SPAN}\.", _is("resumes", True)),
    (rf"Started {SPAN}\.", _is("attempt", 1)),
    (r"At most [\w ]+ left\.", _is("asked to end", True)),
    (rf"Paused {SPAN}\.", _is("state", "paused")),
    (r"Held [\w ]+ of GPU time\.", _is("ended", True)),
    (r"Likely (?P<verb>starts again from the beginning|starts|resumes) (?P<when>.+)\.", lambda job, found: [
        (("waits", job.id), True), (("resumes", job.id), found["verb"] != "starts")
    ]),
    (r"The next trial likely starts .+\.", _is("waits", True)),
    (r"Estimating the start time\.", _is("waits", True)),
    (r"When it starts is unknown: jobs before it have no time limit, and none like them ran so long\.",
     _is("waits", True)),
    (r"When it starts is unknown(?:, in .+ at the latest)?: none like the jobs before it have ended, or .+\.",
     _is("waits", True)),
    (r"When it starts is unknown: it was expected several times and did not start\.", _is("waits", True)),
    (r"It starts once a stopping job has left its GPUs, which is overdue: no time can be given\.",
     _is("waits", True)),
    (r"(?:It|The next trial) was expected to (?:start|start again from the beginning|resume) .+ ago\.",
     _is("waits", True)),
    (r"(?:With the present nodes, quotas and limits it never starts,|No start is foreseen (?:within|before)) .+\.",
     _is("waits", True)),
]  # fmt: skip


def facts_of(job: wire.Job, sentence: str) -> list[Fact]:
    """Return what a sentence about a job claims. Fails for a sentence that no rule reads."""
    for pattern, rule in RULES:
        found = re.fullmatch(pattern, sentence)
        if found:
            return [((key[0], *map(str, key[1:])), value) for key, value in rule(job, found)]
    raise AssertionError(f"No rule of told_sentences reads this sentence about {job.name}: {sentence}")


def sentences_in(text: str) -> list[str]:
    """Return the sentences of a text as a page shows it."""
    return [each for each in SENTENCE_END.split(" ".join(text.split())) if each]


def truth(pool: wire.PoolView, jobs: Mapping[str, wire.Job]) -> dict[Key, object]:
    """Return all facts about the pool and its jobs, of which a sentence may claim some."""
    facts = _about_works(list(jobs.values()))
    for job in jobs.values():
        facts |= _about_job(job)
        facts["line", job.id] = (job.options.gpu_types or pool.gpu_types)[0]
    for name in {job.name for job in jobs.values()}:
        facts["project of", name] = next(job.project for job in jobs.values() if job.name == name)
    train = [node for node in pool.nodes if node.environment == "train"]
    for gpu_type in pool.gpu_types:
        cells = [cell for node in train if node.gpu_type == gpu_type for cell in node.gpus]
        facts["free", gpu_type] = sum(cell.holder is None and not cell.reserved_for for cell in cells)
        facts["reserved", gpu_type] = sum(bool(cell.reserved_for) for cell in cells)
        held = Counter(cell.holder.project for cell in cells if cell.holder)
        borrowed = Counter(cell.holder.project for cell in cells if cell.holder and cell.holder.borrowed)
        firm = Counter(
            job.project
            for job in jobs.values()
            for gpu in job.held
            if not job.options.preemptible
            and any(gpu.node == node.name and node.gpu_type == gpu_type for node in train)
        )
        for project in pool.projects:
            whose = (project.name, gpu_type)
            numbers = project.by_type[gpu_type]
            facts["held", *whose] = held[project.name]
            facts["borrowed", *whose] = borrowed[project.name]
            facts["firm", *whose] = firm[project.name]
            facts["quota", *whose] = numbers.quota
            facts["limit", *whose] = numbers.limit
            facts["fair share", *whose] = numbers.fair_share
    facts["free",] = sum(int(str(facts["free", each])) for each in pool.gpu_types)
    return facts


def _about_job(job: wire.Job) -> dict[Key, object]:
    trials = job.trials
    waits = job.state in {"queued", "paused"} and not job.held_by_user
    facts: dict[Key, object] = {
        ("state", job.id): job.state,
        ("named", job.name, job.project): job.state,
        ("project", job.id): job.project,
        ("held", job.id): trials.gpus if trials else len(job.held),
        ("borrowed", job.id): trials.borrowed if trials else sum(gpu.borrowed for gpu in job.held),
        ("waits", job.id): waits or bool(trials and job.place),
        ("resumes", job.id): job.attempt > 0,
        ("gpus", job.id): job.options.gpus,
        ("workers", job.id): job.options.workers,
        ("workers running", job.id): len(job.held) // job.options.gpus,
        ("needs", job.id): job.options.gpus * job.options.min_workers,
        ("preemptible", job.id): job.options.preemptible,
        ("held by user", job.id): job.held_by_user,
        ("nodes", job.id): len({gpu.node for gpu in job.held}),
        ("reports steps", job.id): job.progress.step is not None and job.progress.of is not None,
        ("attempt", job.id): job.attempt,
        ("failures", job.id): job.failures,
        ("exit code", job.id): job.attempts[-1].exit_code if job.attempts else None,
        ("ended", job.id): job.ended is not None,
        ("asked to end", job.id): bool(job.attempts and job.attempts[-1].asked and not job.attempts[-1].ended),
        ("place", job.id): job.place,
    }
    if trials:
        facts["trials", job.id] = trials.number
        facts["trials running", job.id] = trials.running
        facts["trials ended", job.id] = trials.succeeded + trials.pruned + trials.failed + trials.cancelled
    return facts


def _speeds(jobs: Iterable[wire.Job]) -> dict[tuple[str, ...], dict[int, list[float]]]:
    """Return the steps per second of ended jobs, by work and number of nodes."""
    found: dict[tuple[str, ...], dict[int, list[float]]] = {}
    for job in jobs:
        last = job.attempts[-1] if job.attempts else None
        if last and last.started and last.ended and job.progress.step:
            nodes = len({gpu.node for gpu in last.gpus})
            of_work = found.setdefault((job.user, job.project, job.name), {})
            of_work.setdefault(nodes, []).append(job.progress.step / (last.ended - last.started))
    return found


def _about_works(jobs: Sequence[wire.Job]) -> dict[Key, object]:
    """Return how the speeds of works on different numbers of nodes compare, by work and over all works."""
    facts: dict[Key, object] = {}
    ratios: dict[tuple[int, int], list[float]] = {}
    for work, speeds in _speeds(jobs).items():
        own = [job for job in jobs if (job.user, job.project, job.name) == work]
        for job, nodes in itertools.product(own, speeds):
            facts["runs", job.id, str(nodes)] = len(speeds[nodes])
        for pair in itertools.permutations(speeds, 2):
            ratio = median(speeds[pair[0]]) / median(speeds[pair[1]])
            ratios.setdefault(pair, []).append(ratio)
            facts |= {("times as fast", job.id, *map(str, pair)): f"{ratio:.2g}" for job in own}
    for pair, of_works in ratios.items():
        facts["usually times as fast", *map(str, pair)] = f"{median(of_works):.2g}"
        facts["kinds", *map(str, pair)] = len(of_works)
    return facts

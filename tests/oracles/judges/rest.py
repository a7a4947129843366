"""The promises of a pool at rest, by brute force: on small pools, every way of taking GPUs back is tried.

Nothing has run for long at rest and all jobs were submitted within an hour, so that no minimum run time and no
reservation explains why a job waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from judges.command import Document
from judges.pool import Held, Job, Pool, fewer_workers, pool_of, running_in
from judges.shares import entitlements, fair_shares, quotas_can_be_kept


def breaches(scenario: Document, shown: Document) -> list[str]:
    """Return the breaches in a plan of a scenario, with the name of the promise before each."""
    if not shown["stable"]:
        return ["no thrashing: the plan does not come to rest"]
    if lost := set(shown["jobs"]) ^ {job["name"] for job in scenario["jobs"]}:
        return [f"nothing lost: {sorted(lost)}"]
    found = [*_one_type(scenario, shown)]
    parts = list(of_each_type(scenario, shown)) if not found else []
    for part, part_shown in parts:
        pool, running = pool_of(part), running_in(part_shown)
        broken = [*_exclusive(pool, running), *_gangs(pool, running), *_limits(pool, running, part)]
        found += broken or [*_work_conserving(pool, running, part), *_guarantee(pool, running)]
    if not found and len(parts) == 1 and scenario.get("surplus", "fair") == "fair":
        found += _shares(*parts[0])
    return found


def of_each_type(scenario: Document, shown: Document) -> Iterator[tuple[Document, Document]]:
    """Yield the part of each GPU type: its nodes, what runs there, what waits and accepts it, and its quotas."""
    kinds = {node["name"]: node.get("gpu_type", "") for node in scenario["nodes"]}
    for kind in dict.fromkeys(kinds.values()):
        there = {name: {kinds[node] for node in job["nodes"]} for name, job in shown["jobs"].items()}
        jobs = [
            {key: value for key, value in job.items() if key not in {"gpu_types", "placed"}}
            | ({"placed": job["placed"]} if any(kinds.get(node) == kind for node in job.get("placed", ())) else {})
            for job in scenario["jobs"]
            if kind in (there[job["name"]] or job.get("gpu_types") or kinds.values())
        ]
        part = {
            "nodes": [node for node in scenario["nodes"] if kinds[node["name"]] == kind],
            "projects": [_amounts_of(each, kind) for each in scenario["projects"]],
            "jobs": jobs,
        }
        yield part, {**shown, "jobs": {job["name"]: shown["jobs"][job["name"]] for job in jobs}}


def _amounts_of(project: Document, kind: str) -> Document:
    tables = {key: project[key] for key in ("quota", "limit") if isinstance(project.get(key), dict)}
    defaults = {"quota": 0, "limit": None}
    return {**project, **{key: table.get(kind, defaults[key]) for key, table in tables.items()}}


# ---------- what runs


def _one_type(scenario: Document, shown: Document) -> Iterator[str]:
    kinds = {node["name"]: node.get("gpu_type", "") for node in scenario["nodes"]}
    for job in scenario["jobs"]:
        used = {kinds[node] for node in shown["jobs"][job["name"]]["nodes"]}
        if len(used) > 1 or used - set(job.get("gpu_types") or kinds.values()):
            yield f"GPU types: {job['name']} runs on {sorted(used)}"


def _exclusive(pool: Pool, running: Held) -> Iterator[str]:
    for node, left in pool.free(running).items():
        if left < 0 or node not in pool.gpus:
            yield f"exclusive: {node} has {pool.gpus.get(node, 0)} GPUs, and {-left} more are given away"


def _gangs(pool: Pool, running: Held) -> Iterator[str]:
    for name, nodes in running.items():
        job = pool.jobs[name]
        if not job.min_workers <= len(nodes) <= job.workers:
            yield f"gang: {name} runs with {len(nodes)} of {job.min_workers} to {job.workers} workers"


def _limits(pool: Pool, running: Held, scenario: Document) -> Iterator[str]:
    """Jobs that ran already may exceed a limit or a quota; started ones may not."""
    before = _running_before(scenario)
    for sums, amounts, what in (
        (pool.held, {each.name: each.limit for each in pool.projects.values()}, "limit"),
        (pool.held_firmly, {each.name: each.quota for each in pool.projects.values()}, "quota of firm jobs"),
    ):
        first, now = sums(before), sums(running)
        for name, amount in amounts.items():
            if now[name] > max(amount, first[name]):
                yield f"limits: {name} holds {now[name]} GPUs, above its {what} of {amount}"


def _running_before(scenario: Document) -> dict[str, tuple[str, ...]]:
    """Return the nodes of the workers of each job that ran already."""
    return {job["name"]: tuple(filter(None, job["placed"])) for job in scenario["jobs"] if job.get("placed")}


# ---------- what waits


def _waiting(pool: Pool, running: Held) -> list[Job]:
    return [job for job in pool.jobs.values() if job.name not in running]


def _work_conserving(pool: Pool, running: Held, scenario: Document) -> Iterator[str]:
    """A job waits, or has too few workers, though more fit on free GPUs.

    To grow is to restart, so a job that is not preemptible keeps the workers that it started with, whatever others
    give up later.
    """
    free = pool.free(running)
    before = _running_before(scenario)
    given_up = Counter(_gpus_by_node(pool, before))
    given_up.subtract(_gpus_by_node(pool, {name: running.get(name, ()) for name in before}))
    free_at_start = {node: left - max(0, given_up[node]) for node, left in free.items()}
    for job in _waiting(pool, running):
        if pool.fits(job, free) and pool.permitted(job, running):
            yield f"work conserving: {job.name} waits though it fits on free GPUs"
    for name, nodes in running.items():
        job = pool.jobs[name]
        if not job.preemptible and name in before:
            continue
        room = any(left >= job.gpus for left in (free if job.preemptible else free_at_start).values())
        if len(nodes) < job.workers and room and pool.permitted(job, running, job.gpus):
            yield f"work conserving: {name} runs with {len(nodes)} of {job.workers} workers, and one more fits"


def _gpus_by_node(pool: Pool, running: Held) -> dict[str, int]:
    """Return the GPUs of each node on which these jobs run."""
    left = pool.free(running)
    return {node: pool.gpus.get(node, 0) - free for node, free in left.items()}


def _guarantee(pool: Pool, running: Held) -> Iterator[str]:
    """A job that fits the quota of its project waits, though GPUs beyond the quotas of others would be enough."""
    quotas = {each.name: each.quota for each in pool.projects.values()}
    if quotas_can_be_kept(pool):
        for job in _waiting(pool, running):
            if (left := _taken_back(pool, running, job, quotas)) is not None:
                gone = sorted(name for name in running if left.get(name) != running[name])
                yield f"guarantee: {job.name} fits the quota of {job.project}, and could have the GPUs of {gone}"


def _shares(scenario: Document, shown: Document) -> Iterator[str]:
    """Fair shares follow the rules, and a job within its share takes back GPUs beyond those of others.

    A parent may hold less than its share: a team of weight 0 takes back no more than its own quota.
    """
    pool, running = pool_of(scenario), running_in(shown)
    if not _shares_are_plain(pool):
        return
    shares = fair_shares(pool, running)
    claimed = {name: project["fair_share"] for name, project in shown["projects"].items()}
    if claimed != {name: shares[name] for name in claimed}:
        yield f"fair share: shown {claimed}, by the rules {shares}"
        return
    held = pool.held(running)
    if all(job.gpus == job.workers == 1 for job in pool.jobs.values()):
        for name, share in shares.items():
            if held[name] < share and not pool.children(name):
                yield f"fair share: {name} holds {held[name]} of its share of {share}, and each job needs one GPU"
    entitled = entitlements(pool, running)
    for job in _waiting(pool, running):
        left = _taken_back(pool, running, job, entitled, served=True)
        if left is not None:
            gone = sorted(name for name in running if left.get(name) != running[name])
            yield f"fair share: {job.name} fits the share of {job.project}, and could have the GPUs of {gone}"


def _shares_are_plain(pool: Pool) -> bool:
    """Tell whether the rules leave nothing open about fair shares.

    They do if quotas are more than there is to divide, or jobs that are not preemptible compete for a quota.
    """
    return quotas_can_be_kept(pool) and all(job.preemptible for job in pool.jobs.values())


def _taken_back(
    pool: Pool, running: Held, job: Job, amounts: Mapping[str, float], *, served: bool = False
) -> Held | None:
    """Return who still runs after GPUs are taken back for a job, one worker or gang at a time; None if in no way.

    ``amounts`` are what projects may keep. Those of the victim's side hold more than theirs before each step, and
    those of the job's side hold no more than theirs once it runs. With ``served`` none that paid is left with a
    smaller part of its amount than those on the job's side have then.
    """
    within = pool.held(running)[job.project] + job.least <= amounts[job.project]
    if not within or not pool.could_run(job) or pool.fits(job, pool.free(running)):
        return None
    mine = pool.path(job.project)
    seen: set[frozenset[tuple[str, tuple[str, ...]]]] = set()
    states: list[Held] = [running]
    while states:
        state = states.pop()
        if (
            state is not running
            and pool.fits(job, pool.free(state))
            and pool.permitted(job, state)
            and _fair(pool, running, state, job, amounts, served=served)
        ):
            return state
        held = pool.held(state)
        for victim in map(pool.jobs.__getitem__, state):
            theirs = pool.path(victim.project)
            paying = set(theirs) - set(mine)
            if not (
                victim.preemptible
                and paying
                and set(mine) - set(theirs)
                and all(held[each] > amounts[each] for each in paying)
            ):
                continue
            for fewer in fewer_workers(state, victim):
                key = frozenset((name, tuple(sorted(nodes))) for name, nodes in fewer.items())
                if key not in seen:
                    seen.add(key)
                    states.append(fewer)
    return None


def _fair(pool: Pool, before: Held, state: Held, job: Job, amounts: Mapping[str, float], *, served: bool) -> bool:
    """Tell whether those on the job's side stay within their amounts, and who paid is not left worse off."""
    mine, held = pool.path(job.project), pool.held(state)
    for victim in {pool.jobs[name].project for name, nodes in before.items() if state.get(name) != nodes}:
        theirs = pool.path(victim)
        helped = {each: held[each] + job.least for each in mine if each not in theirs}
        paid = {each: held[each] for each in theirs if each not in mine}
        if any(now > amounts[each] for each, now in helped.items()):
            return False
        if served and any(
            left < amounts[payer] and left * amounts[each] < now * amounts[payer]
            for payer, left in paid.items()
            for each, now in helped.items()
        ):
            return False
    return True

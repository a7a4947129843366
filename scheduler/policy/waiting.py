"""Why a job waits, and the least that would have to change for it to start."""

from __future__ import annotations

from math import ceil

from springtide.scheduler.model import Job, Phase, Reason
from springtide.scheduler.policy import gates, placement
from springtide.scheduler.policy.claims import Reclaim
from springtide.scheduler.policy.desk import Desk
from springtide.scheduler.policy.fair_share import UNLIMITED
from springtide.scheduler.policy.pool import Place, bits
from springtide.scheduler.policy.reasons import Param, label
from springtide.scheduler.policy.state import State
from springtide.scheduler.policy.tree import Seat
from springtide.scheduler.policy.victims import Search

LOOK_AT = 64
"""How many of the roomiest nodes are searched for the job whose end would help."""


def reason(state: State, job: Job, now: float) -> Reason:
    """The reason why the job does not run, or that it does."""
    simple = {Phase.RUNNING: "running", Phase.PAUSING: "pausing", Phase.HELD: "held"}.get(job.phase)
    if simple is not None:
        return Reason(simple, {"job": job.id})
    leaf = state.tree.leaves.get(job.project)
    if leaf is None:
        return Reason("unknown-project", {"project": job.project})
    if job.reserved:
        return _awaits(state, job)
    if job.not_before > now:
        return Reason("back-off", {"seconds": ceil(job.not_before - now), "until": job.not_before})
    return _refused(state, job, leaf) or _lacks_room(state, job, leaf, now)


def _awaits(state: State, job: Job) -> Reason:
    holders = [state.jobs[job_id] for job_id in state.pool.holders(job.reserved)]
    return Reason(
        "awaits-pause" if holders else "next",
        {
            "gpus": len(job.reserved) * job.gpus,
            "jobs": tuple(each.id for each in holders),
            "names": tuple(label(each) for each in holders),
            "projects": tuple(sorted({each.project for each in holders})),
        },
    )


def _refused(state: State, job: Job, leaf: Seat) -> Reason | None:
    """What no change in the pool's load can help."""
    need = job.gpus * job.min_workers
    if (seat := gates.over_limit(leaf, need)) is not None:
        return Reason("over-limit", {"at": seat.name, "held": seat.claimed, "limit": seat.limit, "gpus": need})
    if (seat := gates.beyond_quota(leaf, job, need)) is not None:
        return Reason("beyond-quota", {"at": seat.name, "firm": seat.firm, "quota": seat.quota, "gpus": need})
    pool = state.pool
    nodes = [pool.places[rank] for rank in bits(pool.mask_for(job.gpu_types))]
    largest = max((place.usable.bit_count() for place in nodes), default=0)
    types = tuple(job.gpu_types)
    if job.gpus > largest:
        return Reason("too-large", {"gpus": job.gpus, "largest": largest, "gpu_types": types})
    slots = pool.capacity(job.gpus, job.gpu_types)
    if job.min_workers > slots:
        return Reason(
            "gang-too-large",
            {"workers": job.min_workers, "gpus": job.gpus, "most": slots, "gpu_types": types},
        )
    return None


def _lacks_room(state: State, job: Job, leaf: Seat, now: float) -> Reason:
    if placement.find(state.pool, job, job.min_workers) is not None:
        return Reason("next", {"gpus": job.gpus * job.min_workers, "jobs": (), "names": (), "projects": ()})
    state.share_out()
    seat = state.tree.seats[job.project]
    about: dict[str, Param] = {
        "project": job.project,
        "held": seat.claimed,
        "quota": None if seat.quota == UNLIMITED else seat.quota,
        "fair_share": seat.share,
        "gpus": job.gpus,
        "workers": job.min_workers,
        "free": state.pool.free,
        "reserved": sum(place.reserved.bit_count() for place in state.pool.places),
        **_nearest(state, job),
    }
    need = job.gpus * job.min_workers
    if leaf.claimed + need > leaf.entitled:
        return Reason("share-used", {**about, **_beyond_share(state, leaf, need)})
    soonest = _soonest(state, job, leaf, now)
    if soonest is not None:
        return Reason("too-soon", {**about, "seconds": ceil(soonest - now), "until": soonest})
    return Reason("no-room", about)


def _beyond_share(state: State, leaf: Seat, need: int) -> dict[str, Param]:
    """What the project may hold, if the job needs more than that, and the quota with which it would get it."""
    if need <= leaf.entitled or any(seat.claimed + need > seat.entitled for seat in leaf.path[1:]):
        return {}
    siblings = leaf.parent.children if leaf.parent is not None else state.tree.roots
    kept = sum(min(each.quota, each.claimed) for each in siblings if each is not leaf)
    room = leaf.parent.entitled if leaf.parent is not None else state.pool.total
    wanted = leaf.claimed + need
    return {"may_hold": leaf.entitled, "wanted": wanted if wanted + kept <= room else None}


def _soonest(state: State, job: Job, leaf: Seat, now: float) -> float | None:
    """When the minimum run time of a job ends that could make way."""
    desk = Desk(state, now)
    pool_mark, tree_mark = state.pool.mark(), state.tree.mark()
    Search(desk, leaf, job, Reclaim(state, leaf, job.gpus * job.min_workers)).solve()
    state.pool.back_to(pool_mark)
    state.tree.back_to(tree_mark)
    return min(desk.wake, default=None)


def _nearest(state: State, job: Job) -> dict[str, Param]:
    """The node that lacks the least for one worker, and the running job whose end would make the difference."""
    pool = state.pool
    within = pool.mask_for(job.gpu_types)
    seen = 0
    best: tuple[tuple[int, bool, int, str], Place, Job] | None = None
    roomiest: Place | None = None
    for count in range(len(pool.buckets) - 1, -1, -1):
        for rank in bits(pool.buckets[count] & within):
            place = pool.places[rank]
            roomiest = roomiest or place
            seen += 1
            if seen > LOOK_AT:
                break
            for job_id, mask in place.jobs.items():
                other = state.jobs[job_id]
                if (place.free | (mask & place.usable & ~place.reserved)).bit_count() >= job.gpus:
                    cost = (mask.bit_count(), not _borrows(state, other), -int(other.started or 0), job_id)
                    if best is None or cost < best[0]:
                        best = (cost, place, other)
    found: dict[str, Param] = {
        "node": roomiest.name if roomiest is not None else None,
        "node_free": roomiest.free.bit_count() if roomiest is not None else 0,
    }
    if best is not None and job.min_workers == 1:
        other = best[2]
        found |= {
            "if_job": other.id,
            "if_name": label(other),
            "if_project": other.project,
            "if_borrowed": int(_borrows(state, other)),
        }
    return found


def _borrows(state: State, job: Job) -> bool:
    seat = state.tree.seats.get(job.project)
    return seat is not None and seat.claimed > seat.quota

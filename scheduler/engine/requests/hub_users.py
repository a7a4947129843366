"""The pool's records of people follow JupyterHub: departures, renames and memberships of projects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from springtide.scheduler.engine.state import lifecycle
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.former_names import former_name
from springtide.scheduler.store.records import RENAME, Hold, JobRecord
from springtide.scheduler.store.tables import POOL, HubGroup, HubStanding, HubUser

IN_HUB = "(in JupyterHub)"
"""Author of a change made in JupyterHub, which does not report a name."""
LEFT = "{name} is no longer a user of JupyterHub. Release it to let it run nevertheless, or cancel it"
OUTSIDE = "{name} is in no project any more. Add them to one in JupyterHub, which releases it, or cancel it"


@dataclass(frozen=True, slots=True)
class Seen:
    """The users of JupyterHub, by name with the identity of each, the members of groups, and leads of projects.

    ``changing`` are groups that the pool has changed meanwhile: their members are those that it has recorded.
    """

    users: Mapping[str, str]
    groups: Mapping[str, Sequence[str]]
    leads: Mapping[str, Sequence[str]] = field(default_factory=dict)
    changing: Collection[str] = ()


def follow(transaction: Transaction, seen: Seen) -> bool:
    """Take in who is a user of JupyterHub under which name, and who is in which project.

    Returns whether a name is no longer that of who had it.

    What a renamed user has goes with the name. What a deleted user had is kept under a name of its own, so that
    another user of the name inherits nothing. Jobs of people who have left, or are in no project, are put on hold;
    those of people who come back are released.
    """
    _follow_names(transaction, seen.users)
    recorded = {name: known.members for name in seen.changing if (known := transaction.hub_groups.get(name))}
    seen = replace(seen, groups={**seen.groups, **recorded})
    _follow_groups(transaction, seen)
    _follow_standing(transaction, seen)
    return bool(transaction.renamed)


def _follow_names(transaction: Transaction, users: Mapping[str, str]) -> None:
    known = transaction.hub_users
    counts = Counter(users.values())
    name_of = {identity: name for name, identity in users.items() if counts[identity] == 1}
    moved = [user for user in known.values() if users.get(user.name) != user.identity]
    away = {user: name_of.get(user.identity) for user in moved if user.standing is not HubStanding.LEFT}
    back = {user: name_of[user.identity] for user in moved if user.identity in name_of and user not in away}
    former = {user: _kept(user) for user in away}
    # Every name is given up before it is given to another: two people may have changed theirs.
    for user, kept in former.items():
        _move(transaction, user, kept)
    for user, name in {**away, **back}.items():
        kept = former.get(user, user)
        if name is None:
            transaction.add_audit_entry(IN_HUB, "person.leave", user.name, {}, {"name": kept.name})
        else:
            _move(transaction, kept, HubUser(name, user.identity))
            transaction.add_audit_entry(IN_HUB, RENAME, name, {"name": user.name}, {"name": name})
    for name, identity in users.items():
        if name not in transaction.hub_users:
            transaction.hub_users.put(HubUser(name, identity))


def _kept(user: HubUser) -> HubUser:
    """Return under which name what a person has is kept when her name is no longer hers."""
    return HubUser(former_name(user.name, user.identity), user.identity, HubStanding.LEFT)


def _move(transaction: Transaction, before: HubUser, after: HubUser) -> None:
    transaction.rename_user(before.name, after.name)
    transaction.hub_users.remove(before.name)
    transaction.hub_users.put(after)


def _follow_groups(transaction: Transaction, seen: Seen) -> None:
    """Record who has joined and left projects since they were last seen; nothing of a project seen first."""
    for project in transaction.projects:
        members, leads = (tuple(sorted(names.get(project, ()))) for names in (seen.groups, seen.leads))
        after = HubGroup(project, members, leads)
        before = transaction.hub_groups.get(project)
        if before == after:
            continue
        transaction.hub_groups.put(after)
        if before is not None:
            _record_members(transaction, project, set(before.members), set(after.members))


def record_change(transaction: Transaction, project: str, before: Collection[str], after: Collection[str]) -> None:
    """Note a change of the members of a project that the pool has made in JupyterHub itself."""
    known = transaction.hub_groups.get(project) or HubGroup(project, tuple(before))
    members = (set(known.members) - set(before)) | set(after)
    transaction.hub_groups.put(replace(known, members=tuple(sorted(members))))


def _record_members(transaction: Transaction, project: str, before: set[str], after: set[str]) -> None:
    members = before
    gone, new = sorted(before - after), sorted(after - before)
    for name, what in [*((name, "member.remove") for name in gone), *((name, "member.add") for name in new)]:
        changed = members ^ {name}
        was, now = {"members": sorted(members)}, {"members": sorted(changed)}
        transaction.add_audit_entry(IN_HUB, what, project, was, now, project=project)
        members = changed


def _follow_standing(transaction: Transaction, seen: Seen) -> None:
    """Note who is in a project, and hold or release the jobs of those for whom that has changed."""
    projects = transaction.projects
    inside = {name for project, members in seen.groups.items() if project in projects for name in members}
    changed: dict[str, HubUser] = {}
    for name, user in transaction.hub_users.items():
        after = user
        if user.standing is not HubStanding.LEFT:
            after = replace(user, standing=HubStanding.MEMBER if name in inside else HubStanding.OUTSIDE)
        if after != user:
            transaction.hub_users.put(after)
        if transaction.state.hub_users.get(name) != after:
            changed[name] = after
    for job in list({**transaction.state.jobs, **transaction.jobs}.values()) if changed else ():
        owner = changed.get(job.spec.user)
        if owner is not None and not job.state.final:
            _follow_job(transaction, job, owner)


def _follow_job(transaction: Transaction, job: JobRecord, owner: HubUser) -> None:
    hold = job.standing.hold
    if hold is not None and hold.by != POOL and not hold.project:
        return
    if owner.standing is HubStanding.MEMBER:
        transaction.apply(lifecycle.release(job, POOL, transaction.now))
        return
    words = LEFT if owner.standing is HubStanding.LEFT else OUTSIDE
    why = Hold(POOL, words.format(name=owner.name), transaction.now)
    transaction.apply(lifecycle.put_on_hold(job, why, transaction.now))

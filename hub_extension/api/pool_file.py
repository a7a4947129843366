"""Calls about the pool as a file: projects, people and rules, to be kept under version control.

The store changes in one transaction. The members of groups are the hub's: people are removed before it, so that a
hub that refuses is noticed first, and added after it. In between no one has more build quota than before or after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, structs

from springtide.hub_extension.api import intake
from springtide.hub_extension.api.routes import Call, Who, route
from springtide.scheduler.engine.requests.pool_file import (
    Memberships,
    Outcome,
    Question,
    refused,
    with_file,
    with_rules_of,
)
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire import (
    PersonPart,
    PoolFile,
    PoolFileDifference,
    PoolFileEdit,
    PoolFileProblem,
    PoolFileView,
    ProjectPart,
    RulesCopy,
)
from springtide.scheduler.wire.pool_file import MOST_PEOPLE, MOST_PROJECTS, PersonName
from springtide.scheduler.wire.shapes import ProjectName
from springtide.scheduler.wording import given

T = TypeVar("T", bound=msgspec.Struct)
ASKED = 200
"""Maximum number of people of a file about whom the hub is asked one by one."""
MOST_PROBLEMS = 100
"""Number of problems from which on a part is examined up to its first one only."""
LARGEST = 4 << 20
"""Maximum size of a file as JSON, in bytes."""

Change = tuple[str, str, Sequence[str], Sequence[str]]
"""A project, a person who joins or leaves it, and its members before and after."""


@route("GET", "/pool-file", Who.ADMINS)
async def export(call: Call) -> PoolFileView:
    """Return projects, people and rules as a file."""
    found = call.pool.engine.pool_file(await _memberships(call))
    return structs.replace(found, locked=[*found.locked, *call.pool.hub.rule_words()])


@route("PUT", "/pool-file", Who.ADMINS, most=LARGEST)
async def apply(call: Call, body: PoolFileEdit) -> PoolFileDifference:
    """Make the pool as a file has it, or with ``dry_run`` return what that would change."""
    problems: list[PoolFileProblem] = []
    file = _read(body.file, problems)
    memberships = await _memberships(call)
    question = Question(
        file,
        call.caller.name,
        memberships,
        problems=problems,
        known=await _known(call, file, memberships),
        name=body.name,
        version=None if body.version is UNSET else body.version,
        prune=body.prune,
        partial=body.partial,
    )
    return await _answered(call, question, dry_run=body.dry_run)


@route("POST", "/projects/{name}/rules", Who.ADMINS)
async def copy_rules(call: Call, name: ProjectName, body: RulesCopy) -> PoolFileDifference:
    """Give a project, which may be a new one, the rules of another, or with ``dry_run`` say what that changes."""
    memberships = await _memberships(call)
    file = with_rules_of(call.pool.engine.pool_file(memberships).file, body.source, name)
    version = None if body.version is UNSET else body.version
    question = Question(file, call.caller.name, memberships, version=version, partial=True)
    return await _answered(call, question, dry_run=body.dry_run)


async def _answered(call: Call, question: Question, *, dry_run: bool) -> PoolFileDifference:
    found = call.pool.engine.compare_pool_file(question)
    if dry_run or not (found.difference.changes or found.difference.problems):
        return found.difference
    return await _carried_out(call, question, found)


async def _memberships(call: Call) -> Memberships:
    return call.pool.hub.memberships(await call.pool.groups.members(fresh=True))


async def _known(call: Call, file: PoolFile, memberships: Memberships) -> set[str]:
    """Return the people of a file whom the hub knows, of those that are new to the pool, up to `ASKED` of them."""
    named = {*file.people, *(person for part in file.projects.values() for person in part.members or ())}
    members = {person for people in memberships.members.values() for person in people}
    new = sorted(named - members - call.pool.engine.hub_names())[:ASKED]
    return {person for person in new if await call.pool.groups.identity(person) is not None}


async def _carried_out(call: Call, question: Question, found: Outcome) -> PoolFileDifference:
    engine, groups, token = call.pool.engine, call.pool.groups, call.caller.token
    if found.difference.problems:
        raise refused(found.difference.problems)
    before = question.memberships.members
    made: list[str] = []
    gone: list[Change] = []
    leaving = list(_changes(before, found.members, _leavers))
    with call.pool.group_changes.making(*{project for project, *_ in leaving}):
        try:
            for name in question.file.projects:
                if name not in before:
                    await groups.create(name, token)
                    made.append(name)
            for change in leaving:
                await groups.remove(change[0], change[1], token)
                gone.append(change)
            outcome = await engine.apply_pool_file(question)
        except Refusal:
            for project, person, *_ in reversed(gone):
                await groups.add(project, person, token)
            for name in made:
                await groups.delete(name, token)
            raise
        for change in gone:
            await _record(call, "member.remove", change, question.name)
    await _add(call, _changes(_without(before, gone), found.members, _joiners), question.name)
    for name in outcome.unmade:
        await groups.delete(name, token)
    return outcome.difference


async def _add(call: Call, changes: Iterator[Change], file: str) -> None:
    """Add people to groups. Raises `Refusal` that names the missing people if the hub refuses one of them."""
    for change in changes:
        project, person, *_ = change
        with call.pool.group_changes.making(project):
            try:
                await call.pool.groups.add(project, person, call.caller.token)
            except Refusal as refusal:
                message = (
                    f"{given(person)} is not in {given(project)} yet, nor are members after her; "
                    f"all else is done. {refusal.message}"
                )
                hint = f"{refusal.hint} Then do the same again: finished steps stay.".strip()
                raise Refusal(refusal.status, refusal.code, message, hint=hint) from refusal
            await _record(call, "member.add", change, file)


async def _record(call: Call, what: str, change: Change, file: str) -> None:
    project, _, was, becomes = change
    after = with_file({"members": list(becomes)}, file)
    await call.pool.engine.record(call.caller.name, what, project, {"members": list(was)}, after, project=project)


def _leavers(was: Sequence[str], becomes: Sequence[str]) -> list[str]:
    return sorted(set(was) - set(becomes))


def _joiners(was: Sequence[str], becomes: Sequence[str]) -> list[str]:
    return sorted(set(becomes) - set(was))


def _changes(
    before: Mapping[str, Sequence[str]],
    after: Mapping[str, Sequence[str]],
    people: Callable[[Sequence[str], Sequence[str]], list[str]],
) -> Iterator[Change]:
    """Yield a change for each person of a project who joins or leaves, one after the other."""
    for project, becomes in after.items():
        now = sorted(before.get(project, ()))
        for person in people(now, becomes):
            then = sorted(set(now) ^ {person})
            yield project, person, now, then
            now = then


def _without(members: Mapping[str, Sequence[str]], gone: Sequence[Change]) -> dict[str, Sequence[str]]:
    return {**members, **{project: then for project, _, _, then in gone}}


# ---------- reading


def _read(data: Mapping[str, Any], problems: list[PoolFileProblem]) -> PoolFile:
    """Return the parts of a file that are well formed, and note a problem for each other one."""
    whole = {name: value for name, value in data.items() if name not in {"projects", "people"}}
    file = _part(whole, PoolFile, "", problems) or PoolFile()
    return structs.replace(
        file,
        projects=_parts(data, "projects", (ProjectName, ProjectPart, MOST_PROJECTS), problems),
        people=_parts(data, "people", (PersonName, PersonPart, MOST_PEOPLE), problems),
    )


def _parts(
    data: Mapping[str, Any], key: str, kinds: tuple[Any, type[T], int], problems: list[PoolFileProblem]
) -> dict[str, T]:
    """Return the parts under a key; ``kinds`` are the types of names and parts, and the maximum number of them."""
    parts, (name_kind, kind, most) = data.get(key), kinds
    if parts is None:
        return {}
    if not isinstance(parts, dict):
        message = f"{key} is no table; expected the names, each with its fields."
        problems.append(PoolFileProblem(field=key, message=message))
        return {}
    if len(parts) > most:
        message = f"{key} has {len(parts):,} names; expected at most {most:,}."
        problems.append(PoolFileProblem(field=key, message=message, hint="Apply several files."))
        return {}
    found: dict[str, T] = {}
    for name, value in parts.items():
        field = f"{key}.{name}"
        try:
            intake.checked(name, name_kind, "The name")
        except Refusal as refusal:
            problems.append(PoolFileProblem(field=field, message=refusal.message, hint=refusal.hint))
            continue
        part = _part({} if value is None else value, kind, field, problems)
        if part is not None:
            found[name] = part
    return found


def _part(value: object, kind: type[T], field: str, problems: list[PoolFileProblem]) -> T | None:
    try:
        return intake.struct_of(value, kind)
    except Refusal as refusal:
        found = list(_refusals(value, kind)) if len(problems) < MOST_PROBLEMS else []
        for each in found or [refusal]:
            where = ".".join(filter(None, (field, each.field))) or "file"
            problems.append(PoolFileProblem(field=where, message=each.message, hint=each.hint))
        return None


def _refusals(value: object, kind: type[msgspec.Struct]) -> Iterator[Refusal]:
    """Yield the refusal of each field of a part that is malformed by itself."""
    for name, inner in value.items() if isinstance(value, dict) else ():
        try:
            intake.struct_of({name: inner}, kind)
        except Refusal as refusal:
            yield refusal

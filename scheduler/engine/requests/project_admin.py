"""Changes to projects and people: validated, and recorded in the audit trail."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import copysign
from typing import Any, TypeAlias
from unicodedata import normalize

import msgspec
from msgspec import UNSET

from springtide.scheduler import wire, wording
from springtide.scheduler.engine import idle
from springtide.scheduler.engine.requests import bookings, budgets, freezes, presets, quotas, ranges
from springtide.scheduler.engine.state.booked import changed_quotas
from springtide.scheduler.engine.state.endings import (
    ENDS,
    check_until,
    end_at,
    ended_at,
    ends_again,
    recorded_ends,
    until_of,
    value_before,
)
from springtide.scheduler.engine.state.known_types import KnownTypes
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.gpu_types import amount_words, limit_of, quota_of
from springtide.scheduler.model import Amount, Environment, Project
from springtide.scheduler.refusal import CHANGED, Refusal, invalid_field, unknown_project
from springtide.scheduler.store.tables import (
    POOL,
    Ending,
    EndingKey,
    EndingKind,
    JobRanges,
    PersonRecord,
    ProjectRecord,
    RuleScope,
)
from springtide.scheduler.wire.wrong_values import wrong
from springtide.scheduler.wording import utc

Members = Mapping[str, Sequence[str]]
FIELDS = ("parent", "quota", "limit", "weight", "priority", "build_quota")
"""Names of a project's fields set by admins, beside the ranges of its jobs."""
FIELD_KINDS = {name: EndingKind(name) for name in (*FIELDS, "ranges")}
"""The kind of change that ends by itself, by the name of its field."""
LEAST_WEIGHT = 1e-6
"""Least weight of a project that takes part in idle GPUs."""
RESERVED = frozenset({"any", "none"})
"""Names that no project has: commands and pages mean all projects, or none, by them."""
AMOUNTS = {"quota": Environment.TRAIN, "limit": Environment.TRAIN, "build_quota": Environment.BUILD}
"""The fields that are numbers of GPUs, and whose GPUs they are."""


def editable_fields(record: ProjectRecord) -> dict[str, Any]:
    """Return what an admin sets of a project, as `wire.ProjectEdit` names it."""
    fields = {name: getattr(record.project, name) for name in FIELDS}
    return {**fields, "ranges": msgspec.to_builtins(ranges.shown(record.ranges))}


def _changes(edit: wire.ProjectEdit, types: KnownTypes, before: Project | None = None) -> dict[str, Any]:
    """Return the fields that an edit sets. Raises `Refusal` for amounts that do not fit the pool's GPU types."""
    changes = {name: value for name in FIELDS if (value := getattr(edit, name)) is not UNSET}
    if "weight" in changes:
        _check_weight(changes["weight"])
    for name, environment in AMOUNTS.items():
        if name in changes:
            changes[name] = quotas.checked(changes[name], name, types, environment)
            if before is not None:
                changes[name] = quotas.merged(getattr(before, name), changes[name], name, types.of(environment))
    return changes


def _check_weight(weight: float) -> None:
    """Raise `Refusal` for a weight so small that nothing can be divided by it, or a negative zero."""
    if 0 < weight < LEAST_WEIGHT or (weight == 0 and copysign(1, weight) < 0):
        message = f"weight is {wording.given(weight)}; expected 0 or a number from {LEAST_WEIGHT:f} up to 1000000."
        raise Refusal(
            422, "invalid", message, field="weight", hint="With 0 it gets no idle GPUs beyond its quota."
        )


def create_project(
    transaction: Transaction,
    name: str,
    edit: wire.ProjectEdit,
    by: str,
    members: Members,
    *,
    made_group: bool = False,
    together: bool = False,
) -> ProjectRecord:
    """Create a project. Raises `Refusal` for an invalid or used name, or if quotas would exceed what holds them.

    ``members`` are the members by project. ``made_group`` records that the hub's group was created for it.
    ``together`` leaves the check of values and sums to `refusals_of_all`: the change is one of several.
    """
    _check_unused(name, transaction.projects)
    plain = wording.is_printable(name) and name == name.strip() and name not in {".", ".."}
    if not name or len(name) > 64 or "/" in name or not plain:
        raise Refusal(
            422,
            "invalid",
            f"{wording.given(name)} cannot be a project's name.",
            field="name",
            hint="Use up to 64 letters, digits, spaces and signs other than “/”.",
        )
    if name.casefold() in RESERVED:
        message = (
            f"{wording.given(name)} cannot be a project's name: lists and filters mean no project, or all, by it."
        )
        raise Refusal(422, "invalid", message, field="name", hint="Choose another name.")
    before = transaction.policy_projects()
    project = Project(name=name, **_changes(edit, transaction.types))
    if not together:
        _check(transaction, before, {**before, name: project}, name, members)
    age = transaction.take_project_age()
    of = _ranges(edit, JobRanges())
    record = ProjectRecord(replace(project, age=age), colour=age, made_group=made_group, ranges=of)
    transaction.projects.put(record)
    transaction.add_audit_entry(by, "project.create", name, {}, editable_fields(record), project=name)
    return record


def _check_unused(name: str, projects: Iterable[str]) -> None:
    """Raise `Refusal` for the name of a project that is there, in any case and any form of Unicode."""
    other = next((each for each in projects if _alike(each) == _alike(name)), None)
    if other is None:
        return
    hint = "" if other == name else _same_to_people(other, name)
    raise Refusal(409, "exists", f"There is a project {wording.given(other)} already.", field="name", hint=hint)


def _same_to_people(one: str, other: str) -> str:
    """Return why two names cannot both be there."""
    if normalize("NFC", one) == normalize("NFC", other):
        return "Names that look the same, and are written with other signs of Unicode, are taken for each other."
    return "Names that differ in case only are too easily taken for each other."


def _alike(name: str) -> str:
    """Return a text that is the same for names that people take for each other."""
    return normalize("NFC", normalize("NFC", name).casefold())


def edit_project(
    transaction: Transaction,
    name: str,
    edit: wire.ProjectEdit,
    by: str,
    members: Members,
    *,
    together: bool = False,
    returning: Iterable[Ending] = (),
) -> ProjectRecord:
    """Change a project; ``together`` is as in `create_project`, ``returning`` are earlier ends of its fields.

    Raises `Refusal` for an unknown project, an edit of an older version, or quotas that would not fit.
    """
    record = _existing(transaction, name)
    if edit.version is not UNSET and edit.version != record.version:
        raise Refusal(
            409,
            CHANGED,
            f"The project {wording.given(name)} was changed meanwhile, from version {edit.version} to "
            f"{record.version}.",
            field="version",
            hint="Look at it again, and repeat the change if it still holds.",
        )
    check_until(edit.until, transaction.now)
    _check_until_of(edit)
    changes = _changes(edit, transaction.types, record.project)
    project, of = replace(record.project, **changes), _ranges(edit, record.ranges)
    changed = record
    if (project, of) != (record.project, record.ranges):
        changed = replace(record, project=project, ranges=of, version=record.version + 1)
    old, new = editable_fields(record), editable_fields(changed)
    differ = [field for field in old if old[field] != new[field]]
    endings = _endings_after(transaction, name, edit, {field: old[field] for field in differ}, by)
    endings.update((ending.key, ending) for ending in returning)
    if project != record.project and not together:
        before = transaction.policy_projects()
        ahead = bookings.Ahead(transaction.now, endings)
        _check(transaction, before, {**before, name: project}, name, members, ahead=ahead)
    known = dict(transaction.endings.items())
    ended = [field for field, key in _keys(name) if until_of(known, key) != until_of(endings, key)]
    if not differ and not ended:
        return record
    transaction.projects.put(changed)
    touched = [field for field in old if field in differ or field in ended]
    was, now = ({field: values[field] for field in touched} for values in (old, new))
    keys = [(FIELD_KINDS[field], name) for field in touched]
    until, then = _common_end(known, keys), _common_end(endings, keys)
    if until is not None and (until > transaction.now or not differ):
        was["until"] = until
    if then is not None or not differ:
        now["until"] = then
    was.update(recorded_ends(transaction, keys))
    _put_ends(transaction, name, endings)
    transaction.add_audit_entry(by, "project.change", name, was, now, project=name)
    return changed


def _common_end(endings: Mapping[EndingKey, Ending], keys: Iterable[EndingKey]) -> float | None:
    """Return when several values end, None if they do not all end at one time."""
    ends = {until_of(endings, key) for key in keys}
    return ends.pop() if len(ends) == 1 else None


def _check_until_of(edit: wire.ProjectEdit) -> None:
    """Raise `Refusal` for the end of a change that changes nothing."""
    if edit.until is not None and all(getattr(edit, field) is UNSET for field in FIELD_KINDS):
        raise invalid_field(
            "until",
            "Only the end of a change is given, and not what changes.",
            "Give the values that hold until then as well; those that hold now may be given again.",
        )


def _endings_after(
    transaction: Transaction, name: str, edit: wire.ProjectEdit, before: Mapping[str, Any], by: str
) -> dict[EndingKey, Ending]:
    """Return all changes that end, by what ends, once the given fields of a project end when the edit says.

    ``before`` are the earlier values of the fields that change.
    """
    endings = dict(transaction.endings.items())
    for field, key in _keys(name):
        known = endings.get(key)
        if getattr(edit, field) is not UNSET and (field in before or known is not None):
            endings.pop(key, None)
            if edit.until is not None:
                endings[key] = ended_at(known, key, edit.until, by, before.get(field))
    return endings


def _put_ends(transaction: Transaction, name: str, endings: Mapping[EndingKey, Ending]) -> None:
    """Have the fields of a project end as ``endings`` say."""
    for _, key in _keys(name):
        if endings.get(key) is None:
            transaction.endings.remove(key)
        elif endings[key] != transaction.endings.get(key):
            transaction.endings.put(endings[key])


def _keys(name: str) -> Iterator[tuple[str, EndingKey]]:
    """Yield the fields of a project, with the keys of their ends."""
    yield from ((field, (kind, name)) for field, kind in FIELD_KINDS.items())


def restore_fields(
    transaction: Transaction, name: str, values: Mapping[str, Any], by: str, members: Members
) -> None:
    """Give a project the ``values`` that the audit trail has of it, with the ends that they had.

    One that would have ended meanwhile is what would have returned. Raises `Refusal` as `edit_project` does.
    """
    ends = ends_again(values, name, by)
    over = {ending.kind.value: ending.before for ending in ends if ending.until <= transaction.now}
    left_out = {ENDS, "until"} if ends else set()
    fields = {field: value for field, value in {**values, **over}.items() if field not in left_out}
    returning = [ending for ending in ends if ending.kind.value not in over]
    edit_project(transaction, name, whole(transaction, fields), by, members, returning=returning)


def return_field(transaction: Transaction, name: str, field: str, value: Any, members: Members) -> None:
    """Give a field of a project the value that it had before a change that has ended.

    Raises `Refusal` if that does not fit any more.
    """
    edit_project(transaction, name, whole(transaction, {field: value}), POOL, members)


def lost_returns(transaction: Transaction, members: Members) -> dict[EndingKey, str]:
    """Return the values of projects that cannot return after changes for a time, each with why.

    They return in the order of their ends, to the projects as they are now.
    """
    lost: dict[EndingKey, str] = {}
    projects = transaction.policy_projects()
    for ending in sorted(transaction.endings.values(), key=lambda ending: ending.until):
        if ending.kind.value not in FIELDS or ending.subject not in projects:
            continue
        project = projects[ending.subject]
        try:
            edit = whole(transaction, {ending.kind.value: ending.before})
            changed = replace(project, **_changes(edit, transaction.types, project))
            then = {**projects, project.name: changed}
            ahead = bookings.Ahead(max(ending.until, transaction.now), transaction.endings)
            _check(transaction, projects, then, project.name, members, ahead=ahead)
        except Refusal as refusal:
            lost[ending.key] = refusal.message
        else:
            projects = then
    return lost


Later: TypeAlias = Mapping[EndingKey | str, str]
"""What will not be as it was decided, in sentences: by the end of a change, or for a booking by the sentence."""


def not_as_decided(transaction: Transaction, members: Members) -> Later:
    """Return which values cannot return after changes for a time, and which bookings exceed a limit."""
    found: dict[EndingKey | str, str] = {said: said for said in bookings.beyond_limits(transaction)}
    for key, why in lost_returns(transaction, members).items():
        ending = transaction.endings[key]
        field, name = ending.kind.value.replace("_", " "), wording.given(ending.subject)
        found[key] = (
            f"The {field} of {name} cannot return to {value_before(ending)} at {utc(ending.until)}: {why} "
            "It stays as it is until that fits."
        )
    return found


def new_in(before: Later, after: Later) -> list[str]:
    """Return the sentences about the decisions that held before a change, and do not after it."""
    return [said for key, said in after.items() if key not in before]


def return_person(transaction: Transaction, name: str, quota: Amount, members: Members) -> None:
    """Give a person the own build quota that she had before a change that has ended.

    Raises `Refusal` if that does not fit any more.
    """
    whole = quotas.completed(quota, "build_quota", transaction.types.build)
    edit_person(transaction, name, whole, POOL, members)


def whole(transaction: Transaction, fields: Mapping[str, Any]) -> wire.ProjectEdit:
    """Return the edit that gives a project these values and leaves nothing of tables of GPU types as it was."""
    values = {
        name: quotas.completed(value, name, transaction.types.of(AMOUNTS[name])) if name in AMOUNTS else value
        for name, value in fields.items()
    }
    return msgspec.convert(values, wire.ProjectEdit)


def _ranges(edit: wire.ProjectEdit, before: JobRanges) -> JobRanges:
    return before if edit.ranges is UNSET else ranges.stored(edit.ranges)


def delete_project(transaction: Transaction, name: str, by: str) -> bool:
    """Delete a project and return whether the hub's group was created for it.

    Raises `Refusal` while it has unfinished jobs or child projects.
    """
    record = _existing(transaction, name)
    unfinished = sum(1 for job in transaction.state.jobs.values() if job.spec.project == name)
    unfinished += sum(1 for job in transaction.new_jobs.values() if job.spec.project == name)
    if unfinished:
        raise Refusal(
            409,
            "in_use",
            f"The project {wording.given(name)} has {unfinished} unfinished job{'s' if unfinished > 1 else ''}.",
            hint="Wait for them to end, or cancel them.",
        )
    booked = [booking.number for booking in transaction.bookings.values() if name in changed_quotas(booking)]
    if booked:
        message = f"Booking {booked[0]} is for {wording.given(name)}, or lends of its quota."
        raise Refusal(409, "in_use", message, hint="Cancel it first.")
    children = [child.name for child in transaction.projects.values() if child.project.parent == name]
    if children:
        raise Refusal(
            409,
            "in_use",
            f"The project {wording.given(name)} has projects in it: {', '.join(children)}.",
            hint="Move them elsewhere or delete them first.",
        )
    ends = recorded_ends(transaction, (key for _, key in _keys(name)))
    lost = {part: values for part, values in _parts(transaction, name).items() if values}
    transaction.projects.remove(name)
    transaction.idle_rules.remove((RuleScope.PROJECT, name))
    transaction.freezes.remove(name)
    transaction.budgets.remove(name)
    presets.remove_all(transaction, name)
    for key in (*(key for _, key in _keys(name)), idle.ending_key((RuleScope.PROJECT, name))):
        transaction.endings.remove(key)
    before = {**editable_fields(record), "age": record.project.age, **lost, **ends}
    transaction.add_audit_entry(by, "project.delete", name, before, {}, project=name)
    return record.made_group


PARTS = ("presets", "budget", "freeze", "idle_rule")
"""Names of what goes with a deleted project, beside its fields."""


def _parts(transaction: Transaction, name: str) -> dict[str, dict[str, Any]]:
    """Return what else there is of a project, by its name among `PARTS`, as the audit trail has it."""
    own = presets.of_project(transaction.presets, name)
    values: tuple[dict[str, Any], ...] = (
        {preset: presets.shown(record) for preset, record in own.items()},
        budgets.recorded(transaction, name),
        freezes.recorded(transaction, name),
        idle.recorded_whole(transaction, (RuleScope.PROJECT, name)),
    )
    return dict(zip(PARTS, values, strict=True))


def restore_parts(
    transaction: Transaction,
    name: str,
    parts: Mapping[str, Mapping[str, Any]],
    by: str,
    spending: budgets.Spending,
) -> None:
    """Give a project whose deletion is taken back what went with it; the entry of the project says so.

    Raises `Refusal` for a budget that it cannot have any more.
    """
    entries = len(transaction.audit)
    for preset, content in parts["presets"].items():
        presets.restore_preset(transaction, name, preset, content, by)
    if parts["budget"]:
        budgets.restore(transaction, name, parts["budget"], by, spending)
    if parts["freeze"]:
        freezes.restore(transaction, name, parts["freeze"], by)
    if parts["idle_rule"]:
        idle.restore(transaction, (RuleScope.PROJECT, name), parts["idle_rule"], by)
    del transaction.audit[entries:]


def edit_person(
    transaction: Transaction,
    name: str,
    quota: Amount,
    by: str,
    members: Members,
    *,
    until: float | None = None,
    together: bool = False,
) -> None:
    """Set a person's own build quota, in GPUs of each type, until a time if one is given; None removes it.

    ``together`` is as in `create_project`.
    Raises `Refusal` if all build quotas together would exceed the build GPUs.
    """
    people, key = transaction.people, (EndingKind.PERSON, name)
    was = {**recorded_of_person(transaction, name), **recorded_ends(transaction, [key])}
    before = was["build_quota"]
    numbers = quota.values() if isinstance(quota, Mapping) else () if quota is None else (quota,)
    if any(number is None or not 0 <= number <= wire.MAX_GPUS for number in numbers):
        raise Refusal(
            422, "invalid", f"A build quota of {amount_words(quota)} is not possible.", field="build_quota"
        )
    check_until(until, transaction.now)
    quota = quotas.checked(quota, "build_quota", transaction.types, Environment.BUILD)
    if before is not None:
        quota = quotas.merged(before, quota, "build_quota", transaction.types.build)
    if before == quota and until_of(transaction.endings, key) == until:
        return
    own = {person.name: person.build_quota for person in people.values()}
    after = {person: value for person, value in own.items() if person != name}
    if quota is not None:
        after[name] = quota
    if not together:
        _check_own(transaction, own, after, members, name)
    end_at(transaction, key, until, by, before)
    if quota is None:
        transaction.people.remove(name)
    else:
        transaction.people.put(PersonRecord(name, quota))
    transaction.add_audit_entry(by, "person.change", name, was, recorded_of_person(transaction, name))


def recorded_of_person(transaction: Transaction, name: str) -> dict[str, Any]:
    """Return the own build quota of a person, with its end if it has one, as the audit trail has it."""
    person, until = transaction.people.get(name), until_of(transaction.endings, (EndingKind.PERSON, name))
    quota = None if person is None else person.build_quota
    return {"build_quota": quota} if until is None else {"build_quota": quota, "until": until}


def _check_own(
    transaction: Transaction,
    before: Mapping[str, Amount],
    after: Mapping[str, Amount],
    members: Members,
    name: str,
) -> None:
    """Check a change of a person's own build quota; she counts even if she is in no project."""
    projects = transaction.policy_projects()
    counted = members if any(name in names for names in members.values()) else {**members, "": [name]}
    was, becomes = (quotas.BuildQuotas(counted, each, projects) for each in (before, after))
    _check_build(transaction, was, becomes, "build_quota")


def check_members(transaction: Transaction, before: Members | None, after: Members) -> None:
    """Check a change of the members by project.

    Raises `Refusal` if all build quotas together would exceed the build GPUs, unless they do not grow.
    """
    own = {person.name: person.build_quota for person in transaction.people.values()}
    projects = transaction.policy_projects()
    was = None if before is None else quotas.BuildQuotas(before, own, projects)
    _check_build(transaction, was, quotas.BuildQuotas(after, own, projects), "members")


def _check_build(
    transaction: Transaction, before: quotas.BuildQuotas | None, after: quotas.BuildQuotas, field: str
) -> None:
    for refusal in _exceeding_build(transaction, before, after, field):
        raise refusal


def _exceeding_build(
    transaction: Transaction, before: quotas.BuildQuotas | None, after: quotas.BuildQuotas, field: str
) -> Iterator[Refusal]:
    nodes, types = transaction.nodes.build(), transaction.types.build
    return quotas.exceeding_build_quotas(before, after, nodes, types, field)


def _existing(transaction: Transaction, name: str) -> ProjectRecord:
    record = transaction.projects.get(name)
    if record is None:
        raise unknown_project(name)
    return record


def _check(
    transaction: Transaction,
    before: Mapping[str, Project],
    after: Mapping[str, Project],
    name: str,
    members: Members,
    *,
    ahead: bookings.Ahead | None = None,
) -> None:
    """Raise `Refusal` for a project that cannot be so, and for sums that do not fit any more.

    ``ahead`` is as in `bookings.exceeding_later`.
    """
    own = {person.name: person.build_quota for person in transaction.people.values()}
    was, becomes = (quotas.BuildQuotas(members, own, each) for each in (before, after))
    for refusal in _refusals(transaction, before, after, (name,), ahead=ahead):
        raise refusal
    _check_build(transaction, was, becomes, "build_quota")


def refusals_of_all(
    transaction: Transaction, was: quotas.BuildQuotas, becomes: quotas.BuildQuotas, *, sums: bool = True
) -> list[Refusal]:
    """Return all that speaks against the changes of a transaction that were made together.

    The build quotas have the projects before and after. Without ``sums`` these are not looked at.
    """
    before, after = was.projects, becomes.projects
    changed = [name for name in after if before.get(name) != after[name]]
    found = list(_refusals(transaction, before, after, changed, sums=sums))
    return [*found, *_exceeding_build(transaction, was, becomes, "build_quota")] if sums else found


def _refusals(
    transaction: Transaction,
    before: Mapping[str, Project],
    after: Mapping[str, Project],
    changed: Sequence[str],
    *,
    ahead: bookings.Ahead | None = None,
    sums: bool = True,
) -> Iterator[Refusal]:
    """Yield what speaks against the changed projects themselves, and against the sums of quotas."""
    for name in changed:
        try:
            _check_project(transaction.types.train, before.get(name), after[name], after)
        except Refusal as refusal:
            yield refusal
    if sums and changed:
        nodes, types = transaction.nodes, transaction.types.train
        grows = bool(nodes.groups)
        yield from quotas.exceeding_quotas(before, after, nodes.possible(), types, changed, grows=grows)
        yield from bookings.exceeding_later(transaction, before, after, changed, ahead)


def _check_project(
    types: Sequence[str], before: Project | None, project: Project, all_projects: Mapping[str, Project]
) -> None:
    """Raise `Refusal` for values that a project cannot have, and for a place in the tree that it cannot be at."""
    name = project.name
    _check_values(project)
    if project.parent is not None and project.parent not in all_projects:
        raise unknown_project(project.parent, "parent", status=422)
    if _has_cycle(name, all_projects):
        raise Refusal(
            422,
            "circle",
            f"{wording.given(project.parent)} is in {wording.given(name)} itself, so {wording.given(name)} "
            "cannot be in it.",
            field="parent",
            hint="Choose a project that is not below this one.",
        )
    for gpu_type in types or ("",):
        quota, limit = quota_of(project, gpu_type, types), limit_of(project, gpu_type, types)
        if limit is not None and (quota is None or quota > limit):
            shown = "unlimited" if quota is None else str(quota)
            of_type = f" of {gpu_type} GPUs" if len(types) > 1 else ""
            raise Refusal(
                422,
                "sums",
                f"The quota{of_type} of {wording.given(name)} is {shown} and its limit {limit}: a quota cannot "
                "exceed the limit.",
                field="quota" if before is None or before.limit == project.limit else "limit",
            )


def _check_values(project: Project) -> None:
    values = {name: getattr(project, name) for name in FIELDS}
    try:
        msgspec.convert(values, wire.ProjectEdit)
    except msgspec.ValidationError as error:
        refusal = wrong(str(error), wire.ProjectEdit, values)
        message = f"The project {wording.given(project.name)} cannot be so: {refusal.message}"
        raise Refusal(422, refusal.code, message, field=refusal.field, hint=refusal.hint) from None


def _has_cycle(name: str, projects: Mapping[str, Project]) -> bool:
    """Return whether a project is in itself."""
    seen: set[str] = set()
    parent = projects[name].parent
    while parent is not None and parent not in seen:
        seen.add(parent)
        parent = projects[parent].parent if parent in projects else None
    return name in seen

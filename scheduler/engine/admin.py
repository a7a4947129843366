"""Changes to projects and people: checked, written to the audit trail, and taken back on demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
from msgspec import UNSET

from springtide.scheduler import wire
from springtide.scheduler.engine import quotas, submit
from springtide.scheduler.engine.world import Draft
from springtide.scheduler.model import Project
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.records import AuditRecord, PersonRecord, ProjectRecord

Members = Mapping[str, Sequence[str]]
FIELDS = ("parent", "quota", "limit", "weight", "priority", "build_quota")
UNDOABLE = frozenset({"project.create", "project.change", "project.delete", "person.change"})


def facts(project: Project) -> dict[str, Any]:
    """What an admin sets of a project."""
    return {name: getattr(project, name) for name in FIELDS}


def _plain(draft: Draft) -> dict[str, Project]:
    return {name: record.project for name, record in draft.all_projects().items()}


def _changes(edit: wire.ProjectEdit) -> dict[str, Any]:
    given = {name: getattr(edit, name) for name in FIELDS}
    return {name: value for name, value in given.items() if value is not UNSET}


def create_project(
    draft: Draft, name: str, edit: wire.ProjectEdit, by: str, members: Members, *, made_group: bool = False
) -> ProjectRecord:
    """A new project. Raises `Refusal` if the name is taken or the sums do not add up."""
    if draft.project(name) is not None:
        raise Refusal(409, "exists", f"There is a project {name!r} already.", field="name")
    if not name or len(name) > 64 or "/" in name or not submit.plain(name) or name != name.strip():
        raise Refusal(
            422,
            "invalid",
            f"{name!r} cannot be a project's name.",
            field="name",
            hint="Use up to 64 letters, digits, spaces and signs other than '/'.",
        )
    before = _plain(draft)
    project = Project(name=name, **_changes(edit))
    _check(draft, before, {**before, name: project}, name, members)
    age = draft.next_age()
    record = ProjectRecord(replace(project, age=age), colour=age, made_group=made_group)
    draft.put_project(name, record)
    draft.note(by, "project.create", name, {}, facts(record.project))
    return record


def edit_project(draft: Draft, name: str, edit: wire.ProjectEdit, by: str, members: Members) -> ProjectRecord:
    """Changes a project. Raises `Refusal` for an unknown project, an old version or sums that do not add up."""
    record = _known(draft, name)
    if edit.version is not UNSET and edit.version != record.version:
        raise Refusal(
            409,
            "changed",
            f"The project {name!r} was changed meanwhile: it is at version {record.version}, the change was made "
            f"on version {edit.version}.",
            field="version",
            hint="Look at it again, and repeat the change.",
        )
    return _change(draft, record, _changes(edit), by, members)[0]


def _change(
    draft: Draft, record: ProjectRecord, changes: Mapping[str, Any], by: str, members: Members
) -> tuple[ProjectRecord, int | None]:
    name = record.name
    project = replace(record.project, **changes)
    if project == record.project:
        return record, None
    before = _plain(draft)
    _check(draft, before, {**before, name: project}, name, members)
    changed = replace(record, project=project, version=record.version + 1)
    draft.put_project(name, changed)
    old, new = facts(record.project), facts(project)
    differ = [field for field in FIELDS if old[field] != new[field]]
    entry = draft.note(
        by,
        "project.change",
        name,
        {field: old[field] for field in differ},
        {field: new[field] for field in differ},
    )
    return changed, entry


def delete_project(draft: Draft, name: str, by: str) -> bool:
    """Drops a project; whether its group was made for it.

    Raises `Refusal` while it has unfinished jobs or projects in it.
    """
    record = _known(draft, name)
    unfinished = sum(1 for job in draft.world.jobs.values() if job.spec.project == name)
    unfinished += sum(1 for job in draft.new_jobs.values() if job.spec.project == name)
    if unfinished:
        raise Refusal(
            409,
            "in_use",
            f"The project {name!r} has {unfinished} unfinished job{'s' if unfinished > 1 else ''}.",
            hint="Wait for them to end, or cancel them.",
        )
    children = [child.name for child in draft.all_projects().values() if child.project.parent == name]
    if children:
        raise Refusal(
            409,
            "in_use",
            f"The project {name!r} has projects in it: {', '.join(children)}.",
            hint="Move them elsewhere or delete them first.",
        )
    draft.put_project(name, None)
    draft.note(by, "project.delete", name, {**facts(record.project), "age": record.project.age}, {})
    return record.made_group


def edit_person(draft: Draft, name: str, quota: int | None, by: str, members: Members) -> None:
    """Gives a person a build quota of her own, or takes it back. Raises `Refusal` if the sum does not add up."""
    people = draft.all_people()
    before = people[name].build_quota if name in people else None
    if before == quota:
        return
    if quota is not None and not 0 <= quota <= wire.MAX_GPUS:
        raise Refusal(422, "invalid", f"A build quota of {quota} is not possible.", field="build_quota")
    own = {person.name: person.build_quota for person in people.values()}
    after = {key: value for key, value in own.items() if key != name}
    if quota is not None:
        after[name] = quota
    projects = _plain(draft)
    gpus = quotas.total_gpus(draft.world.build_nodes())
    counted = members if any(name in names for names in members.values()) else {**members, "": [name]}
    quotas.check_build(
        quotas.build_sum(counted, own, projects), quotas.build_sum(counted, after, projects), gpus, "build_quota"
    )
    draft.put_person(name, None if quota is None else PersonRecord(name, quota))
    draft.note(by, "person.change", name, {"build_quota": before}, {"build_quota": quota})


def check_members(draft: Draft, before: Members | None, after: Members) -> None:
    """Raises `Refusal` if a change of who is in which project breaks the sum of build quotas."""
    own = {person.name: person.build_quota for person in draft.all_people().values()}
    projects = _plain(draft)
    gpus = quotas.total_gpus(draft.world.build_nodes())
    was = 0 if before is None else quotas.build_sum(before, own, projects)
    quotas.check_build(was, quotas.build_sum(after, own, projects), gpus, "members")


def undo(draft: Draft, entry: AuditRecord, by: str, members: Members) -> AuditRecord:
    """Takes a change back, as a new entry of the audit trail.

    Raises `Refusal` if it cannot be taken back or something was changed since.
    """
    if entry.what not in UNDOABLE:
        raise Refusal(409, "not_undoable", f"A change of the kind {entry.what} cannot be taken back here.")
    if entry.undone:
        raise Refusal(409, "undone", "This change was taken back already.")
    match entry.what:
        case "person.change":
            _undo_person(draft, entry, by, members)
        case "project.create":
            _undo_create(draft, entry, by)
        case "project.delete":
            _undo_delete(draft, entry, by, members)
        case _:
            _undo_change(draft, entry, by, members)
    draft.undone.append(entry.id)
    return draft.audit[-1]


def _since(subject: str) -> Refusal:
    return Refusal(
        409,
        "changed",
        f"{subject!r} was changed since, so this change cannot be taken back.",
        hint="Change it by hand.",
    )


def _undo_person(draft: Draft, entry: AuditRecord, by: str, members: Members) -> None:
    person = draft.all_people().get(entry.subject)
    if (None if person is None else person.build_quota) != entry.after.get("build_quota"):
        raise _since(entry.subject)
    edit_person(draft, entry.subject, entry.before.get("build_quota"), by, members)


def _undo_create(draft: Draft, entry: AuditRecord, by: str) -> None:
    record = draft.project(entry.subject)
    if record is None or facts(record.project) != dict(entry.after):
        raise _since(entry.subject)
    delete_project(draft, entry.subject, by)


def _undo_delete(draft: Draft, entry: AuditRecord, by: str, members: Members) -> None:
    before = dict(entry.before)
    age = before.pop("age")
    gone = entry.subject not in members
    created = create_project(draft, entry.subject, wire.ProjectEdit(**before), by, members, made_group=gone)
    draft.put_project(entry.subject, replace(created, project=replace(created.project, age=age), colour=age))


def _undo_change(draft: Draft, entry: AuditRecord, by: str, members: Members) -> None:
    record = draft.project(entry.subject)
    if record is None or any(getattr(record.project, field) != value for field, value in entry.after.items()):
        raise _since(entry.subject)
    _change(draft, record, entry.before, by, members)


def _known(draft: Draft, name: str) -> ProjectRecord:
    record = draft.project(name)
    if record is None:
        raise Refusal(404, "not_found", f"There is no project {name!r}.")
    return record


def _check(
    draft: Draft, before: Mapping[str, Project], after: Mapping[str, Project], name: str, members: Members
) -> None:
    project = after[name]
    _check_values(project)
    if project.parent is not None and project.parent not in after:
        raise Refusal(422, "unknown_project", f"There is no project {project.parent!r}.", field="parent")
    if _circle(name, after):
        raise Refusal(
            422,
            "circle",
            f"{project.parent!r} is in {name!r} itself, so {name!r} cannot be in it.",
            field="parent",
            hint="Choose a project that is not below this one.",
        )
    if project.limit is not None and (project.quota is None or project.quota > project.limit):
        quota = "unlimited" if project.quota is None else str(project.quota)
        raise Refusal(
            422,
            "sums",
            f"The quota of {name!r} is {quota} and its limit {project.limit}: a quota cannot exceed the limit.",
            field="quota" if before.get(name) is None or before[name].limit == project.limit else "limit",
        )
    quotas.check_quotas(before, after, quotas.total_gpus(draft.world.train_nodes()), name)
    own = {person.name: person.build_quota for person in draft.all_people().values()}
    quotas.check_build(
        quotas.build_sum(members, own, before),
        quotas.build_sum(members, own, after),
        quotas.total_gpus(draft.world.build_nodes()),
        "build_quota",
    )


def _check_values(project: Project) -> None:
    try:
        msgspec.convert(facts(project), wire.ProjectEdit)
    except msgspec.ValidationError as error:
        raise Refusal(422, "invalid", f"The project {project.name!r} cannot be so: {error}.") from error


def _circle(name: str, projects: Mapping[str, Project]) -> bool:
    seen = {name}
    parent = projects[name].parent
    while parent is not None:
        if parent in seen:
            return True
        seen.add(parent)
        parent = projects[parent].parent if parent in projects else None
    return False

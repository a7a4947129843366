"""The pool as a file: what it says now, and changes that make the pool as a file has it, all or none."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, structs

from springtide.scheduler import wire
from springtide.scheduler.engine import idle
from springtide.scheduler.engine.requests import presets, project_admin, quotas, ranges
from springtide.scheduler.engine.requests.pool_differences import differences
from springtide.scheduler.engine.state.state import State
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.gpu_types import as_table
from springtide.scheduler.model import Amount
from springtide.scheduler.refusal import Refusal, unknown_project
from springtide.scheduler.store.tables import EndingKey, EndingKind, HubStanding, IdleRule, RuleKey, RuleScope
from springtide.scheduler.wire import PersonPart, PoolFile, PoolFileProblem, PresetPart, ProjectPart
from springtide.scheduler.wording import given, quoted

T = TypeVar("T")
POOL_RULE: RuleKey = (RuleScope.POOL, "")


@dataclass(frozen=True, slots=True)
class Memberships:
    """The members of the hub's groups, and what of them the pool does not decide.

    ``managed`` says that the hub's authenticator sets all groups. ``configured`` are the people whom the hub's
    configuration adds at each start, by group.
    """

    members: Mapping[str, Sequence[str]]
    managed: bool = False
    configured: Mapping[str, Collection[str]] = field(default_factory=dict)

    def locked(self) -> list[str]:
        """Return sentences about what a file cannot change."""
        if self.managed:
            return ["The hub's authenticator decides who is in which project."]
        return [
            f"The hub's configuration puts {quoted(person)} into {quoted(project)} at each start."
            for project in sorted(self.configured)
            for person in sorted(self.configured[project])
        ]


@dataclass(frozen=True, slots=True)
class Question:
    """A file to apply by an admin to a pool with these memberships.

    ``problems`` were found in it so far. ``known`` are people whom the hub knows, beside those that the pool has
    read. ``name``, ``version``, ``prune`` and ``partial`` are as in `wire.PoolFileEdit`.
    """

    file: PoolFile
    by: str
    memberships: Memberships
    problems: Sequence[PoolFileProblem] = ()
    known: Collection[str] = ()
    name: str = ""
    version: str | None = None
    prune: bool = False
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a file changes. ``members`` are those after it, ``unmade`` groups made for projects that it deletes."""

    difference: wire.PoolFileDifference
    members: Mapping[str, Sequence[str]]
    unmade: Sequence[str] = ()


def present(tables: Transaction, memberships: Memberships) -> PoolFile:
    """Return the pool as a file: parents before the projects in them, all by name.

    A value that ends by itself counts as the one that returns, if that still fits. Members are left out where the
    pool does not decide about them.
    """
    lost = project_admin.lost_returns(tables, memberships.members)
    rules = {key: _lasting_rule(tables, key) for key in _rule_keys(tables)}
    people = {*tables.people, *(name for scope, name in rules if scope is RuleScope.PERSON)}
    endings = {name for kind, name in tables.endings if kind is EndingKind.PERSON}
    parts = {name: _person(tables, name, rules) for name in sorted({*people, *endings})}
    return PoolFile(
        projects={name: _project(tables, name, rules, memberships, lost) for name in _in_tree(tables)},
        people={name: part for name, part in parts.items() if part != PersonPart(build_quota=None, idle=None)},
        idle=rules.get(POOL_RULE),
        presets=_presets(tables, presets.POOL),
    )


def with_rules_of(file: PoolFile, source: str, target: str) -> PoolFile:
    """Return what gives a project the rules of another: all but its GPUs, its members, and where it is.

    A new project is where the other one is. Raises `Refusal` for an unknown source, and for the project itself.
    """
    if source not in file.projects:
        raise unknown_project(source, "source")
    if source == target:
        message = f"{quoted(target)} has its own rules already."
        raise Refusal(422, "invalid", message, field="source", hint="Choose another project to copy from.")
    part = structs.replace(file.projects[source], quota=UNSET, build_quota=UNSET, members=UNSET)
    known = target in file.projects
    return PoolFile(projects={target: structs.replace(part, parent=UNSET) if known else part})


def version_of(file: PoolFile) -> str:
    """Return a text that differs for another state of the pool."""
    return hashlib.sha256(msgspec.json.encode(file, order="sorted")).hexdigest()[:32]


def compared(transaction: Transaction, question: Question, images: Sequence[str] | None) -> Outcome:
    """Return what a file would change; ``images`` are those of the pool, None on one machine.

    The transaction is changed, and of no further use.
    """
    before = present(transaction, question.memberships)
    application = _Application(transaction, question, images)
    application.carry_out()
    after = present(transaction, application.memberships)
    difference = wire.PoolFileDifference(
        changes=[] if application.problems else differences(before, after),
        kept=application.kept,
        problems=application.problems,
        version=version_of(before),
        applied=False,
    )
    return Outcome(difference, application.memberships.members, application.unmade)


def apply(transaction: Transaction, question: Question, images: Sequence[str] | None) -> Outcome:
    """Make the pool as a file has it, but for the members of groups, which the hub changes.

    Raises `Refusal`: 409 if the pool has changed since the version that the question names, 422 for a file with
    problems. Nothing has changed then.
    """
    version = version_of(present(transaction, question.memberships))
    if question.version not in {None, version}:
        raise Refusal(
            409,
            "changed",
            "The pool was changed since the difference was shown.",
            field="version",
            hint="Look at the difference again, and repeat it.",
        )
    found = compared(transaction.copy(), question, images)
    if found.difference.problems:
        raise refused(found.difference.problems)
    entries = len(transaction.audit)
    _Application(transaction, question, images).carry_out()
    for at in range(entries, len(transaction.audit)):
        entry = transaction.audit[at]
        transaction.audit[at] = replace(entry, after=with_file(entry.after, question.name))
    return replace(found, difference=structs.replace(found.difference, applied=True))


def with_file(after: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the values after a change, as the audit trail has them, with the name of the file that made it."""
    return {**after, "file": name} if name else dict(after)


def refused(problems: Sequence[PoolFileProblem]) -> Refusal:
    """Return the refusal of a file with these problems."""
    said = " ".join(" ".join(filter(None, (f"{each.field}:", each.message, each.hint))) for each in problems)
    return Refusal(422, "pool_file", f"The file is refused as a whole. {said}", field="file")


# ---------- what the pool says now


def _in_tree(tables: State | Transaction) -> Iterator[str]:
    """Yield the names of all projects: parents first, siblings by name."""
    inside: dict[str | None, list[str]] = {}
    for name, record in sorted(tables.projects.items()):
        parent = record.project.parent
        inside.setdefault(parent if parent in tables.projects else None, []).append(name)
    waiting = list(reversed(inside.get(None, ())))
    while waiting:
        name = waiting.pop()
        yield name
        waiting += reversed(inside.get(name, ()))


def _project(
    tables: Transaction,
    name: str,
    rules: Mapping[RuleKey, wire.IdleRule | None],
    memberships: Memberships,
    lost: Container[EndingKey],
) -> ProjectPart:
    record = tables.projects[name]
    fields = {
        each: value if (key := (EndingKind(each), name)) in lost else _lasting(tables, key, value)
        for each in project_admin.FIELDS
        for value in [getattr(record.project, each)]
    }
    for each in project_admin.AMOUNTS:
        fields[each] = shown_amount(tables, each, fields[each])
    of = _lasting(tables, (EndingKind.RANGES, name), msgspec.to_builtins(ranges.shown(record.ranges)))
    members = UNSET if memberships.managed else sorted(memberships.members.get(name, ()))
    return ProjectPart(
        **fields,
        ranges=msgspec.convert(of, wire.JobRanges),
        idle=rules.get((RuleScope.PROJECT, name)),
        members=members,
        presets=_presets(tables, name),
    )


def _presets(tables: State | Transaction, project: str) -> dict[str, PresetPart]:
    of = presets.of_project(tables.presets, project)
    return {name: presets.part_of(presets.shown(record)) for name, record in of.items()}


def _person(tables: State | Transaction, name: str, rules: Mapping[RuleKey, wire.IdleRule | None]) -> PersonPart:
    own = tables.people.get(name)
    quota = _lasting(tables, (EndingKind.PERSON, name), None if own is None else own.build_quota)
    shown = None if quota is None else shown_amount(tables, "build_quota", quota)
    return PersonPart(build_quota=shown, idle=rules.get((RuleScope.PERSON, name)))


def shown_amount(tables: State | Transaction, field: str, amount: Amount) -> int | dict[str, int | None] | None:
    """Return a number of GPUs as a file has it: a table of all types if there are several, None for no bound."""
    types = tables.types.of(project_admin.AMOUNTS[field])
    if amount is None:
        return None
    if len(types) > 1:
        return as_table(amount, types, quotas.missing(field))
    return amount if isinstance(amount, int) else dict(amount)


def _lasting(tables: State | Transaction, key: tuple[EndingKind, str], value: T) -> T | Any:
    ending = tables.endings.get(key)
    return value if ending is None else ending.before


def _rule_keys(tables: State | Transaction) -> set[RuleKey]:
    """Return for whom there are rules, or will be once one that is away for a time returns."""
    ended = [subject.partition(" ") for kind, subject in tables.endings if kind is EndingKind.IDLE_RULE]
    return {*tables.idle_rules, *((RuleScope(scope), name) for scope, _, name in ended)}


def _lasting_rule(tables: State | Transaction, key: RuleKey) -> wire.IdleRule | None:
    record = tables.idle_rules.get(key)
    rule = _lasting(tables, idle.ending_key(key), None if record is None else asdict(record.rule))
    return None if rule is None else wire.IdleRule(**rule)


# ---------- making it as a file has it


class _Application:
    """The steps that make the pool as a file has it. A part with a problem is left out."""

    def __init__(self, transaction: Transaction, question: Question, images: Sequence[str] | None) -> None:
        self.transaction = transaction
        self.question = question
        self._images = images
        self.problems = list(question.problems)
        self.kept: list[str] = []
        self.unmade: list[str] = []
        self._before = present(transaction, question.memberships)
        self._was = self._build_quotas(question.memberships.members)
        self._known = {
            user.name for user in transaction.hub_users.values() if user.standing is not HubStanding.LEFT
        }
        self.memberships = replace(question.memberships, members=self._members_after())

    def carry_out(self) -> None:
        """Change the transaction. Sums are looked at once, at the end: no order of changes is wrong."""
        file = self.question.file
        here = [name for name in file.projects if name in self.transaction.projects]
        for name in here:
            self._try(f"projects.{name}", lambda name=name: self._edit_project(name))
        self._leave_out()
        for name in file.projects:
            if name not in here:
                self._try(f"projects.{name}", lambda name=name: self._create_project(name))
        for name, part in file.projects.items():
            self._set_rule((RuleScope.PROJECT, name), part.idle)
            self._set_presets(f"projects.{name}.presets", name, part.presets)
        for name, person in file.people.items():
            self._try(f"people.{name}", lambda name=name, person=person: self._edit_person(name, person))
            self._set_rule((RuleScope.PERSON, name), person.idle)
        self._set_rule(POOL_RULE, file.idle)
        self._set_presets("presets", presets.POOL, file.presets)
        unsure = bool(self.problems)
        becomes = self._build_quotas(self.memberships.members)
        for refusal in project_admin.refusals_of_all(self.transaction, self._was, becomes, sums=not unsure):
            self._note("projects", refusal)

    def _build_quotas(self, members: Mapping[str, Sequence[str]]) -> quotas.BuildQuotas:
        """Return what build quotas follow from; a person with one of her own counts also outside of projects."""
        own = {person.name: person.build_quota for person in self.transaction.people.values()}
        inside = {name for names in members.values() for name in names}
        others = sorted(own.keys() - inside)
        return quotas.BuildQuotas({**members, "": others}, own, self.transaction.policy_projects())

    def _try(self, field: str, step: Any) -> None:
        try:
            step()
        except Refusal as refusal:
            self._note(field, refusal)

    def _note(self, field: str, refusal: Refusal) -> None:
        where = f"{field}.{refusal.field}" if refusal.field and field != "projects" else field
        self.problems.append(PoolFileProblem(field=where, message=refusal.message, hint=refusal.hint))

    def _edit_project(self, name: str) -> None:
        edit = self._changed(self.question.file.projects[name], self._before.projects[name])
        ranges.check_use(edit, self._images)
        if edit != wire.ProjectEdit():
            project_admin.edit_project(self.transaction, name, edit, self.question.by, {}, together=True)

    def _create_project(self, name: str) -> None:
        edit = self._changed(self.question.file.projects[name], ProjectPart())
        ranges.check_use(edit, self._images)
        made = name not in self.question.memberships.members
        project_admin.create_project(
            self.transaction, name, edit, self.question.by, {}, made_group=made, together=True
        )

    def _changed(self, part: ProjectPart, before: ProjectPart) -> wire.ProjectEdit:
        """Return the edit of the fields that differ. Raises `Refusal` for amounts that do not fit the pool."""
        fields = {}
        for each in (*project_admin.FIELDS, "ranges"):
            value = getattr(part, each)
            if value is UNSET:
                continue
            if each in project_admin.AMOUNTS:
                value = self._amount(each, value)
            if each == "ranges":
                value = ranges.shown(ranges.stored(value))
            if value != getattr(before, each):
                fields[each] = value
        return wire.ProjectEdit(**fields)

    def _amount(self, field: str, amount: Amount) -> Amount:
        types, environment = self.transaction.types, project_admin.AMOUNTS[field]
        return shown_amount(self.transaction, field, quotas.checked(amount, field, types, environment))

    def _leave_out(self) -> None:
        """Delete the projects that the file leaves out, inner ones first, or say that they stay."""
        left = [name for name in self._before.projects if name not in self.question.file.projects]
        if not self.question.prune and not self.question.partial:
            self.kept += [f"{quoted(name)} is not in the file and stays as it is." for name in left]
        for name in reversed(left) if self.question.prune else ():
            self._try(f"projects.{name}", lambda name=name: self._delete_project(name))
        for name in self._before.people if self.question.prune else ():
            if name not in self.question.file.people:
                self._edit_person(name, PersonPart(build_quota=None, idle=None))
                self._set_rule((RuleScope.PERSON, name), None)

    def _delete_project(self, name: str) -> None:
        if project_admin.delete_project(self.transaction, name, self.question.by):
            self.unmade.append(name)

    def _edit_person(self, name: str, part: PersonPart) -> None:
        before = self._before.people.get(name)
        if before is None:
            self._check_known(f"people.{name}", name)
        if part.build_quota is UNSET:
            return
        quota = None if part.build_quota is None else self._amount("build_quota", part.build_quota)
        if quota != (None if before is None else before.build_quota):
            project_admin.edit_person(self.transaction, name, quota, self.question.by, {}, together=True)

    def _set_rule(self, key: RuleKey, rule: wire.IdleRule | msgspec.UnsetType | None) -> None:
        scope, name = key
        if rule is UNSET or (scope is RuleScope.PROJECT and name not in self.transaction.projects):
            return
        if rule != _lasting_rule(self.transaction, key):
            wanted = rule if rule is None else IdleRule(rule.tell_after, rule.notice)
            idle.set_rule(self.transaction, key, wanted, self.question.by)

    def _set_presets(self, field: str, project: str, parts: Mapping[str, PresetPart] | msgspec.UnsetType) -> None:
        """Give a project, or the pool, exactly these presets; those that are so already stay as they are."""
        transaction, by = self.transaction, self.question.by
        if parts is UNSET or (project and project not in transaction.projects):
            return
        for name in presets.of_project(transaction.presets, project):
            if name not in parts:
                presets.remove_preset(transaction, project, name, by)
        for name, part in parts.items():
            self._try(
                f"{field}.{name}",
                lambda name=name, part=part: presets.set_preset(transaction, project, name, part, by),
            )

    # ---------- members

    def _members_after(self) -> dict[str, Sequence[str]]:
        memberships = self.question.memberships
        after = dict(memberships.members)
        for project, part in self.question.file.projects.items():
            if not isinstance(part.members, list):
                continue
            here = set(memberships.members.get(project, ()))
            if memberships.managed:
                if here != set(part.members):
                    self.kept.append(f"The hub's authenticator decides who is in {quoted(project)}.")
                continue
            for person in part.members:
                if person not in here:
                    self._check_known(f"projects.{project}.members", person)
            added_again = (set(memberships.configured.get(project, ())) & here) - set(part.members)
            self.kept += [
                f"{quoted(person)} stays in {quoted(project)}: the hub's configuration adds her at each start."
                for person in sorted(added_again)
            ]
            after[project] = sorted({*part.members, *added_again})
        return after

    def _check_known(self, field: str, person: str) -> None:
        """Note a person whom the hub does not know; all count as known while the pool has not read its users."""
        if not self._known or person in self._known or person in self.question.known:
            return
        close = get_close_matches(person, sorted(self._known), n=1)
        hint = f"Did you mean {given(close[0])}?" if close else "People are known once they have logged in."
        message = f"The hub has no user named {given(person)}."
        self.problems.append(PoolFileProblem(field=field, message=message, hint=hint))

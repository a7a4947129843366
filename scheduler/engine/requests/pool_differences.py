"""What differs between two states of the pool as a file, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from msgspec import UNSET, UnsetType, structs

from springtide.scheduler.model import Amount
from springtide.scheduler.resources.quantities import shown_memory
from springtide.scheduler.wire import (
    IdleRule,
    JobRanges,
    PersonPart,
    PoolFile,
    PoolFileChange,
    PresetPart,
    ProjectPart,
)
from springtide.scheduler.wire.presets import preset_words
from springtide.scheduler.wording import amount, duration, exactly, listed, quoted

TITLES: Final = {"quota": "quota", "limit": "limit", "build_quota": "build quota"}
"""The fields of projects that are numbers of GPUs, in words."""
BLANK: Final = ProjectPart(
    parent=None, quota=0, limit=None, weight=1.0, priority=100, build_quota=0, ranges=JobRanges(), members=[]
)
"""A project with nothing set, before a new one is given its values."""


def differences(before: PoolFile, after: PoolFile) -> list[PoolFileChange]:
    """Return each change from one state to another: the pool's, those of projects as in the file, of people."""
    gone = [name for name in before.projects if name not in after.projects]
    people = sorted({*before.people, *after.people})
    return [
        *_rule_change(_Subject("pool", ""), before, after),
        *_preset_changes(_Subject("pool", ""), before, after),
        *(change for name in after.projects for change in _of_project(name, before.projects.get(name), after)),
        *(_Subject("project", name).change("is deleted") for name in gone),
        *(change for name in people for change in _of_person(name, before.people, after.people)),
    ]


@dataclass(frozen=True, slots=True)
class _Subject:
    """What changes: the pool, or the project or person of a name."""

    kind: str
    name: str

    def change(self, words: str, field: str = "", before: Any = None, after: Any = None) -> PoolFileChange:
        """Return a change; ``words`` follow the name."""
        text = f"{quoted(self.name)} {words}" if not field else f"{self._label}: {words}"
        return PoolFileChange(text=text, kind=self.kind, name=self.name, field=field, before=before, after=after)

    @property
    def _label(self) -> str:
        return quoted(self.name) if self.name else "The whole pool"


def _of_project(name: str, before: ProjectPart | None, after: PoolFile) -> Iterator[PoolFileChange]:
    subject, new = _Subject("project", name), after.projects[name]
    if before is None:
        yield subject.change(f"is a new project, {_place(new)}")
        before = structs.replace(BLANK, parent=new.parent)
    if before.parent != new.parent:
        yield subject.change(f"{_place(before)} → {_place(new)}", "parent", before.parent, new.parent)
    for field, title in TITLES.items():
        yield from _amount_changes(subject, title, field, getattr(before, field), getattr(new, field))
    for field in ("weight", "priority"):
        was, becomes = getattr(before, field), getattr(new, field)
        if was != becomes:
            yield subject.change(f"{field} {amount(was)} → {amount(becomes)}", field, was, becomes)
    yield from _range_changes(subject, before.ranges, new.ranges)
    yield from _rule_change(subject, before, new)
    yield from _preset_changes(subject, before, new)
    yield from _member_changes(subject, before.members, new.members)


def _place(part: ProjectPart) -> str:
    return f"in {quoted(part.parent)}" if isinstance(part.parent, str) else "at the top"


def _amount_changes(
    subject: _Subject, title: str, field: str, before: Amount, after: Amount
) -> Iterator[PoolFileChange]:
    """Yield a change for each GPU type whose number differs, or one for plain numbers."""
    missing = None if field == "limit" else 0
    types = {gpu_type: None for each in (before, after) if isinstance(each, Mapping) for gpu_type in each}
    for gpu_type in types or [""]:
        was, becomes = (
            each.get(gpu_type, missing) if isinstance(each, Mapping) else each for each in (before, after)
        )
        if was != becomes:
            words = f"{gpu_type} {title} {_gpus(was, field)} → {_gpus(becomes, field)}".strip()
            yield subject.change(words, f"{field}.{gpu_type}".rstrip("."), was, becomes)


def _gpus(number: int | None, field: str) -> str:
    return amount(number) if number is not None else "unlimited" if field == "quota" else "none"


def _range_changes(
    subject: _Subject, before: JobRanges | UnsetType, after: JobRanges | UnsetType
) -> Iterator[PoolFileChange]:
    was, becomes = ({} if of is UNSET else structs.asdict(of) for of in (before, after))
    for field in becomes:
        if was[field] != becomes[field]:
            words = f"range {field} {_bound(field, was[field])} → {_bound(field, becomes[field])}"
            yield subject.change(words, f"ranges.{field}", was[field], becomes[field])


def _bound(field: str, value: Any) -> str:
    if value is None:
        return "none"
    if field == "max_memory":
        return shown_memory(value)
    if field == "max_time_limit":
        return exactly(value)
    return listed(value) if isinstance(value, list) else f"{value:g}" if isinstance(value, float) else str(value)


def _member_changes(
    subject: _Subject, before: list[str] | UnsetType, after: list[str] | UnsetType
) -> Iterator[PoolFileChange]:
    was, becomes = ([] if people is UNSET else people for people in (before, after))
    for person in becomes:
        if person not in was:
            yield subject.change(f"{quoted(person)} becomes a member", "members", None, person)
    for person in was:
        if person not in becomes:
            yield subject.change(f"{quoted(person)} is no member any more", "members", person, None)


def _preset_changes(
    subject: _Subject, before: PoolFile | ProjectPart, after: PoolFile | ProjectPart
) -> Iterator[PoolFileChange]:
    was, becomes = ({} if of.presets is UNSET else of.presets for of in (before, after))
    for name in sorted({*was, *becomes}):
        old, new = was.get(name), becomes.get(name)
        if old != new:
            words = f"preset {name} {_preset(old)} → {_preset(new)}"
            plain = (None if each is None else structs.asdict(each) for each in (old, new))
            yield subject.change(words, f"presets.{name}", *plain)


def _preset(part: PresetPart | None) -> str:
    if part is None:
        return "none"
    return preset_words(part.options) + (f" ({part.about})" if part.about else "")


def _of_person(
    name: str, before: Mapping[str, PersonPart], after: Mapping[str, PersonPart]
) -> Iterator[PoolFileChange]:
    nothing = PersonPart(build_quota=None, idle=None)
    subject, old, new = _Subject("person", name), before.get(name, nothing), after.get(name, nothing)
    was, becomes = old.build_quota, new.build_quota
    if (was is None) is (becomes is None):
        yield from _amount_changes(subject, "own build quota", "build_quota", was or 0, becomes or 0)
    else:
        yield subject.change(f"own build quota {_table(was)} → {_table(becomes)}", "build_quota", was, becomes)
    yield from _rule_change(subject, old, new)


def _table(quota: Amount | UnsetType) -> str:
    if isinstance(quota, Mapping):
        return listed([f"{number} {gpu_type}" for gpu_type, number in quota.items()])
    return "none" if quota is None or quota is UNSET else amount(quota)


def _rule_change(
    subject: _Subject, before: PoolFile | ProjectPart | PersonPart, after: PoolFile | ProjectPart | PersonPart
) -> Iterator[PoolFileChange]:
    was, becomes = (None if of.idle is UNSET else of.idle for of in (before, after))
    if was != becomes:
        yield subject.change(f"rule for idle workspaces {_rule(was)} → {_rule(becomes)}", "idle", was, becomes)


def _rule(rule: IdleRule | None) -> str:
    if rule is None:
        return "none of its own"
    if rule.tell_after is None:
        return "never"
    told = f"notify after {duration(rule.tell_after)}"
    return told if rule.notice is None else f"{told}, stop {duration(rule.notice)} later"

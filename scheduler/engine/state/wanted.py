"""The changes that people ask for, in words, and the project that each concerns; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import UNSET

from springtide.scheduler import wire
from springtide.scheduler.gpu_types import amount_words
from springtide.scheduler.model import PRIORITIES, Amount
from springtide.scheduler.store.records import JobRecord
from springtide.scheduler.store.tables import PersonRecord, ProjectRecord
from springtide.scheduler.wording import capital, count, exactly, listed, quoted, utc

NUMBERS: Final = {"quota": "quota", "limit": "limit", "build_quota": "build quota"}
"""The fields of a project that can be requested, and their names in words."""
OPTIONS: Final = {"priority": "priority", "time_limit": "time limit"}
"""The job options that can be requested, and their names in words."""


def numbers_of(edit: wire.ProjectEdit) -> list[str]:
    """Return the names of the numbers that an edit of a project changes."""
    return [field for field in NUMBERS if getattr(edit, field) is not UNSET]


def has_values(wanted: wire.WantedChange) -> bool:
    """Return whether a change has values, so that others can be granted."""
    return not isinstance(wanted, wire.MembershipWanted)


def what(wanted: wire.WantedChange, user: str) -> str:
    """Return the change that ``user`` wants: ``a quota of 4 GPUs for “vision”``."""
    match wanted:
        case wire.ProjectWanted(project=project, edit=edit):
            parts = [_amount(field, getattr(edit, field)) for field in numbers_of(edit)]
            return f"{listed(parts)} for {quoted(project)}{_until(edit.until)}"
        case wire.BuildWanted(edit=edit) if edit.build_quota is None:
            return f"the build quota of the projects for {quoted(user)}{_until(edit.until)}"
        case wire.BuildWanted(edit=edit):
            return f"{_amount('build_quota', edit.build_quota)} for {quoted(user)}{_until(edit.until)}"
        case wire.MembershipWanted(project=project):
            return f"membership in {quoted(project)} for {quoted(user)}"
        case wire.JobWanted(job=job, edit=edit):
            parts = [
                "no time limit" if value is None else f"a {OPTIONS[name]} of {_option(name, value)}"
                for name, value in _options(edit)
            ]
            return f"{listed(parts)} for the job {quoted(job)}"


def present(
    wanted: wire.WantedChange,
    user: str,
    projects: Mapping[str, ProjectRecord],
    people: Mapping[str, PersonRecord],
    job: JobRecord | None,
) -> str:
    """Return the present values of the wanted fields, in a sentence; empty if there are none."""
    match wanted:
        case wire.ProjectWanted(project=name, edit=edit) if name in projects:
            project = projects[name].project
            now = [
                f"the {NUMBERS[field]} is {_plain(field, getattr(project, field))}" for field in numbers_of(edit)
            ]
            return f"{capital(listed(now))} now."
        case wire.BuildWanted() if user in people:
            return f"The build quota is {amount_words(people[user].build_quota)} now."
        case wire.BuildWanted():
            return "The build quota is that of the projects now."
        case wire.JobWanted(edit=edit) if job is not None:
            options = [(name, getattr(job.spec.options, name)) for name, _ in _options(edit)]
            now = [f"the {OPTIONS[name]} is {_option(name, value)}" for name, value in options]
            return f"{capital(listed(now))} now."
        case _:
            return ""


def project_of(wanted: wire.WantedChange, job: JobRecord | None) -> str:
    """Return the project that a change concerns; empty if it concerns none, or a job that is gone."""
    match wanted:
        case wire.ProjectWanted(project=project) | wire.MembershipWanted(project=project):
            return project
        case wire.JobWanted() if job is not None:
            return job.spec.project
        case _:
            return ""


def same_object(one: wire.WantedChange, other: wire.WantedChange) -> bool:
    """Return whether two changes are of one kind, and of one project or job."""
    objects = [(each.__class__, getattr(each, "project", ""), getattr(each, "job", "")) for each in (one, other)]
    return objects[0] == objects[1]


def end_of(wanted: wire.WantedChange) -> float | None:
    """Return the time at which a wanted change would end by itself, None if it would stay."""
    return wanted.edit.until if isinstance(wanted, wire.ProjectWanted | wire.BuildWanted) else None


def _options(edit: wire.JobEdit) -> Iterator[tuple[str, Any]]:
    return ((name, value) for name, value in edit.options.items() if name in OPTIONS)


def _amount(field: str, amount: Amount) -> str:
    if amount is None:
        return "no limit" if field == "limit" else f"an unlimited {NUMBERS[field]}"
    gpus = count(amount, "GPU") if isinstance(amount, int) else amount_words(amount)
    return f"a {NUMBERS[field]} of {gpus}"


def _plain(field: str, amount: Amount) -> str:
    return "unlimited" if amount is None and field != "limit" else amount_words(amount)


def _option(name: str, value: Any) -> str:
    if name == "priority":
        return str(PRIORITIES.get(value, value))
    return "none" if value is None else exactly(value) if isinstance(value, int | float) else str(value)


def _until(until: float | None) -> str:
    return "" if until is None else f" until {utc(until)}"

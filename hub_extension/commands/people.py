"""``springtide people``: who is in which project, and who leads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import click
from msgspec import structs

from springtide.hub_extension.commands.text import json_option, print_json, print_table
from springtide.scheduler.client import Client
from springtide.scheduler.wire import Admin, PersonView
from springtide.scheduler.wording import given

HEADER = ("PERSON", "PROJECTS", "LEADS", "BUILD QUOTA", "OWN", "HELD")
EVERY = "every project"


@click.command()
@click.argument("projects", metavar="[PROJECT...]", nargs=-1)
@json_option
def people(*, projects: tuple[str, ...], as_json: bool) -> None:
    """Show who is in your projects and who leads them, or of some projects only."""
    with Client() as client:
        found = _of_projects(client.admin(), projects)
    if as_json:
        print_json(found)
        return
    print_table(HEADER, _rows(found), empty="No project has members yet.")


def _of_projects(admin: Admin, names: Sequence[str]) -> Admin:
    """Return what there is of the named projects, of all if none is named. Raises `click.UsageError`."""
    known = [view.name for view in admin.projects]
    unknown = [name for name in names if name not in known]
    if unknown:
        there = ", ".join(known) or "none"
        raise click.UsageError(f"You administer no project {given(unknown[0])}. Those that you do: {there}.")
    if not names:
        return admin
    return structs.replace(
        admin,
        projects=[view for view in admin.projects if view.name in names],
        people=[person for person in admin.people if set(names) & set(person.projects)],
        on_hold=[job for job in admin.on_hold if job.project in names],
        leads={name: of for name, of in admin.leads.items() if name in {"", *names}},
    )


def _rows(admin: Admin) -> Iterator[Sequence[object]]:
    led: dict[str, list[str]] = {}
    for project, leads in admin.leads.items():
        for lead in leads:
            led.setdefault(lead.name, []).append(f"{project or EVERY}{' (locked)' if lead.locked else ''}")
    known = {person.name: person for person in admin.people}
    for name in sorted(known.keys() | led.keys()):
        person = known.get(name)
        projects = ", ".join(person.projects if person else ()) or "-"
        numbers = ("-", "-", "-") if person is None else _numbers(person)
        yield name, projects, ", ".join(sorted(led.get(name, ()))) or "-", *numbers


def _numbers(person: PersonView) -> tuple[object, object, object]:
    """Return the build quota, that of her own, and the build GPUs held; by type if there are several."""
    if not person.by_type:
        own = person.own_build_quota
        return person.build_quota, "-" if own is None else own, person.build_held
    of = person.by_type.items()
    return (
        _table({gpu_type: numbers.build_quota for gpu_type, numbers in of}),
        _table({gpu_type: numbers.own_build_quota for gpu_type, numbers in of}),
        _table({gpu_type: numbers.build_held for gpu_type, numbers in of}),
    )


def _table(numbers: Mapping[str, int | None]) -> str:
    return ",".join(f"{gpu_type}={number}" for gpu_type, number in numbers.items() if number is not None) or "-"

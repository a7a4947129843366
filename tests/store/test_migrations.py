"""Stores of earlier versions: nothing that was in them is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import create_engine, inspect, text
from stores.earlier_store import EARLIER, project_row, write_earlier

from springtide.scheduler.model import Environment, Project
from springtide.scheduler.store import Store
from springtide.scheduler.store.keyed import Table
from springtide.scheduler.store.opening import parse_url
from springtide.scheduler.store.queries import reading
from springtide.scheduler.store.records import WriteBatch
from springtide.scheduler.store.tables import PersonRecord, ProjectRecord, Tables, WorkspaceRecord

Opener = Callable[..., Store]


@pytest.mark.parametrize("revision", ["0001", "0002"])
def test_numbers_of_an_earlier_store_stay_as_they_were(empty: str, open_store: Opener, revision: str) -> None:
    write_earlier(empty, revision, EARLIER)
    store = open_store(empty)
    loaded = store.read(reading.load)
    assert [record.project for record in loaded.projects.values()] == [
        Project("vision", quota=4, limit=6, age=0, build_quota=1),
        Project("speech", quota=None, limit=None, age=1),
    ]
    assert [record.version for record in loaded.projects.values()] == [3, 3]
    assert loaded.people == {"susan": PersonRecord("susan", 2), "joe": PersonRecord("joe", 0)}
    assert loaded.workspaces == {("susan", ""): WorkspaceRecord("susan", "", "build", (0, 1), 5.0)}
    assert (loaded.gpu_types, loaded.fresh, store.epoch) == ({}, False, 8)


def test_bookings_that_have_begun_no_longer_change_stored_quotas(empty: str, open_store: Opener) -> None:
    booking = {"by": "ada", "start": 1.0, "end": 9.0, "why": "", "nodes": "[]", "repeats": None, "begun": True}
    lent = {**booking, "number": 1, "project": "vision", "gpus": "2", "lends": '{"speech": 1}'}
    by_type = {**booking, "number": 2, "project": "nlp", "gpus": '{"t4": 2}', "lends": "{}"}
    later = {**booking, "number": 3, "project": "vision", "gpus": "1", "lends": "{}", "begun": False}
    ending = {"kind": "quota", "subject": "vision", "until": 8.0, "by": "ada", "refused": "", "tried": 0.0}
    rows = {
        "projects": [
            project_row("vision", 0, quota=6),
            project_row("speech", 1, quota=0),
            project_row("nlp", 2, quota={"t4": 3, "a100": None}),
        ],
        "bookings": [lent, by_type, later],
        "endings": [{**ending, "before": "5"}],
    }
    write_earlier(empty, "0033", rows)
    loaded = open_store(empty).read(reading.load)
    quotas = {name: record.project.quota for name, record in loaded.projects.items()}
    assert quotas == {"vision": 4, "speech": 1, "nlp": {"t4": 1, "a100": None}}
    assert [each.before for each in loaded.records[Tables.endings].values()] == [3]


def test_tables_by_type_and_the_known_types_are_kept(open_store: Opener) -> None:
    store = open_store()
    project = Project("vision", quota={"t4": 4, "a100": None}, limit={"t4": 6}, build_quota={"l4": 1})
    workspace = WorkspaceRecord("susan", "", "build", (0,), 5.0, "l4")
    types = {Environment.TRAIN: ("t4", "a100"), Environment.BUILD: ("l4",)}
    records: dict[Table[Any, Any], Any] = {
        Tables.projects: {"vision": ProjectRecord(project)},
        Tables.people: {"susan": PersonRecord("susan", {"l4": 2}), "joe": PersonRecord("joe", 1)},
        Tables.workspaces: {("susan", ""): workspace},
    }
    store.commit(WriteBatch(records=records, gpu_types=types))
    store.commit(WriteBatch(gpu_types={Environment.TRAIN: ("a100", "h100", "t4")}))
    store.close()
    loaded = open_store().read(reading.load)
    assert [record.project for record in loaded.projects.values()] == [project]
    assert {name: person.build_quota for name, person in loaded.people.items()} == {"susan": {"l4": 2}, "joe": 1}
    assert list(loaded.workspaces.values()) == [workspace]
    assert loaded.gpu_types == {Environment.TRAIN: ("a100", "h100", "t4"), Environment.BUILD: ("l4",)}


def test_an_empty_database_gets_at_once_what_all_migrations_make_of_one(empty: str, url: str) -> None:
    write_earlier(empty, "head", {})
    assert described(url) == described(empty)


def described(url: str) -> dict[str, Any]:
    """Return the rows of each table, and what its database knows of it.

    Without the order of columns, and without names of primary keys, which renamed tables keep: nothing uses them.
    """
    engine = create_engine(parse_url(url))
    with engine.connect() as connection:
        inspector = inspect(connection)
        found = {
            table: {
                "rows": connection.execute(text(f'SELECT * FROM "{table}"')).all(),
                "columns": {
                    each["name"]: {**each, "type": repr(each["type"])} for each in inspector.get_columns(table)
                },
                "key": inspector.get_pk_constraint(table)["constrained_columns"],
                "indexes": {str(index_of(each)) for each in inspector.get_indexes(table)},
                "unique": {str(each) for each in inspector.get_unique_constraints(table)},
                "foreign keys": {str(each) for each in inspector.get_foreign_keys(table)},
                "checks": {str(each) for each in inspector.get_check_constraints(table)},
            }
            for table in inspector.get_table_names()
        }
    engine.dispose()
    return found


def index_of(found: Any) -> dict[str, Any]:
    """Return an index whose conditions are texts."""
    options = {name: str(value) for name, value in found["dialect_options"].items()}
    return {**found, "dialect_options": options}


def test_an_empty_database_becomes_a_store(empty: str, open_store: Opener) -> None:
    store = open_store(empty)
    assert (store.read(reading.load).fresh, store.epoch) == (True, 1)
    store.close()
    assert open_store(empty).epoch == 2

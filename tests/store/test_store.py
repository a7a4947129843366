"""What the store promises, on SQLite and on PostgreSQL alike."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from jobs.bundles import save
from jobs.store_records import attempt, ended, job
from msgspec import structs
from sqlalchemy import inspect, text

from springtide.scheduler.model import JobState, Reason
from springtide.scheduler.store import (
    Store,
    StoreError,
    StoreLockedError,
    StoreTakenError,
    StoreTooNewError,
)
from springtide.scheduler.store import schema as tables
from springtide.scheduler.store.queries import reading
from springtide.scheduler.store.records import (
    AttemptState,
    AuditQuery,
    AuditRecord,
    EventRecord,
    JobQuery,
    JobRecord,
    JobStanding,
    WriteBatch,
)

Opener = Callable[..., Store]


# ---------- opening


def test_an_empty_store_begins_with_nothing(store: Store) -> None:
    loaded = store.read(reading.load)
    assert (loaded.jobs, loaded.projects, loaded.fresh, loaded.last_job) == ((), {}, True, 0)
    assert store.epoch == 1


def test_every_opening_raises_the_epoch(open_store: Opener) -> None:
    first = open_store()
    first.close()
    assert open_store().epoch == first.epoch + 1


def test_a_second_service_is_refused_in_plain_words(store: Store, open_store: Opener) -> None:
    with pytest.raises(StoreLockedError, match="Another Springtide service is using the store"):
        open_store()
    assert store.read(reading.load).fresh


def test_a_service_that_has_left_makes_room_at_once(store: Store, open_store: Opener) -> None:
    store.close()
    assert open_store().epoch == 2


def test_who_lost_the_store_writes_nothing_any_more(store: Store) -> None:
    with store._writer.begin() as connection:
        connection.execute(tables.meta.update().where(tables.meta.c.key == "epoch").values(value=99))
    with pytest.raises(StoreTakenError, match="taken over"):
        store.commit(WriteBatch(new_jobs=[job()]))
    assert store.read(reading.job, "job1") is None


def test_a_store_of_a_newer_version_is_left_alone(store: Store, open_store: Opener) -> None:
    store.commit(WriteBatch(new_jobs=[job()]))
    with store._writer.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    store.close()
    with pytest.raises(StoreTooNewError, match="newer Springtide"):
        open_store()


def test_jobs_of_an_older_version_get_the_columns_that_lists_are_sorted_by(
    store: Store, open_store: Opener
) -> None:
    store.commit(WriteBatch(new_jobs=[job(1, gpus=2, workers=3), job(2, name="other")]))
    with store._writer.begin() as connection:
        for index in ("ix_jobs_list", "ix_jobs_newest", "ix_jobs_trial", "ix_jobs_tree"):
            connection.execute(text(f"DROP INDEX {index}"))
        columns = (
            "name",
            "gpus",
            "submitted",
            "sweep",
            "trial",
            "value",
            "pruned",
            "tags",
            "tree",
            "pinned",
            "archived",
        )
        for column in columns:
            connection.execute(text(f"ALTER TABLE jobs DROP COLUMN {column}"))
        connection.execute(text("DROP INDEX ix_audit_project"))
        connection.execute(text("ALTER TABLE audit DROP COLUMN project"))
        connection.execute(text("ALTER TABLE audit DROP COLUMN other_project"))
        later = (
            "change_requests",
            "monthly_reports",
            "presets",
            "needs",
            "idle_while_waiting",
            "budgets",
            "freezes",
            "endings",
            "gpu_types",
            "gpu_usage",
            "notification_choices",
            "deliveries",
            "sweep_parameters",
            "forecasts",
            "bookings",
            "drains",
            "gpu_drains",
            "default_projects",
            "idle_rules",
            "idle_workspaces",
            "recent_use",
            "hub_users",
            "hub_groups",
            "trees",
            "deleted_jobs",
            *("holdings", "pool_facts", "ledger", "ledger_facts", "ledger_groups"),
            *("ledger_lots", "ledger_people", "ledger_sums", "ledger_waits"),
        )
        for newer in later:
            connection.execute(text(f"DROP TABLE {newer}"))
        for column in ("gpu_type", "uuids"):
            connection.execute(text(f"ALTER TABLE workspaces DROP COLUMN {column}"))
        connection.execute(text("ALTER TABLE projects DROP COLUMN ranges"))
        for row in connection.execute(text("SELECT id, spec FROM jobs")).all():
            spec = json.loads(row.spec)
            flat = json.dumps({**spec, **spec.pop("options")})
            connection.execute(text("UPDATE jobs SET spec = :flat WHERE id = :id"), {"flat": flat, "id": row.id})
        connection.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    store.close()
    migrated = open_store()
    assert [one.spec.seq for one in migrated.read(reading.jobs, JobQuery(order="-gpus"), None, 10)] == [1, 2]
    assert [
        one.spec.seq for one in migrated.read(reading.jobs, JobQuery(search="other", since=102.0), None, 10)
    ] == [2]


def test_the_migrations_make_the_tables_that_the_code_expects(store: Store) -> None:
    found = inspect(store._writer)
    for name, table in tables.metadata.tables.items():
        columns = {column["name"]: column for column in found.get_columns(name)}
        assert set(columns) == {column.name for column in table.columns}
        for column in table.columns:
            assert columns[column.name]["nullable"] == bool(column.nullable), f"{name}.{column.name}"
        keys = found.get_pk_constraint(name)["constrained_columns"]
        assert keys == [column.name for column in table.primary_key.columns]
        indexes = {index["name"] for index in found.get_indexes(name)}
        assert {index.name for index in table.indexes} <= indexes
    assert set(found.get_table_names()) == {*tables.metadata.tables, "alembic_version"}


@pytest.mark.parametrize("bad", ["nonsense", "mysql://somewhere/db", "sqlite://"])
def test_urls_that_are_no_stores_are_refused(bad: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        Store.open(bad, tmp_path)


# ---------- jobs


def test_a_job_comes_back_as_it_was(store: Store) -> None:
    made = job()
    store.commit(WriteBatch(new_jobs=[made]))
    assert store.read(reading.job, "job1") == made
    assert store.read(reading.load).jobs == (made,)
    assert store.read(reading.load).last_job == 1


def test_attempts_come_back_with_their_job(store: Store) -> None:
    made = job().with_attempt(attempt(job()))
    store.commit(WriteBatch(new_jobs=[made], new_attempts=[made.attempts[0]]))
    over = structs.replace(
        made.attempts[0],
        state=AttemptState.PAUSED,
        ended=300.0,
        exit_code=75,
        ended_why=Reason("reclaimed", {"projects": ("joe", "jemma")}),
    )
    second = attempt(made, 2)
    changed = JobRecord(made.spec, JobStanding(state=JobState.STARTING, attempt=2), (over, second))
    store.commit(WriteBatch(jobs=[changed], attempts=[over], new_attempts=[second]))
    assert store.read(reading.load).jobs == (changed,)


def test_ended_jobs_are_not_loaded_but_found(store: Store) -> None:
    store.commit(WriteBatch(new_jobs=[job(1), job(2)]))
    store.commit(WriteBatch(jobs=[ended(job(1))]))
    assert [one.id for one in store.read(reading.load).jobs] == ["job2"]
    assert store.read(reading.job, "job1").state is JobState.SUCCEEDED


def test_a_key_finds_its_job_and_only_for_its_user(store: Store) -> None:
    store.commit(WriteBatch(new_jobs=[job(1, key="k"), job(2, key="k", user="joe"), job(3)]))
    found = store.read(reading.jobs_by_key, [("susan", "k"), ("joe", "k"), ("jemma", "k"), ("joe", "other")])
    assert {asked: job.id for asked, job in found.items()} == {("susan", "k"): "job1", ("joe", "k"): "job2"}


def test_a_batch_is_written_as_a_whole_or_not_at_all(store: Store) -> None:
    store.commit(WriteBatch(new_jobs=[job(1)]))
    with pytest.raises(StoreError):
        store.commit(WriteBatch(new_jobs=[job(2), job(1)], events=[EventRecord(1, 1.0, "job", b"{}")]))
    assert store.read(reading.job, "job2") is None
    assert store.read(reading.events, 0, 10) == []
    store.commit(WriteBatch(new_jobs=[job(2)]))
    assert store.read(reading.job, "job2") is not None


@pytest.mark.parametrize("size", [0, 10, 64 * 1024, 200_000])
def test_files_come_back_as_they_were(store: Store, size: int) -> None:
    files = {"a/b.py": bytes(size), "c": b"x"}
    bundle = save(store, files)
    store.commit(WriteBatch(new_jobs=[job(bundle=bundle.digest)], bundles=[bundle]))
    assert store.files(bundle.digest) == files


def test_equal_files_are_kept_once(store: Store, tmp_path: Path) -> None:
    files = {"a": bytes(200_000)}
    one, two = save(store, files), save(store, dict(files))
    store.commit(WriteBatch(new_jobs=[job(1, bundle=one.digest)], bundles=[one]))
    store.commit(WriteBatch(new_jobs=[job(2, bundle=two.digest), job(3, bundle=two.digest)], bundles=[two, two]))
    assert [path.name for path in (tmp_path / "state" / "bundles").iterdir()] == [one.digest]


def test_files_that_were_tampered_with_are_not_given_out(store: Store, tmp_path: Path) -> None:
    bundle = save(store, {"a": bytes(200_000)})
    store.commit(WriteBatch(new_jobs=[job(bundle=bundle.digest)], bundles=[bundle]))
    (tmp_path / "state" / "bundles" / bundle.digest).write_bytes(b"something else")
    with pytest.raises(StoreError, match="changed after submission"):
        store.files(bundle.digest)


def test_files_of_nobody_are_an_error(store: Store) -> None:
    with pytest.raises(StoreError, match="not in the store"):
        store.files("0" * 64)


# ---------- journals


def test_events_are_read_on_from_any_of_them(store: Store) -> None:
    store.commit(WriteBatch(events=[EventRecord(n, 1.5, "job", b'{"n":%d}' % n) for n in range(1, 6)]))
    assert [event.id for event in store.read(reading.events, 2, 2)] == [3, 4]
    assert store.read(reading.events, 4, 10) == [EventRecord(5, 1.5, "job", b'{"n":5}')]
    assert store.read(reading.load).last_event == 5


def test_the_audit_trail_is_kept_newest_first(store: Store) -> None:
    entries = [
        AuditRecord(n, 10.0 * n, "admin", "project.change", "vision", {"quota": n}, {"quota": None})
        for n in (1, 2, 3)
    ]
    store.commit(WriteBatch(audit=entries))
    store.commit(WriteBatch(undone=[2]))
    assert [entry.id for entry in store.read(reading.audit, AuditQuery(), None, 2)] == [3, 2]
    assert store.read(reading.audit, AuditQuery(), 2, 10) == [entries[0]]
    assert store.read(reading.audit_entry, 2) == replace(entries[1], undone=True)
    assert store.read(reading.audit_entry, 99) is None


# ---------- pruning


def test_a_database_goes_on_after_it_was_closed(open_store: Opener) -> None:
    first = open_store()
    first.commit(WriteBatch(new_jobs=[job()], next_age=0))
    first.close()
    second = open_store()
    assert second.read(reading.load).jobs == (job(),)
    second.commit(WriteBatch(jobs=[ended(job())]))
    assert second.read(reading.job, "job1").state is JobState.SUCCEEDED

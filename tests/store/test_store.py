"""What the store promises, on SQLite and on PostgreSQL alike."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pytest
from bundles import save
from sqlalchemy import inspect, text

from springtide.scheduler.model import JobState, Project, Reason, Worker
from springtide.scheduler.store import (
    ORDERS,
    FilesGoneError,
    Store,
    StoreError,
    StoreLockedError,
    StoreTakenError,
    StoreTooNewError,
    position,
)
from springtide.scheduler.store import schema as tables
from springtide.scheduler.store.records import (
    AttemptRecord,
    AttemptState,
    AuditRecord,
    DecisionRecord,
    EventRecord,
    JobQuery,
    JobRanges,
    JobRecord,
    JobSpec,
    JobStanding,
    PersonRecord,
    ProjectRecord,
    WorkspaceRecord,
    WriteBatch,
)
from springtide.scheduler.wire import MAX_TAGS_BYTES

Opener = Callable[..., Store]


def job(number: int = 1, **spec: Any) -> JobRecord:
    fields: dict[str, Any] = {
        "id": f"job{number}",
        "seq": number,
        "user": "susan",
        "project": "vision",
        "submitted": 100.0 + number,
        "name": "täst 🌊",
        "kind": "command",
        "argv": ("python", "-c", "print('\N{SNOWMAN}')"),
        "env": {"A": "1\n2"},
        "gpu_types": ("v100",),
        "time_limit": 3600.5,
    }
    return JobRecord(JobSpec(**{**fields, **spec}))


def attempt(of: JobRecord, number: int = 1, **more: Any) -> AttemptRecord:
    fields: dict[str, Any] = {
        "placement": (Worker(0, "train", (0, 1)),),
        "created": 200.0,
        "why": Reason("started", {"gpus": 2}),
    }
    return AttemptRecord(job=of.id, number=number, **{**fields, **more})


def ended(record: JobRecord, at: float = 300.0) -> JobRecord:
    return record.with_standing(state=JobState.SUCCEEDED, ended=at)


# ---------- opening


def test_an_empty_store_begins_with_nothing(store: Store) -> None:
    loaded = store.load()
    assert (loaded.jobs, loaded.projects, loaded.fresh, loaded.last_job) == ((), (), True, 0)
    assert store.epoch == 1


def test_every_opening_raises_the_epoch(open_store: Opener) -> None:
    first = open_store()
    first.close()
    assert open_store().epoch == first.epoch + 1


def test_a_second_service_is_refused_in_plain_words(store: Store, open_store: Opener) -> None:
    with pytest.raises(StoreLockedError, match="Another Springtide service is using the store"):
        open_store()
    assert store.load().fresh


def test_a_service_that_has_left_makes_room_at_once(store: Store, open_store: Opener) -> None:
    store.close()
    assert open_store().epoch == 2


def test_who_lost_the_store_writes_nothing_any_more(store: Store) -> None:
    with store._writer.begin() as connection:
        connection.execute(tables.meta.update().where(tables.meta.c.key == "epoch").values(value=99))
    with pytest.raises(StoreTakenError, match="taken over"):
        store.commit(WriteBatch(new_jobs=[job()]))
    assert store.job("job1") is None


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
        for index in ("ix_jobs_list", "ix_jobs_newest", "ix_jobs_trial"):
            connection.execute(text(f"DROP INDEX {index}"))
        for column in ("name", "gpus", "submitted", "sweep", "trial", "value", "pruned", "tags"):
            connection.execute(text(f"ALTER TABLE jobs DROP COLUMN {column}"))
        later = (
            "gpu_types",
            "gpu_usage",
            "notification_choices",
            "deliveries",
            "sweep_parameters",
            "forecasts",
            "drains",
            "gpu_drains",
            "default_projects",
            "idle_rules",
            "idle_workspaces",
        )
        for newer in later:
            connection.execute(text(f"DROP TABLE {newer}"))
        connection.execute(text("ALTER TABLE workspaces DROP COLUMN gpu_type"))
        connection.execute(text("ALTER TABLE projects DROP COLUMN ranges"))
        connection.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    store.close()
    migrated = open_store()
    assert [one.spec.seq for one in migrated.jobs(JobQuery(order="-gpus"), None, 10)] == [1, 2]
    assert [one.spec.seq for one in migrated.jobs(JobQuery(search="other", since=102.0), None, 10)] == [2]


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
    assert store.job("job1") == made
    assert store.load().jobs == (made,)
    assert store.load().last_job == 1


def test_attempts_come_back_with_their_job(store: Store) -> None:
    made = job().with_attempt(attempt(job()))
    store.commit(WriteBatch(new_jobs=[made], new_attempts=[made.attempts[0]]))
    over = replace(
        made.attempts[0],
        state=AttemptState.PAUSED,
        ended=300.0,
        exit_code=75,
        ended_why=Reason("reclaimed", {"projects": ("joe", "jemma")}),
    )
    second = attempt(made, 2)
    changed = JobRecord(made.spec, JobStanding(state=JobState.STARTING, attempt=2), (over, second))
    store.commit(WriteBatch(jobs=[changed], attempts=[over], new_attempts=[second]))
    assert store.load().jobs == (changed,)


def test_ended_jobs_are_not_loaded_but_found(store: Store) -> None:
    store.commit(WriteBatch(new_jobs=[job(1), job(2)]))
    store.commit(WriteBatch(jobs=[ended(job(1))]))
    assert [one.id for one in store.load().jobs] == ["job2"]
    assert store.job("job1").state is JobState.SUCCEEDED


def test_a_key_finds_its_job_and_only_for_its_user(store: Store) -> None:
    store.commit(WriteBatch(new_jobs=[job(1, key="k"), job(2, key="k", user="joe"), job(3)]))
    found = store.jobs_by_key([("susan", "k"), ("joe", "k"), ("jemma", "k"), ("joe", "other")])
    assert {asked: job.id for asked, job in found.items()} == {("susan", "k"): "job1", ("joe", "k"): "job2"}


def test_a_batch_is_written_as_a_whole_or_not_at_all(store: Store) -> None:
    store.commit(WriteBatch(new_jobs=[job(1)]))
    with pytest.raises(StoreError):
        store.commit(WriteBatch(new_jobs=[job(2), job(1)], events=[EventRecord(1, 1.0, "job", b"{}")]))
    assert store.job("job2") is None
    assert store.events(0, 10) == []
    store.commit(WriteBatch(new_jobs=[job(2)]))
    assert store.job("job2") is not None


def test_jobs_are_listed_newest_first_as_asked(store: Store) -> None:
    store.commit(
        WriteBatch(
            new_jobs=[
                job(1),
                job(2, user="joe", project="speech"),
                job(3, project="speech"),
                ended(job(4)),
                job(5, user="jemma"),
            ]
        )
    )

    def listed(before: int | None = None, limit: int = 10, **query: Any) -> list[int]:
        after = None if before is None else (-before, -before)
        return [one.spec.seq for one in store.jobs(JobQuery(**query), after, limit)]

    assert listed() == [5, 4, 3, 2, 1]
    assert listed(limit=2) == [5, 4]
    assert listed(before=4) == [3, 2, 1]
    assert listed(user="susan") == [4, 3, 1]
    assert listed(project="speech") == [3, 2]
    assert listed(states=frozenset({"succeeded"})) == [4]
    assert listed(viewer="joe") == [2]
    assert listed(viewer="joe", viewer_projects=("vision",)) == [5, 4, 2, 1]
    assert listed(viewer="joe", viewer_projects=("vision",), user="jemma") == [5]


ORDERED = {
    "running": [2, 1, 3, 5, 4],
    "-running": [4, 5, 3, 1, 2],
    "newest": [5, 4, 3, 2, 1],
    "-newest": [1, 2, 3, 4, 5],
    "name": [1, 3, 5, 4, 2],
    "gpus": [1, 2, 4, 5, 3],
    "-gpus": [3, 5, 4, 2, 1],
    "user": [5, 2, 1, 3, 4],
    "project": [2, 3, 1, 4, 5],
}


@pytest.fixture
def five(store: Store) -> Store:
    """A store with five jobs: the second runs, the last two have ended."""
    running = job(2, user="joe", project="speech", name="zebra", tags=("baseline", "lr-0.1")).with_standing(
        state=JobState.RUNNING
    )
    jobs = [
        job(1, name="alpha 100%", tags=("Größe",)),
        running.with_standing(state=JobState.RUNNING),
        job(3, project="speech", name="bert", gpus=8, workers=2, submitted=500.0, tags=("baseline-2",)),
        ended(job(4, name="digits_1")),
        ended(job(5, user="jemma", name="cat", gpus=4)),
    ]
    store.commit(WriteBatch(new_jobs=jobs))
    return store


@pytest.mark.parametrize("order", ORDERED)
def test_jobs_come_page_after_page_in_every_order(five: Store, order: str) -> None:
    query = JobQuery(order=order)
    seen: list[int] = []
    after = None
    while page := five.jobs(query, after, 2):
        seen += [one.spec.seq for one in page]
        after = position(order, page[-1])
    assert seen == ORDERED[order]
    assert {name.removeprefix("-") for name in ORDERED} == set(ORDERS)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"search": "DIGITS"}, [4]),
        ({"search": "100%"}, [1]),
        ({"search": "s_1"}, [4]),
        ({"search": "speech z"}, [2]),
        ({"search": "job3"}, [3]),
        ({"search": "JEMMA bert"}, []),
        ({"search": "jemma CAT"}, [5]),
        ({"search": "größe"}, [1]),
        ({"search": "GRößE"}, [1]),
        ({"search": "nothing"}, []),
        ({"since": 500.0}, [3]),
        ({"search": "BASELINE", "order": "name"}, [3, 2]),
        ({"tag": "baseline"}, [2]),
        ({"tag": "lr-0.1", "order": "running"}, [2]),
        ({"tag": "Baseline"}, []),
        ({"tag": "%"}, []),
    ],
)
def test_jobs_are_searched(five: Store, query: dict[str, Any], found: list[int]) -> None:
    assert [one.spec.seq for one in five.jobs(JobQuery(**query), None, 10)] == found


def test_the_longest_texts_of_a_job_fit_into_the_index_of_lists(store: Store) -> None:
    hard_to_compress = random.Random(1)

    def text_of(length: int) -> str:
        return "".join(chr(hard_to_compress.randrange(0x1F300, 0x1F5FF)) for _ in range(length))

    tags = tuple(text_of(MAX_TAGS_BYTES // 80) for _ in range(20))
    store.commit(
        WriteBatch(new_jobs=[job(1, user=text_of(255), project=text_of(64), name=text_of(128), tags=tags)])
    )
    assert [one.spec.tags for one in store.jobs(JobQuery(tag=tags[-1]), None, 10)] == [tags]


# ---------- files


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


# ---------- projects, people, workspaces


def test_projects_people_and_workspaces_come_back_and_can_go(store: Store) -> None:
    parent = ProjectRecord(Project("research", quota=None, limit=8, age=0, build_quota=1), colour=0)
    child = ProjectRecord(
        Project("vision", "research", 2, 4, 1.5, 50, 1, 2),
        version=3,
        colour=1,
        ranges=JobRanges(10, 60, 4, 3600.0, ("lab/*",)),
    )
    desk = WorkspaceRecord("susan", "", "build", (0, 2), 100.0)
    store.commit(
        WriteBatch(projects=[child, parent], people=[PersonRecord("susan", 2)], workspaces=[desk], next_age=2)
    )
    loaded = store.load()
    assert loaded.projects == (parent, child)
    assert loaded.people == (PersonRecord("susan", 2),)
    assert loaded.workspaces == (desk,)
    assert (loaded.fresh, loaded.next_age) == (False, 2)
    other = replace(child, project=replace(child.project, quota=0), version=4)
    store.commit(
        WriteBatch(projects=[other], people=[PersonRecord("susan", 0)], workspaces=[replace(desk, gpus=())])
    )
    loaded = store.load()
    assert loaded.projects[1] == other
    assert loaded.people[0].build_quota == 0
    assert loaded.workspaces[0].gpus == ()
    store.commit(
        WriteBatch(dropped_projects=["vision"], dropped_people=["susan"], dropped_workspaces=[("susan", "")])
    )
    loaded = store.load()
    assert (loaded.projects, loaded.people, loaded.workspaces) == ((parent,), (), ())


# ---------- journals


def test_events_are_read_on_from_any_of_them(store: Store) -> None:
    store.commit(WriteBatch(events=[EventRecord(n, 1.5, "job", b'{"n":%d}' % n) for n in range(1, 6)]))
    assert [event.id for event in store.events(2, 2)] == [3, 4]
    assert store.events(4, 10) == [EventRecord(5, 1.5, "job", b'{"n":5}')]
    assert store.load().last_event == 5


def test_the_audit_trail_is_kept_newest_first(store: Store) -> None:
    entries = [
        AuditRecord(n, 10.0 * n, "admin", "project.change", "vision", {"quota": n}, {"quota": None})
        for n in (1, 2, 3)
    ]
    store.commit(WriteBatch(audit=entries))
    store.commit(WriteBatch(undone=[2]))
    assert [entry.id for entry in store.audit(None, 2)] == [3, 2]
    assert store.audit(2, 10) == [entries[0]]
    assert store.audit_entry(2) == replace(entries[1], undone=True)
    assert store.audit_entry(99) is None


def test_attempts_tell_who_held_gpus_when(store: Store) -> None:
    one = job(1).with_attempt(attempt(job(1), created=100.0, ended=200.0))
    two = job(2, project="speech").with_attempt(attempt(job(2), created=150.0))
    store.commit(WriteBatch(new_jobs=[one, two], new_attempts=[one.attempts[0], two.attempts[0]]))
    assert {(held.project, held.gpus, held.start, held.end) for held in store.gpu_use(120.0, 160.0)} == {
        ("vision", 2, 100.0, 200.0),
        ("speech", 2, 150.0, None),
    }
    assert [held.project for held in store.gpu_use(200.0, 300.0)] == ["speech"]
    assert store.gpu_use(0.0, 100.0) == []


# ---------- pruning


def decision(number: int, base: int) -> DecisionRecord:
    return DecisionRecord(number, 1.0, 1, base, b"{}" if number == base else None, b"[]", b"{}", "d")


def test_old_journals_go_but_bases_stay_as_long_as_they_are_needed(store: Store) -> None:
    store.commit(
        WriteBatch(
            events=[EventRecord(n, 1.0, "job", b"{}") for n in range(1, 11)],
            decisions=[decision(n, 1 if n < 5 else 5) for n in range(1, 9)],
            audit=[AuditRecord(n, float(n), "a", "b", "c", {}, {}) for n in range(1, 5)],
        )
    )
    store.prune(events=4, decisions=2, audit_before=3.0)
    assert [event.id for event in store.events(0, 100)] == [7, 8, 9, 10]
    assert [one.id for one in store.decisions(1, 100)] == [5, 6, 7, 8]
    assert [one.id for one in store.audit(None, 100)] == [4, 3]
    store.prune(events=4, decisions=5, audit_before=100.0)
    assert [one.id for one in store.audit(None, 100)] == [4]
    assert store.load().last_audit == 4


def test_old_jobs_go_with_their_attempts_and_files(store: Store) -> None:
    shared, own = save(store, {"a": b"1"}), save(store, {"a": b"2"})
    old = ended(job(1, bundle=shared.digest).with_attempt(attempt(job(1), ended=300.0)), at=300.0)
    older = ended(job(2, bundle=own.digest), at=200.0)
    store.commit(
        WriteBatch(
            new_jobs=[old, older, job(3, bundle=shared.digest)],
            new_attempts=[old.attempts[0]],
            bundles=[shared, own],
        )
    )
    assert store.ended_before(400.0, 10) == ["job2", "job1"]
    assert store.ended_before(300.0, 10) == ["job2"]
    store.drop_jobs(["job1", "job2", "job3"])
    assert [store.job(f"job{n}") is None for n in (1, 2, 3)] == [True, True, False]
    assert store.gpu_use(0.0, 1000.0) == []


def test_files_of_ended_jobs_stay_for_a_time_the_newest_of_each_user_first(store: Store) -> None:
    bundles = [save(store, {"a": bytes([seed]) * 1000}) for seed in range(5)]
    size = len(bundles[0].content)
    jobs = [ended(job(n, bundle=bundles[n].digest), at=100.0 * n) for n in range(1, 4)]
    jobs += [ended(job(4, bundle=bundles[4].digest, user="joe"), at=250.0), job(5, bundle=bundles[0].digest)]
    store.commit(WriteBatch(new_jobs=jobs, bundles=bundles))

    def kept() -> list[int]:
        found = []
        for number, bundle in enumerate(bundles):
            with suppress(FilesGoneError):
                store.files(bundle.digest)
                found.append(number)
        return found

    store.drop_bundles(150.0, 10 * size)
    assert kept() == [0, 2, 3, 4], "job 1 ended too long ago"
    store.drop_bundles(150.0, size)
    assert kept() == [0, 3, 4], "the newest of each user, besides those of an unfinished job"
    store.drop_bundles(275.0, size)
    assert kept() == [0, 3]


def test_files_go_as_soon_as_no_unfinished_job_needs_them(store: Store, tmp_path: Path) -> None:
    shared, own, large = (save(store, files) for files in ({"a": b"1"}, {"a": b"2"}, {"a": bytes(200_000)}))
    jobs = [
        ended(job(1, bundle=shared.digest), at=300.0),
        ended(job(2, bundle=own.digest), at=300.0),
        ended(job(3, bundle=large.digest), at=300.0),
        job(4, bundle=shared.digest),
    ]
    store.commit(WriteBatch(new_jobs=jobs, bundles=[shared, own, large]))
    file = tmp_path / "state" / "bundles" / large.digest
    os.utime(file, (0, 0))
    store.drop_bundles(inf, 0)
    assert store.files(shared.digest) == {"a": b"1"}
    for gone in (own, large):
        with pytest.raises(StoreError, match="not in the store"):
            store.files(gone.digest)
    assert not file.exists()
    assert store.job("job2") is not None


def test_a_database_goes_on_after_it_was_closed(open_store: Opener) -> None:
    first = open_store()
    first.commit(WriteBatch(new_jobs=[job()], next_age=0))
    first.close()
    second = open_store()
    assert second.load().jobs == (job(),)
    second.commit(WriteBatch(jobs=[ended(job())]))
    assert second.job("job1").state is JobState.SUCCEEDED

"""What the store forgets and when, on SQLite and on PostgreSQL alike."""

from __future__ import annotations

import os
from contextlib import suppress
from math import inf
from pathlib import Path

import pytest
from jobs.bundles import save
from jobs.store_records import attempt, ended, job
from sqlalchemy import select

from springtide.scheduler.store import (
    FilesGoneError,
    Store,
    StoreError,
    pruning,
    schema,
)
from springtide.scheduler.store.queries import reading
from springtide.scheduler.store.records import (
    AuditQuery,
    AuditRecord,
    DecisionRecord,
    EventRecord,
    WriteBatch,
)


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
    store.write(pruning.prune_journals, events=4, decisions=2, audit_before=3.0)
    assert [event.id for event in store.read(reading.events, 0, 100)] == [7, 8, 9, 10]
    assert [one.id for one in store.read(reading.decisions, 1, 100)] == [5, 6, 7, 8]
    assert [one.id for one in store.read(reading.audit, AuditQuery(), None, 100)] == [4, 3]
    store.write(pruning.prune_journals, events=4, decisions=5, audit_before=100.0)
    assert [one.id for one in store.read(reading.audit, AuditQuery(), None, 100)] == [4]
    assert store.read(reading.load).last_audit == 4


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
    assert store.read(reading.ended_before, 400.0, 10) == ["job2", "job1"]
    assert store.read(reading.ended_before, 300.0, 10) == ["job2"]
    store.write(pruning.drop_jobs, ["job1", "job2", "job3"])
    assert [store.read(reading.job, f"job{n}") is None for n in (1, 2, 3)] == [True, True, False]
    assert store.read(lambda connection: connection.execute(select(schema.attempts)).all()) == []


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

    store.drop_bundles(150.0, 10 * size, inf)
    assert kept() == [0, 2, 3, 4], "job 1 ended too long ago"
    store.drop_bundles(150.0, size, inf)
    assert kept() == [0, 3, 4], "the newest of each user, besides those of an unfinished job"
    store.drop_bundles(275.0, size, inf)
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
    store.drop_bundles(inf, 0, inf)
    assert store.files(shared.digest) == {"a": b"1"}
    for gone in (own, large):
        with pytest.raises(StoreError, match="not in the store"):
            store.files(gone.digest)
    assert not file.exists()
    assert store.read(reading.job, "job2") is not None

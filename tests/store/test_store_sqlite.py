"""What is SQLite's alone: durability, a full disk, the lock file."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jobs.bundles import save
from sqlalchemy import event

from springtide.scheduler.store import ORDERS, Store, StoreDamagedError, StoreFullError
from springtide.scheduler.store.queries import reading
from springtide.scheduler.store.records import EventRecord, JobQuery, WriteBatch

HOLDER = """
import sys
from pathlib import Path
from springtide.scheduler.store import Store
store = Store.open(sys.argv[1], Path(sys.argv[2]))
print(store.epoch, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/springtide.sqlite"


@pytest.fixture
def lite(sqlite_url: str, tmp_path: Path) -> Iterator[Store]:
    store = Store.open(sqlite_url, tmp_path)
    yield store
    store.close()


def test_what_is_committed_is_synced(lite: Store) -> None:
    with lite._writer.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2


def way_of(store: Store, query: JobQuery) -> str:
    """Return how SQLite finds the jobs of a list, in its own words."""
    asked: list[tuple[str, tuple[object, ...]]] = []

    def remember(_connection: object, _cursor: object, sql: str, values: tuple[object, ...], *_: object) -> None:
        asked.append((sql, values))

    event.listen(store._reader, "before_cursor_execute", remember)
    store.read(reading.jobs, query, None, 50)
    event.remove(store._reader, "before_cursor_execute", remember)
    sql, values = next(each for each in asked if each[0].startswith("SELECT"))
    with store._reader.connect() as connection:
        steps = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", values).all()
    return "; ".join(step.detail for step in steps)


@pytest.mark.parametrize("order", [order for order in ORDERS if order in {"running", "name", "gpus"}])
def test_jobs_are_sorted_and_searched_within_an_index_that_has_no_trials(lite: Store, order: str) -> None:
    for query in (
        JobQuery(order=order),
        JobQuery(order=order, search="lr 0.1"),
        JobQuery(order=order, user="joe"),
    ):
        assert "USING COVERING INDEX ix_jobs_list" in way_of(lite, query)


@pytest.mark.parametrize(
    "chosen", [{"search": "lr"}, {"tag": "lr"}, {"since": 5.0}, {"states": {"failed"}}, {"viewer": "joe"}], ids=str
)
def test_the_newest_jobs_of_which_few_may_match_are_found_within_the_index_too(
    lite: Store, chosen: dict[str, Any]
) -> None:
    assert "USING COVERING INDEX ix_jobs_list" in way_of(lite, JobQuery(**chosen))


@pytest.mark.parametrize("order", ["newest", "-newest", "running"])
def test_unfinished_jobs_are_found_without_a_look_at_ended_ones(lite: Store, order: str) -> None:
    for states in ({"running"}, {"queued", "paused"}, {"queued", "starting", "running", "pausing", "paused"}):
        query = JobQuery(order=order, states=frozenset(states))
        assert way_of(lite, query).startswith("SEARCH jobs USING INDEX ix_jobs_ended (ended=?)")


def test_the_newest_jobs_are_read_from_the_end_of_an_index_without_sorting(lite: Store) -> None:
    assert way_of(lite, JobQuery(order="newest")) == "SCAN jobs USING INDEX ix_jobs_newest"
    assert way_of(lite, JobQuery(sweep="abc")).startswith("SEARCH jobs USING INDEX ix_jobs_trial (sweep=?)")


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", ".lock"])
def test_no_other_account_may_read_the_store(lite: Store, tmp_path: Path, suffix: str) -> None:
    lite.commit(WriteBatch(events=[EventRecord(1, 1.0, "job", b"{}")]))
    assert (tmp_path / f"springtide.sqlite{suffix}").stat().st_mode & 0o777 == 0o600


def test_a_store_that_others_could_read_is_closed_to_them(sqlite_url: str, tmp_path: Path) -> None:
    Store.open(sqlite_url, tmp_path).close()
    with sqlite3.connect(tmp_path / "springtide.sqlite") as open_elsewhere:
        open_elsewhere.execute("SELECT * FROM jobs").fetchall()
        files = sorted(tmp_path.glob("springtide.sqlite*"))
        for path in files:
            path.chmod(0o644)
        store = Store.open(sqlite_url, tmp_path)
        assert {path.name: oct(path.stat().st_mode & 0o777) for path in files} == {
            path.name: "0o600" for path in files
        }
        assert {path.name for path in files} > {"springtide.sqlite", "springtide.sqlite-wal"}
        store.close()
    open_elsewhere.close()


def test_large_files_of_jobs_are_closed_to_other_accounts_whatever_the_umask(lite: Store, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        bundle = save(lite, {"model.bin": os.urandom(100_000)})
    finally:
        os.umask(before)
    path = tmp_path / "bundles" / bundle.digest
    assert (path.parent.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o700, 0o600)


def test_a_full_disk_is_told_and_nothing_is_lost(lite: Store) -> None:
    lite.commit(WriteBatch(events=[EventRecord(1, 1.0, "job", b"{}")]))
    with lite._writer.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")
    big = b'"' + b"x" * 1_000_000 + b'"'
    with pytest.raises(StoreFullError, match="full"):
        lite.commit(WriteBatch(events=[EventRecord(2, 1.0, "job", big)]))
    assert [event.id for event in lite.read(reading.events, 0, 10)] == [1]
    with lite._writer.connect() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count=1000000")
    lite.commit(WriteBatch(events=[EventRecord(2, 1.0, "job", big)]))
    assert [event.id for event in lite.read(reading.events, 0, 10)] == [1, 2]


def test_a_full_disk_for_files_is_told_and_leaves_nothing_behind(
    lite: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreFullError, match="files"):
        save(lite, {"a": bytes(200_000)})
    monkeypatch.undo()
    assert list((tmp_path / "bundles").iterdir()) == []


def test_orphaned_files_go_when_they_are_old(lite: Store, tmp_path: Path) -> None:
    bundle = save(lite, {"a": bytes(200_000)})
    path = tmp_path / "bundles" / bundle.digest
    lite.drop_bundles(0.0, 0, 0.0)
    assert path.exists()
    os.utime(path, (0, 0))
    lite.drop_bundles(0.0, 0, 0.0)
    assert not path.exists()


def test_files_that_are_about_to_be_used_again_are_no_orphans(lite: Store, tmp_path: Path) -> None:
    files = {"a": bytes(200_000)}
    path = tmp_path / "bundles" / save(lite, files).digest
    os.utime(path, (0, 0))
    save(lite, files)
    lite.drop_bundles(0.0, 0, 0.0)
    assert path.exists()


def test_the_lock_goes_with_its_process(sqlite_url: str, tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, sqlite_url, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout.readline().strip() == "1"
        with pytest.raises(Exception, match="Another Springtide service"):
            Store.open(sqlite_url, tmp_path, lock_wait=0.1)
        holder.kill()
        holder.wait()
        store = Store.open(sqlite_url, tmp_path, lock_wait=5.0)
        assert store.epoch == 2
        store.close()


def test_missing_folders_are_made(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "state"
    store = Store.open(f"sqlite:///{folder}/springtide.sqlite", folder)
    store.close()
    assert (folder / "springtide.sqlite").exists()
    assert (folder / "springtide.sqlite.lock").stat().st_mode & 0o777 == 0o600


def fill(store: Store) -> None:
    store.commit(WriteBatch(events=[EventRecord(n, 1.0, "job", b'"%s"' % (b"x" * 2_000)) for n in range(1, 50)]))


def overwrite_pages(database: Path, first: int) -> None:
    with database.open("r+b") as file:
        file.seek(first)
        file.write(os.urandom(database.stat().st_size - first))


@pytest.mark.parametrize("first", [0, 100_000], ids=["its header", "pages of a table"])
def test_a_damaged_database_is_refused_at_the_start_naming_the_file_and_the_way_back(
    sqlite_url: str, tmp_path: Path, first: int
) -> None:
    store = Store.open(sqlite_url, tmp_path)
    fill(store)
    store.close()
    overwrite_pages(tmp_path / "springtide.sqlite", first)
    with pytest.raises(StoreDamagedError) as caught:
        Store.open(sqlite_url, tmp_path)
    assert f"The store {tmp_path}/springtide.sqlite is damaged" in str(caught.value)
    assert "put a backup in its place" in str(caught.value)


def test_damage_that_is_met_later_names_the_file_too(lite: Store, tmp_path: Path) -> None:
    fill(lite)
    lite._reader.dispose()
    lite._writer.dispose()
    overwrite_pages(tmp_path / "springtide.sqlite", 100_000)
    with pytest.raises(StoreDamagedError, match=r"springtide\.sqlite is damaged"):
        lite.read(reading.events, 0, 100)

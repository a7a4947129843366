"""What is SQLite's alone: durability, a full disk, the lock file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from springtide.scheduler.store import Store, StoreFullError
from springtide.scheduler.store.records import Batch, EventRecord

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


def test_a_full_disk_is_told_and_nothing_is_lost(lite: Store) -> None:
    lite.commit(Batch(events=[EventRecord(1, 1.0, "job", b"{}")]))
    with lite._writer.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")
    big = b'"' + b"x" * 1_000_000 + b'"'
    with pytest.raises(StoreFullError, match="full"):
        lite.commit(Batch(events=[EventRecord(2, 1.0, "job", big)]))
    assert [event.id for event in lite.events(0, 10)] == [1]
    with lite._writer.connect() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count=1000000")
    lite.commit(Batch(events=[EventRecord(2, 1.0, "job", big)]))
    assert [event.id for event in lite.events(0, 10)] == [1, 2]


def test_a_full_disk_for_files_is_told_and_leaves_nothing_behind(
    lite: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreFullError, match="files"):
        lite.save_bundle({"a": bytes(200_000)})
    monkeypatch.undo()
    assert list((tmp_path / "bundles").iterdir()) == []


def test_orphaned_files_go_when_they_are_old(lite: Store, tmp_path: Path) -> None:
    bundle = lite.save_bundle({"a": bytes(200_000)})
    path = tmp_path / "bundles" / bundle.digest
    lite.prune(events=10, decisions=10, audit_before=0.0)
    assert path.exists()
    os.utime(path, (0, 0))
    lite.prune(events=10, decisions=10, audit_before=0.0)
    assert not path.exists()


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

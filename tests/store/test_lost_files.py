"""An SQLite store whose files are removed or replaced while a service has it open."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection

from springtide.scheduler.store import Store, StoreFullError, StoreMovedError, opening
from springtide.scheduler.store.copying import check_copy
from springtide.scheduler.store.place import removed_files
from springtide.scheduler.store.queries import reading
from springtide.scheduler.store.records import EventRecord, WriteBatch
from springtide.scheduler.store.rescue import rescued_copies


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "springtide.sqlite"


def opened(database: Path) -> Store:
    return Store.open(f"sqlite:///{database}", database.parent, lock_wait=0)


@pytest.fixture
def lite(database: Path) -> Iterator[Store]:
    store = opened(database)
    yield store
    store.close()


def event(number: int) -> WriteBatch:
    return WriteBatch(events=[EventRecord(number, 1.0, "job", b"{}")])


def events(store: Store) -> list[int]:
    return [each.id for each in store.read(reading.events, 0, 100)]


def test_a_database_that_was_removed_takes_no_writes_and_is_saved(lite: Store, database: Path) -> None:
    lite.commit(event(1))
    database.unlink()
    with pytest.raises(StoreMovedError, match="was removed while the service runs") as refused:
        lite.commit(event(2))
    (copy,) = rescued_copies(database)
    assert str(copy) in str(refused.value)
    assert copy.stat().st_mode & 0o777 == 0o600
    check_copy(copy)
    lite.close()
    copy.rename(database)
    again = opened(database)
    assert events(again) == [1]
    again.close()


@pytest.mark.parametrize("restored", [False, True], ids=["an empty file", "an older copy"])
def test_a_database_that_was_replaced_takes_no_writes(lite: Store, database: Path, restored: bool) -> None:
    lite.commit(event(1))
    other = database.with_name("other")
    if restored:
        shutil.copy(database, other)
    else:
        other.touch()
    other.rename(database)
    with pytest.raises(StoreMovedError, match="was replaced by another file"):
        lite.commit(event(2))
    with pytest.raises(StoreMovedError, match="was replaced by another file"):
        lite.probe()


def test_a_database_that_comes_back_takes_writes_again(lite: Store, database: Path) -> None:
    lite.commit(event(1))
    away = database.rename(database.with_name("away"))
    with pytest.raises(StoreMovedError):
        lite.commit(event(2))
    away.rename(database)
    lite.commit(event(3))
    assert events(lite) == [1, 3]


def test_what_a_removed_log_held_is_in_the_database(lite: Store, database: Path) -> None:
    lite.commit(event(1))
    lite.commit(event(2))
    database.with_name("springtide.sqlite-wal").unlink()
    with pytest.raises(StoreMovedError, match="the service starts again") as refused:
        lite.commit(event(3))
    assert refused.value.log_only
    assert refused.value.saved
    lite.close()
    again = opened(database)
    assert events(again) == [1, 2]
    again.commit(event(3))
    again.close()


def test_a_log_that_another_process_made_anew_is_not_taken_for_the_own(lite: Store, database: Path) -> None:
    lite.commit(event(1))
    database.with_name("springtide.sqlite-wal").unlink()
    read = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('SELECT 1').fetchone())"
    subprocess.run([sys.executable, "-c", read, str(database)], check=True, capture_output=True)
    database.with_name("springtide.sqlite-wal").touch()
    with pytest.raises(StoreMovedError):
        lite.commit(event(2))


def test_a_write_during_which_the_database_goes_is_not_called_written(lite: Store, database: Path) -> None:
    def touch_and_remove(connection: Connection) -> None:
        opening.touch(connection, lite.epoch)
        database.unlink()

    with pytest.raises(StoreMovedError):
        lite.write(touch_and_remove)


def test_connections_that_are_made_anew_are_no_loss(lite: Store, database: Path) -> None:
    lite.commit(event(1))
    lite._reader.dispose()
    lite._writer.dispose()
    assert not database.with_name("springtide.sqlite-wal").exists()
    lite.commit(event(2))
    lite.commit(event(3))
    assert events(lite) == [1, 2, 3]


def test_what_a_process_has_open_and_is_removed_is_seen_from_outside(lite: Store, database: Path) -> None:
    lite.commit(event(1))
    assert removed_files(database, os.getpid()) == []
    database.with_name("springtide.sqlite-wal").unlink()
    assert removed_files(database, os.getpid()) == [database.with_name("springtide.sqlite-wal")]


def test_a_disk_without_room_is_full_before_a_small_write_fails(
    lite: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    lite.probe()
    monkeypatch.setattr(os, "posix_fallocate", no_room)
    with pytest.raises(StoreFullError):
        lite.probe()

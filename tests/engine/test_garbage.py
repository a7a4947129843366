"""What lives long is not looked at again and again by the garbage collector."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from springtide.hub_extension.command import imported
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.process_tuning import COMPLETE_INTERVAL, loading, short_collections, uncollected


class Loaded:
    """Something that a test can see being freed, and that may refer to itself."""

    itself: Loaded | None = None


@pytest.fixture(autouse=True)
def unfrozen() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_what_was_loaded_is_left_out_of_collections_and_freed_when_nothing_refers_to_it() -> None:
    with loading():
        assert not gc.isenabled()
        loaded = [Loaded() for _ in range(1000)]
    assert gc.isenabled()
    assert not looked_at() & {id(each) for each in loaded}
    first = weakref.ref(loaded[0])
    loaded.clear()
    assert first() is None


def test_a_command_is_left_out_of_collections_from_its_first_import_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "new_command.py").write_text("MADE = [[number] for number in range(1000)]\n")
    monkeypatch.syspath_prepend(tmp_path)
    made = imported("new_command").MADE
    assert not looked_at() & {id(each) for each in made}
    later = [Loaded() for _ in range(1000)]
    assert imported("new_command").MADE is made
    assert looked_at() >= {id(each) for each in later}
    del sys.modules["new_command"]


def test_collections_go_on_after_a_failed_load_and_stay_off_where_they_were_off() -> None:
    with pytest.raises(KeyError), loading():
        raise KeyError
    assert gc.isenabled()
    gc.disable()
    try:
        with loading():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_short_work_leaves_is_collected_after_it() -> None:
    with uncollected():
        assert not gc.isenabled()
        left = weakref.ref(cycle())
    assert gc.isenabled()
    gc.collect()
    assert left() is None


def test_a_full_collection_looks_only_at_what_is_newer_than_the_one_before() -> None:
    with short_collections(lambda: 0.0):
        older = cycle()
        gc.collect()
        newer = cycle()
        assert id(older) not in looked_at()
        assert id(newer) in looked_at()


def test_garbage_in_cycles_is_found_at_once_when_new_and_later_when_old() -> None:
    now = 0.0
    with short_collections(lambda: now):
        young, old = cycle(), cycle()
        was_young, was_old = weakref.ref(young), weakref.ref(old)
        del young
        gc.collect()
        assert was_young() is None
        del old
        gc.collect()
        assert was_old() is not None
        now = COMPLETE_INTERVAL
        gc.collect()
        assert was_old() is None
    assert cycle_is_found_as_before()


def test_a_request_with_thousands_of_objects_starts_no_collection() -> None:
    before = gc.get_threshold()
    with short_collections(lambda: 0.0):
        gc.collect()
        collections = counted()
        of_a_request = [Loaded() for _ in range(5000)]
        assert counted() == collections
    assert gc.get_threshold() == before
    assert of_a_request


def counted() -> int:
    return sum(each["collections"] for each in gc.get_stats())


def cycle() -> Loaded:
    one = Loaded()
    one.itself = one
    return one


def looked_at() -> set[int]:
    return {id(each) for each in gc.get_objects()}


def cycle_is_found_as_before() -> bool:
    one = cycle()
    gc.collect()
    found = weakref.ref(one)
    del one
    gc.collect()
    return found() is None


async def test_ticks_leave_no_transaction_to_the_collector(pool: Any) -> None:
    """One that a full collection sees at work is left out of later ones, with the records of all its jobs."""
    gc.collect()
    gc.disable()
    try:
        jobs = [await pool.submit("susan", gpus=4) for _ in range(3)]
        await pool.state(jobs[0].id, "running")
        await pool.engine.cancel(jobs[0].id, "susan")
        await pool.state(jobs[2].id, "running")
        await pool.idle()
        assert [each for each in gc.get_objects() if isinstance(each, Transaction)] == []
    finally:
        gc.enable()

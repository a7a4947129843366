"""What is loaded at the start is not looked at again by the garbage collector."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from springtide.scheduler.engine.garbage import FULL_AFTER, loading


class Loaded:
    """Something that a test can see being freed."""


@pytest.fixture(autouse=True)
def unfrozen() -> Iterator[None]:
    threshold = gc.get_threshold()
    yield
    gc.set_threshold(*threshold)
    gc.unfreeze()


def test_what_was_loaded_is_left_out_of_collections_and_freed_when_nothing_refers_to_it() -> None:
    with loading():
        assert not gc.isenabled()
        loaded = [Loaded() for _ in range(1000)]
    assert gc.isenabled()
    assert gc.get_threshold()[2] == FULL_AFTER
    looked_at = {id(each) for each in gc.get_objects()}
    assert not any(id(each) in looked_at for each in loaded)
    first = weakref.ref(loaded[0])
    loaded.clear()
    assert first() is None


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

"""Numbers by key: the latest number set for a key counts, and each key is taken once."""

from __future__ import annotations

from math import inf

from springtide.scheduler.policy.state.sorted_index import SortedIndex


def test_keys_are_taken_once_in_the_order_of_their_numbers() -> None:
    index = SortedIndex()
    for key, at in (("late", 9.0), ("early", 1.0), ("moved", 2.0), ("gone", 3.0), ("never", inf)):
        index.set(key, at)
    index.set("moved", 8.0)
    index.discard("gone")

    assert index.first() == 1.0
    assert index.first(above=1.0) == 8.0
    assert index.up_to(8.0) == ["early", "moved"]
    assert index.take_up_to(5.0) == ["early"]
    assert index.first() == 8.0
    assert index.take_up_to(100.0) == ["moved", "late"]
    assert index.first() == inf


def test_a_key_whose_number_is_set_again_to_what_it_was_is_taken_once() -> None:
    index = SortedIndex()
    index.set("job", 4.0)
    index.set("job", 7.0)
    index.set("job", 4.0)

    assert index.take_up_to(10.0) == ["job"]
    assert index.take_up_to(10.0) == []

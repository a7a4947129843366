"""Times by key: the latest time set for a key counts, and each comes due once."""

from __future__ import annotations

from math import inf

from springtide.scheduler.policy.state.timers import Timers


def test_keys_come_due_once_in_the_order_of_their_times() -> None:
    timers = Timers()
    for key, at in (("late", 9.0), ("early", 1.0), ("moved", 2.0), ("gone", 3.0), ("never", inf)):
        timers.set(key, at)
    timers.set("moved", 8.0)
    timers.discard("gone")

    assert timers.next_time() == 1.0
    assert timers.due(5.0) == ["early"]
    assert timers.next_time() == 8.0
    assert timers.due(100.0) == ["moved", "late"]
    assert timers.next_time() == inf


def test_a_time_that_is_set_again_to_what_it_was_comes_due_once() -> None:
    timers = Timers()
    timers.set("job", 4.0)
    timers.set("job", 7.0)
    timers.set("job", 4.0)

    assert timers.due(10.0) == ["job"]
    assert timers.due(10.0) == []

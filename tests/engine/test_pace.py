"""Rests between ticks, so that many small ones do not take the event loop's time."""

from __future__ import annotations

import pytest

from springtide.scheduler.engine.loop.pace import MAX_REST, Pace


class Clock:
    """A clock that goes on when a test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def work(pace: Pace, clock: Clock, seconds: float) -> None:
    with pace:
        clock.now += seconds


def test_the_first_tick_and_one_after_a_quiet_time_begin_at_once(clock: Clock) -> None:
    pace = Pace(clock)
    assert pace.rest() == 0
    work(pace, clock, 0.002)
    clock.now += 1
    assert pace.rest() == 0


def test_ticks_take_at_most_a_fifth_of_the_time(clock: Clock) -> None:
    pace = Pace(clock)
    for _ in range(100):
        clock.now += pace.rest()
        work(pace, clock, 0.003)
        clock.now += 0.001  # the commit, during which others have the event loop
        work(pace, clock, 0.002)
    assert clock.now >= 99 * 5 * 0.005


def test_a_long_tick_is_followed_by_a_short_rest(clock: Clock) -> None:
    pace = Pace(clock)
    work(pace, clock, 10)
    assert pace.rest() == pytest.approx(MAX_REST)
    clock.now += MAX_REST
    assert pace.rest() == 0

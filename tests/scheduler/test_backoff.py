"""Delays between attempts."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from springtide.scheduler.backoff import Backoff, equal_jitter, no_jitter

seconds = st.floats(min_value=0.001, max_value=1000.0)


def delays(backoff: Backoff, count: int) -> list[float]:
    return [backoff.next_delay() for _ in range(count)]


def test_delays_double_up_to_the_cap() -> None:
    assert delays(Backoff(0.5, 3.0, jitter=no_jitter), 5) == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_the_factor_can_be_chosen() -> None:
    assert delays(Backoff(1.0, 50.0, factor=5.0, jitter=no_jitter), 4) == [1.0, 5.0, 25.0, 50.0]
    assert delays(Backoff(2.0, 2.0, factor=1.0, jitter=no_jitter), 3) == [2.0, 2.0, 2.0]


def test_after_a_reset_the_first_delay_comes_again() -> None:
    backoff = Backoff(1.0, 60.0, jitter=no_jitter)
    delays(backoff, 4)
    backoff.reset()
    assert delays(backoff, 2) == [1.0, 2.0]


def test_what_the_other_side_asked_for_lengthens_one_delay_up_to_the_cap() -> None:
    backoff = Backoff(1.0, 10.0, jitter=no_jitter)
    assert backoff.next_delay(at_least=7.0) == 7.0
    assert backoff.next_delay() == 2.0
    assert backoff.next_delay(at_least=3600.0) == 10.0
    assert backoff.next_delay(at_least=0.5) == 8.0


def test_jitter_changes_a_delay_and_none_after_it() -> None:
    draws = iter((0.0, 1.0, 0.5))
    backoff = Backoff(4.0, 60.0, jitter=partial(equal_jitter, draw=lambda: next(draws)))
    assert delays(backoff, 3) == [2.0, 8.0, 12.0]


@given(base=seconds, more=seconds, factor=st.floats(min_value=1.0, max_value=10.0), draw=st.floats(0.0, 1.0))
def test_every_delay_lies_between_half_the_base_and_the_cap(
    base: float, more: float, factor: float, draw: float
) -> None:
    backoff = Backoff(base, base + more, factor=factor, jitter=partial(equal_jitter, draw=lambda: draw))
    assert all(base / 2 <= delay <= base + more for delay in delays(backoff, 50))


def test_two_clients_that_failed_together_do_not_come_back_together() -> None:
    assert delays(Backoff(1.0, 60.0), 5) != delays(Backoff(1.0, 60.0), 5)


@pytest.mark.parametrize(
    ("base", "cap", "factor"), [(0.0, 1.0, 2.0), (-1.0, 1.0, 2.0), (2.0, 1.0, 2.0), (1.0, 2.0, 0.5)]
)
def test_delays_that_cannot_be_are_refused(base: float, cap: float, factor: float) -> None:
    with pytest.raises(ValueError, match="A backoff needs"):
        Backoff(base, cap, factor=factor)

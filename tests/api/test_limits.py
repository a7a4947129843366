from __future__ import annotations

from springtide.hub_extension.api import limits
from springtide.hub_extension.api.limits import Buckets


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_is_let_through_and_the_next_told_how_long_to_wait():
    buckets = Buckets(rate=2, burst=3, clock=Clock())
    assert [buckets.take("susan") for _ in range(3)] == [0, 0, 0]
    assert buckets.take("susan") == 0.5


def test_a_refused_one_costs_nothing():
    clock = Clock()
    buckets = Buckets(rate=1, burst=1, clock=clock)
    buckets.take("susan")
    for _ in range(10):
        assert buckets.take("susan") > 0
    clock.now += 1
    assert buckets.take("susan") == 0


def test_one_person_does_not_use_up_anothers():
    buckets = Buckets(rate=1, burst=1, clock=Clock())
    buckets.take("susan")
    assert buckets.take("susan") > 0
    assert buckets.take("joe") == 0


def test_a_bucket_never_holds_more_than_the_burst():
    clock = Clock()
    buckets = Buckets(rate=100, burst=2, clock=clock)
    buckets.take("susan")
    clock.now += 3600
    assert [buckets.take("susan") > 0 for _ in range(3)] == [False, False, True]


def test_people_who_rest_are_forgotten_but_not_those_who_hurry(monkeypatch):
    monkeypatch.setattr(limits, "TRACKED", 50)
    clock = Clock()
    buckets = Buckets(rate=1, burst=2, clock=clock)
    for number in range(49):
        buckets.take(f"rests{number}")
    clock.now += 10
    for _ in range(2):
        buckets.take("hurries")
    for number in range(200):
        clock.now += 0.001
        buckets.take(f"another{number}")
    assert buckets.take("hurries") > 0
    assert "rests1" not in buckets._levels

from __future__ import annotations

import asyncio
from typing import Any

from patience import PATIENCE_S

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


async def test_a_flood_of_all_together_is_held_back_and_nothing_is_accepted_beyond_it(running, monkeypatch):
    accepting, go_on = [], asyncio.Event()
    submit = running.pool.engine.submit

    async def slow(*given: Any, **named: Any) -> Any:
        accepting.append(given)
        await go_on.wait()
        return await submit(*given, **named)

    monkeypatch.setattr(running.pool.engine, "submit", slow)
    monkeypatch.setattr(running.pool.intake, "most", 3)
    people = [running.as_(name) for name in ("susan", "joe", "jemma")]
    taken = [asyncio.create_task(person.post("/jobs", json={"argv": ["true"]})) for person in people]
    async with asyncio.timeout(PATIENCE_S):
        while len(accepting) < 3:
            await asyncio.sleep(0.01)
    refused = await running.as_("susan").post("/jobs", json={"argv": ["true"]})
    assert (refused.status_code, refused.json()["code"]) == (429, "pool_busy")
    assert int(refused.headers["Retry-After"]) > 0
    assert (await running.as_("susan").get("/pool")).status_code == 200
    go_on.set()
    assert [(await answer).status_code for answer in taken] == [201] * 3
    assert (await running.as_("susan").post("/jobs", json={"argv": ["true"]})).status_code == 201
    assert len(accepting) == 4

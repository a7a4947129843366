"""No job waits longer than a bound, whatever others submit later, with every order and rule for the surplus."""

from __future__ import annotations

import pytest
from judges.histories import ORDERS, SURPLUSES
from judges.streams import BOUND, STREAMS, waited

STARVING = {
    "a gang as wide as the pool, of the project that owns it",
    "a gang as wide as the pool, above its share",
    "a job above the share of its project",
    "the younger of two equal projects",
    "a large job among small ones of its project",
}
CASES = [
    pytest.param(
        stream,
        order,
        surplus,
        marks=pytest.mark.xfail(strict=True, reason="no starvation: it waits until the stream has ended")
        if stream in STARVING or (stream, surplus) == ("a project of low priority with a quota", "fair")
        else (),
    )
    for stream in STREAMS
    for order in ORDERS
    for surplus in SURPLUSES
]


@pytest.mark.parametrize(("stream", "order", "surplus"), CASES)
def test_against_an_endless_stream_of_later_jobs(stream, order, surplus):
    assert waited(stream, order, surplus) <= BOUND

"""No job waits longer than a bound, whatever others submit later, with every order and rule for the surplus."""

from __future__ import annotations

import pytest
from judges.histories import ORDERS, SURPLUSES
from judges.streams import BOUND, STREAMS, gpu_hours_of_equals, late, waited

SEEDS = range(12)


def test_against_random_streams():
    found = {seed: waits for seed in SEEDS if (waits := late(seed))}

    assert found == {}


@pytest.mark.parametrize("surplus", SURPLUSES)
@pytest.mark.parametrize("order", ORDERS)
def test_equal_projects_have_equal_time_in_a_day(order, surplus):
    a, b = gpu_hours_of_equals(order, surplus)

    assert abs(a - b) < (a + b) / 10


@pytest.mark.parametrize("surplus", SURPLUSES)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("stream", STREAMS)
def test_against_an_endless_stream_of_later_jobs(stream, order, surplus):
    assert waited(stream, order, surplus) <= BOUND

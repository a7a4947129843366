"""Each claimed condition lets a job start, and a job that can never run by its reason never does."""

from __future__ import annotations

import pytest
from judges.counterfactuals import untrue
from judges.random_pools import KINDS, pool_of_seed

SEEDS = range(4)


@pytest.mark.parametrize("kind", KINDS)
def test_whoever_does_what_is_said_sees_the_job_start(kind):
    found = {seed: false for seed in SEEDS if (false := untrue(pool_of_seed(kind, seed)))}

    assert found == {}

"""A state of gigabytes on a GPU is saved within the time of grace, and is whole afterwards."""

from __future__ import annotations

import pytest
from hubs.gpu_desk import GIB, Desk, asked

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("real-gpus"), pytest.mark.timeout(600)]


def test_a_state_of_8_gib_leaves_for_an_owner_and_comes_back(susan: Desk, joe: Desk) -> None:
    borrower = joe.submit("large.py", options=("--grace", "2m", "-e", "HOLD_AFTER=13"))
    joe.says(borrower, "waits for a pause")
    owner = susan.submit("look.py", gpus=len(asked("uuid")))
    found = susan.sees(owner)
    assert found["free"] > found["total"] - 2 * GIB
    assert joe.result(borrower) == str(float(sum(range(8)) + 8 * 20))

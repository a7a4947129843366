"""A step that no checkpoint can have is refused before anything is sent."""

from __future__ import annotations

from typing import Any

import pytest

from springtide.scheduler.client import Client, PoolError


@pytest.mark.parametrize("step", ["3", float("nan"), float("inf"), 10**400, True, [3]])
def test_a_step_that_is_no_number_is_refused_in_words(step: Any) -> None:
    with (
        Client("http://127.0.0.1:9", "token") as client,
        pytest.raises(PoolError, match=r"step is .*; expected the step"),
    ):
        client.fork("job", step=step)

"""Durations as people write them."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from springtide.scheduler.wire.durations import PATTERN, seconds, shown


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (90, 90), (1.5, 1.5), ("90", 90), ("0", 0), ("1.5", 1.5), ("10m", 600), ("10min", 600), ("10 min", 600),
        ("2h", 7200), ("1h30m", 5400), ("1h 30m", 5400), ("1.5h", 5400), ("1d", 86_400), ("1d2h3m4s", 93_784),
        (" 30s ", 30), (timedelta(hours=1, seconds=1), 3601),
    ],
)  # fmt: skip
def test_a_duration_is_written_in_many_ways(written: object, meant: float) -> None:
    assert seconds(written) == meant


@pytest.mark.parametrize(
    "written",
    ["", " ", "soon", "-5", "-5m", "m", "10x", "1h1h", "30m1h", "1:30", "1e3", "10m\n\n5", "9" * 100, True, None,
     float("nan"), float("inf"), [], b"10m"],
)  # fmt: skip
def test_anything_else_is_refused_with_examples(written: object) -> None:
    with pytest.raises(ValueError, match=r"not a duration such as 90 \(seconds\), 10m, 2h, 1h30m"):
        seconds(written)


@given(st.integers(0, 10**9))
def test_a_shown_duration_means_what_it_was_made_of(number: int) -> None:
    assert seconds(shown(number)) == number
    assert re.search(PATTERN, shown(number))


@given(st.text(max_size=80))
def test_no_text_breaks_the_parser(text: str) -> None:
    with suppress(ValueError):
        assert seconds(text) >= 0

"""Times as people write them."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from springtide.scheduler.wire.moments import last_moment, moment

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 10, 22, 15, 30, tzinfo=BERLIN)
"""A Thursday; on the Sunday after it the clock is set back by an hour."""


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("friday 18:00", (2026, 10, 23, 18)), ("Fri 18:00", (2026, 10, 23, 18)),
        ("friday", (2026, 10, 23)),
        ("thursday 18:00", (2026, 10, 22, 18)), ("thursday", (2026, 10, 29)),
        ("thursday 09:00", (2026, 10, 29, 9)),
        ("monday 8:00", (2026, 10, 26, 8)), ("18:00", (2026, 10, 22, 18)), ("15:00", (2026, 10, 23, 15)),
        ("today 23:59", (2026, 10, 22, 23, 59)), ("tomorrow", (2026, 10, 23)),
        ("tomorrow 7:05", (2026, 10, 23, 7, 5)),
        ("2026-12-01", (2026, 12, 1)), ("2026-12-01 18:00", (2026, 12, 1, 18)),
        ("2026-12-01T18:00", (2026, 12, 1, 18)),
    ],
)  # fmt: skip
def test_a_local_time_is_written_in_many_ways(written: str, meant: tuple[int, ...]) -> None:
    assert moment(written, NOW) == datetime(*meant, tzinfo=BERLIN).timestamp()  # type: ignore[misc, arg-type]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("friday", (2026, 10, 24)), ("thursday", (2026, 10, 23)), ("wed", (2026, 10, 29)),
        ("today", (2026, 10, 23)), ("tomorrow", (2026, 10, 24)),
        ("2026-12-01", (2026, 12, 2)), ("2026-10-25", (2026, 10, 26)), ("2026-12-31", (2027, 1, 1)),
        ("2026-12-01 00:00", (2026, 12, 1)), ("friday 18:00", (2026, 10, 23, 18)),
        ("thursday 09:00", (2026, 10, 29, 9)), ("18:00", (2026, 10, 22, 18)),
    ],
)  # fmt: skip
def test_the_end_of_a_span_is_the_end_of_a_day_without_a_time(written: str, meant: tuple[int, ...]) -> None:
    assert last_moment(written, NOW) == datetime(*meant, tzinfo=BERLIN).timestamp()  # type: ignore[misc, arg-type]


def test_a_duration_is_from_now_on_whatever_the_clock_does() -> None:
    assert moment("2h", NOW) == NOW.timestamp() + 7200
    assert moment("7d", NOW) == NOW.timestamp() + 7 * 86_400
    assert moment("7d", NOW.replace(tzinfo=None)) - NOW.replace(tzinfo=None).timestamp() == 7 * 86_400


def test_a_time_with_an_offset_is_that_time() -> None:
    assert moment("2026-12-01T18:00+00:00", NOW) == datetime(2026, 12, 1, 18, tzinfo=ZoneInfo("UTC")).timestamp()
    assert moment("2026-12-01T18:00Z", NOW) == datetime(2026, 12, 1, 18, tzinfo=ZoneInfo("UTC")).timestamp()


@pytest.mark.parametrize(
    "written", ["", " ", "soon", "fr", "someday 18:00", "25:00", "friday 18:60", "friday noon", "2026-13-01", "90",
                "-2h", "x" * 100, "2026-12-01 friday"],
)  # fmt: skip
def test_anything_else_is_refused_with_examples(written: str) -> None:
    with pytest.raises(ValueError, match=r"is not a time such as friday 18:00, 2026-12-01"):
        moment(written, NOW)
    with pytest.raises(ValueError, match=r"is not a time such as friday 18:00, 2026-12-01"):
        last_moment(written, NOW)

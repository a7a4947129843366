"""Times that come again on days of the week, over nights, months and steps of the zone's clock."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest

from springtide.scheduler.repeats import Repeat, in_words, next_span, repeat, spans

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str) -> float:
    """Return a time of Berlin."""
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp()


NIGHTS = repeat("sat,sun", "20:00", "08:00", "Europe/Berlin")


@pytest.mark.parametrize(
    ("now", "start", "end"),
    [
        ("2026-12-04 12:00", "2026-12-05 20:00", "2026-12-06 08:00"),
        ("2026-12-05 20:00", "2026-12-05 20:00", "2026-12-06 08:00"),
        ("2026-12-06 07:59", "2026-12-05 20:00", "2026-12-06 08:00"),
        ("2026-12-06 08:00", "2026-12-06 20:00", "2026-12-07 08:00"),
        ("2026-12-07 03:00", "2026-12-06 20:00", "2026-12-07 08:00"),
        ("2026-12-07 08:00", "2026-12-12 20:00", "2026-12-13 08:00"),
        ("2027-03-27 21:00", "2027-03-27 20:00", "2027-03-28 08:00"),
        ("2026-10-25 02:30", "2026-10-24 20:00", "2026-10-25 08:00"),
    ],
)
def test_a_night_of_the_weekend_is_found_from_any_time(now: str, start: str, end: str) -> None:
    assert next_span(NIGHTS, at(now)) == (at(start), at(end))


def test_a_night_is_an_hour_shorter_in_spring_and_longer_in_autumn() -> None:
    lengths = [span.end - span.start for span in islice(spans(NIGHTS, at("2026-01-01 00:00")), 104)]
    assert {length / 3600 for length in lengths} == {11.0, 12.0, 13.0}


@pytest.mark.parametrize("seed", range(20))
def test_times_agree_with_the_clock_on_the_wall_at_any_minute(seed: int) -> None:
    pick = random.Random(seed)
    days = tuple(sorted(pick.sample(range(7), pick.randint(1, 7))))
    opens, closes = pick.sample([f"{hour:02}:{minute:02}" for hour in range(24) for minute in (0, 30)], 2)
    times = Repeat(days, opens, closes, "Europe/Berlin")
    for _ in range(300):
        now = pick.uniform(at("2026-01-02 00:00"), at("2027-12-01 00:00"))
        wall = datetime.fromtimestamp(now, UTC).astimezone(BERLIN)
        if (wall.month in {3, 10}) and wall.hour in {1, 2, 3}:
            continue
        clock, day = f"{wall:%H:%M}", wall.weekday()
        begun = clock >= opens and day in days and (clock < closes or closes <= opens)
        goes_on = closes <= opens and clock < closes and (day - 1) % 7 in days
        span = next_span(times, now)
        assert (span.start <= now < span.end) is (begun or goes_on), (times, wall)


def test_each_time_comes_once_and_in_order() -> None:
    found = list(islice(spans(repeat("daily", "22:00", "22:00", "Europe/Berlin"), at("2026-03-01 00:00")), 400))
    assert all(one.end == other.start for one, other in pairwise(found))


@pytest.mark.parametrize(
    ("days", "numbers", "words"),
    [
        ("Sat, Sun", (5, 6), "Sat, Sun"),
        ("mon-fri", (0, 1, 2, 3, 4), "Mon, Tue, Wed, Thu, Fri"),
        ("saturday-monday", (0, 5, 6), "Mon, Sat, Sun"),
        ("daily", tuple(range(7)), "daily"),
    ],
)
def test_days_are_written_as_people_do(days: str, numbers: tuple[int, ...], words: str) -> None:
    found = repeat(days, "9:00", "10:00", "UTC")
    assert found.days == numbers
    assert in_words(found) == f"{words} from 9:00 to 10:00, UTC"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("someday", "9:00", "10:00", "UTC"), "“someday” are no days such as sat,sun"),
        (("", "9:00", "10:00", "UTC"), "are no days"),
        (("sat-", "9:00", "10:00", "UTC"), "are no days"),
        (("sat", "25:00", "10:00", "UTC"), "“25:00” is no time of day such as 20:00"),
        (("sat", "9", "10:00", "UTC"), "is no time of day"),
        (("sat", "9:00", "10:00", "Mars/Base"), "“Mars/Base” is no time zone such as Europe/Berlin"),
        (("sat", "9:00", "10:00", "../etc/passwd"), "is no time zone"),
        (("sat", "9:00", "10:00", ""), "is no time zone"),
    ],
)
def test_what_is_no_time_is_refused_in_words(words: tuple[str, str, str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        repeat(*words)

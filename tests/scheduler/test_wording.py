"""Plurals, articles, quotes, lists, numbers and times."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest

from springtide.scheduler import wording

TIMES: Final = json.loads(Path(__file__).with_name("times.json").read_text())
"""The cases that the scripts of the pages are tested with as well."""


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 GPUs"), (1, "1 GPU"), (2, "2 GPUs"), (1200, "1,200 GPUs"), (0.5, "0.5 GPUs")]
)
def test_a_noun_agrees_with_its_number(number: int, said: str) -> None:
    assert wording.gpus(number) == said


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0, "0"),
        (0.00004, "< 0.001"),
        (0.04, "0.04"),
        (0.0404, "0.04"),
        (3.14159, "3.1"),
        (9.97, "10"),
        (12.4, "12"),
        (1643.8, "1,644"),
    ],
)
def test_a_sum_at_a_glance_is_short_and_never_0_unless_it_is(number: float, said: str) -> None:
    assert wording.at_a_glance(number) == said


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0, "0"),
        (0.0049, "< 0.01"),
        (0.005, "0.01"),
        (0.16, "0.16"),
        (1.005, "1.01"),
        (1.15622, "1.16"),
        (1.999, "2"),
        (2.12, "2.12"),
        (1200.0, "1,200"),
        (1643.805, "1,643.81"),
    ],
)
def test_money_has_two_decimals_with_halves_rounded_up(number: float, said: str) -> None:
    assert wording.money(number) == said


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (2895, "2,895"),
        (2895.0, "2,895"),
        (289_512.0, "289,512"),
        (0.25, "0.25"),
        (-0.0, "0"),
        (float("inf"), "inf"),
    ],
)
def test_a_whole_number_is_written_in_full_whatever_its_type(number: float, said: str) -> None:
    assert wording.amount(number) == said


def test_a_plural_may_be_a_word_of_its_own() -> None:
    assert [wording.count(number, "retry", "retries") for number in (1, 3)] == ["1 retry", "3 retries"]


@pytest.mark.parametrize(
    ("noun", "said"),
    [
        ("int", "an int"),
        ("list", "a list"),
        ("8-GPU job", "an 8-GPU job"),
        ("80-GPU job", "an 80-GPU job"),
        ("11-GPU job", "an 11-GPU job"),
        ("18-GPU job", "an 18-GPU job"),
        ("110-GPU job", "a 110-GPU job"),
        ("6-GPU job", "a 6-GPU job"),
        ("UUID", "a UUID"),
        ("user", "a user"),
        ("Event", "an Event"),
        ("_thread.lock", "a _thread.lock"),
    ],
)
def test_an_article_goes_by_how_the_word_sounds(noun: str, said: str) -> None:
    assert wording.article(noun) == said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("digits", "digits"),
        ("resnet-50_v1.5", "resnet-50_v1.5"),
        ("susan@example.org", "susan@example.org"),
        ("sweep lr=0.017", "“sweep lr=0.017”"),
        ("ends with a dot.", "“ends with a dot.”"),
        ("dot.", "“dot.”"),
        ("two\nlines", "“two lines”"),
        ("vision team/ä <b>", "“vision team/ä <b>”"),
        ("", "“”"),
    ],
)
def test_a_label_that_is_more_than_a_word_is_in_quotes(name: str, said: str) -> None:
    assert wording.labelled(name) == said


@pytest.mark.parametrize("name", ["digits", "sweep lr=0.017", "susan@example.org"])
def test_the_name_of_a_job_or_a_person_is_always_in_quotes(name: str) -> None:
    assert wording.quoted(name) == f"“{name}”"
    assert wording.quoted("two\nlines") == "“two lines”"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("nope", "“nope”"),
        ("", "“”"),
        ("it's C:\\data", "“it's C:\\data”"),
        ("ä 日本 ”", "“ä 日本 ””"),
        ("two\nlines\t\x1b[31mred", r"“two\nlines\t\x1b[31mred”"),
        ("abc\u202ecba", r"“abc\u202ecba”"),
        ("\ud800 \u2028 \U000e0041", r"“\ud800 \u2028 \U000e0041”"),
        (8, "8"),
        (0.25, "0.25"),
        (True, "True"),
        (None, "None"),
        ([1, "a\n"], r"[1, 'a\n']"),
        ("x" * 80, f"“{'x' * 80}”"),
        ("x" * 81, f"“{'x' * 80}…”"),
        (10**90, f"1{'0' * 79}…"),
    ],
)
def test_what_somebody_gave_is_repeated_in_quotes_without_what_cannot_be_printed(value: object, said: str) -> None:
    assert wording.given(value) == said


def test_what_an_object_writes_of_itself_is_on_one_line_and_bounded() -> None:
    class Table:
        def __repr__(self) -> str:
            return "a\n" * 1000

    assert wording.given(Table(), 4) == r"a\na\n…"


@pytest.mark.parametrize(
    ("names", "said"),
    [("", ""), ("a", "a"), ("ab", "a and b"), ("abcd", "a, b, c and d"), ("abcde", "a, b, c and 2 more")],
)
def test_a_long_list_ends_in_how_many_more_there_are(names: str, said: str) -> None:
    assert wording.listed(list(names)) == said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("no program", "no program."),
        ("Really?", "Really?"),
        (" two\n lines ", "two lines."),
        ("It said “no.”", "It said “no.”"),
        ("", ""),
    ],
)
def test_other_peoples_words_end_as_a_sentence_does(words: str, said: str) -> None:
    assert wording.sentence(words) == said


@pytest.mark.parametrize(
    ("seconds", "said", "roughly"),
    [
        (0, "0 s", "0 s"),
        (40, "40 s", "40 s"),
        (104, "1 min 44 s", "1 min"),
        (120, "2 min", "2 min"),
        (599.4, "9 min 59 s", "9 min"),
        (630, "10 min", "10 min"),
        (7500, "2 h 5 min", "2 h 5 min"),
        (90_000, "1 d 1 h", "1 d 1 h"),
    ],
)
def test_a_duration_has_two_units_at_most(seconds: float, said: str, roughly: str) -> None:
    assert (wording.duration(seconds), wording.roughly(seconds)) == (said, roughly)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0 s"), (0.5, "0.5 s"), (150, "2 min 30 s"), (3600, "1 h"), (90_061, "1 d 1 h 1 min 1 s")],
)
def test_a_limit_is_not_rounded(seconds: float, said: str) -> None:
    assert wording.exactly(seconds) == said


@pytest.mark.parametrize("case", TIMES["points"], ids=lambda case: case["exact"])
def test_a_point_in_time_has_one_form_for_each_place(case: dict[str, Any]) -> None:
    at, now = (datetime(*case[name]).timestamp() for name in ("at", "now"))  # noqa: DTZ001 - of the reader's zone
    assert wording.ago(at, now) == case["ago"]
    assert wording.clock(at, now) == case["clock"]
    assert wording.clock(at, now, precise=True) == case["precise"]
    assert (wording.day(at), wording.dated(at), wording.exact(at)) == (case["day"], case["dated"], case["exact"])
    assert wording.weekday(at) == case["weekday"]


def test_a_point_in_time_for_programs_and_terminals_names_its_zone() -> None:
    at, berlin = datetime(2026, 11, 27, 20, 14, 5, tzinfo=UTC).timestamp(), ZoneInfo("Europe/Berlin")
    assert (wording.iso(at), wording.iso(None)) == ("2026-11-27T20:14:05Z", "")
    assert wording.utc(at) == "2026-11-27 20:14 UTC"
    assert wording.with_offset(at, berlin) == "2026-11-27 21:14+01:00"
    assert wording.with_offset(at - 150 * 86_400, berlin) == "2026-06-30 22:14+02:00"
    assert wording.month("2026-11") == "November 2026"


def test_the_end_of_a_day_is_named_by_that_day() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    midnight = datetime(2026, 11, 28, tzinfo=berlin).timestamp()
    assert wording.end_of_day(midnight, berlin) == "the end of Friday, 2026-11-27"
    assert wording.end_of_day(midnight, UTC) is None


@pytest.mark.parametrize("case", TIMES["durations"], ids=lambda case: case["exactly"])
def test_a_duration_has_one_form_for_each_use(case: dict[str, Any]) -> None:
    for form in (wording.duration, wording.roughly, wording.exactly):
        assert form(case["seconds"]) == case[form.__name__]


def test_what_has_not_happened_yet_by_a_slow_clock_is_just_now() -> None:
    assert wording.ago(1_700_000_005, 1_700_000_000) == "just now"


@pytest.mark.parametrize("name", ["پی\u200cگیر", "👩\u200d👩\u200d👧", "क्\u200dष"])
def test_joiners_belong_to_the_writing_of_languages_and_to_emoji(name: str) -> None:
    assert wording.is_printable(name)


@pytest.mark.parametrize(
    "name", ["vis\u200dion", "\u200dvision", "می\u200c", "ab\u200c\u200dcd", "می\u202eم", "a\nb"]
)
def test_nothing_hides_in_a_name(name: str) -> None:
    assert not wording.is_printable(name)

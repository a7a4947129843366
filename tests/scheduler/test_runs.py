"""Conditions and orders of the table of runs: a small language over arguments, metrics and columns."""

from __future__ import annotations

import random
import re
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec import structs

from springtide.scheduler.arguments import Argument, Value
from springtide.scheduler.metrics import Extremes, NotFinite
from springtide.scheduler.runs import (
    MAX_CONDITION,
    Comparison,
    ConditionError,
    NoNumberError,
    Run,
    Secret,
    UnknownNameError,
    check_names,
    check_values,
    holds,
    names_of,
    ordered,
    parse,
    value_of,
)
from springtide.scheduler.time_zones import own_zone

NOW = 10_000.0
NOT_FINITE = {
    "diverged": NotFinite.NAN,
    "overflow": NotFinite.INFINITY,
    "underflow": NotFinite.MINUS_INFINITY,
}


def run(seq: int = 1, **changes: object) -> Run:
    fields: dict[str, object] = {
        "arguments": {
            "lr": Argument(value=0.5),
            "optimizer": Argument(value="adam"),
            "amp": Argument(value=True),
            "config.depth": Argument(value=3),
            "token": Argument(value=None, hidden=True),
            "warmup": Argument(value=None),
            "seed": Argument(value="nan"),
        },
        "values": {"val_loss": 0.4, "acc": 0.7, "val/top-1": 0.2, **NOT_FINITE},
        "extremes": {
            "diverged": Extremes(0.5, 1, 0.5, 1),
            "val_loss": Extremes(0.2, 5, 0.9, 1),
            "acc": Extremes(0.1, 1, 0.8, 9),
        },
        "tags": ("baseline", "lr-0.1"),
        "started": NOW - 7200,
        "gpus": 4,
        "note": "Best so far",
    }
    own = {"id": f"j{seq}", "name": "train", "user": "susan", "project": "vision", "state": "running"}
    return Run(seq=seq, submitted=0.0, **{**own, **fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "condition",
    [
        "lr > 0.1 and val_loss < 0.45",
        "lr == .5",
        "lr = 5e-1",
        "best.val_loss <= 0.2",
        "best.acc > 0.75 and last.acc < 0.75",
        "argument.lr >= 0.5",
        "config.depth = 3",
        "optimizer = Adam",
        "optimizer = 'adam'",
        'optimizer ~ "da"',
        "optimizer != sgd",
        "amp",
        "amp = true",
        "not missing",
        "warmup = none and warmup = None and warmup = null and argument.warmup = NULL",
        "warmup in (null, 3) and not warmup",
        "lr != none and lr != null",
        "tag = baseline",
        "tag = lr-0.1",
        "tag != other",
        "duration > 1.5h and duration <= 2h and duration < 3d",
        "state = running and (user = joe or user = susan)",
        "NOT (lr > 1 OR lr < 0.1) AND gpus = 4",
        "note ~ best",
        "'val/top-1' < 0.3",
        "val/top-1 < 0.3",
        "token",
        "token != none",
        "diverged = nan and diverged = NaN and not diverged != nan",
        "diverged and diverged != none and diverged != 1",
        "best.diverged = 0.5",
        "not diverged < 1 and not diverged >= 1",
        "overflow = inf and overflow > 1e300 and overflow != -inf",
        "underflow = -inf and underflow < 0",
        "val_loss != nan and val_loss < inf",
        "seed = nan",
        "optimizer = “adam” and optimizer != ‘sgd’ and last.“val/top-1” > −0.5",  # noqa: RUF001
        "duration > 90m and duration < 121min",
        "duration > 90 min and duration < 2 h 1 min and (duration = 2 h or gpus = 9)",
        "1 h 59 min 59.5 s < duration < 2h1s",
        "lr in (0.1, 0.5)",
        "lr in [.5]",
        "lr in(1,0.5) and optimizer in ('sgd', Adam)",
        "state IN (running, paused) and tag in (other, baseline)",
        "lr not in (0.1, 0.2) and not lr in (0.1, 0.2)",
        "0.05 < lr < 0.6",
        "0.5 <= lr <= 0.5 and 0.6 ≥ lr > 0.4",
        "0.1 < lr and 0.5 = lr",
        "1h < duration < 3h",
        "0 < best.val_loss < 0.3 or lr > 9",
    ],
)
def test_conditions_that_hold(condition: str) -> None:
    assert holds(parse(condition), run(), NOW)


@pytest.mark.parametrize(
    ("value", "typed"),
    [
        ("3 4", "3"),
        ("fit-05", "05"),
        ("fit-5", "-5"),
        ("run 1e3", "1E3"),
        ("batch 2h", "2h"),
        ("none yet", "None"),
        ("fit 1.50", "1.50"),
        (30, "3"),
        (0.001, "1e-3"),
    ],
)
def test_a_part_of_a_text_is_looked_for_as_it_was_typed(value: Value, typed: str) -> None:
    given = run(arguments={"seeds": Argument(value=value)}, name=str(value))
    assert holds(parse(f"seeds ~ {typed}"), given, NOW)
    assert holds(parse(f"name ~ '{value}' and not name ~ 77"), given, NOW)
    assert not holds(parse(f"seeds ~ {typed}"), run(arguments={"seeds": Argument(value="abc")}), NOW)


def test_a_column_of_numbers_has_no_parts_but_its_number() -> None:
    assert holds(parse("gpus ~ 4 and last.val_loss ~ 0.4"), run(), NOW)
    assert not holds(parse("gpus ~ 5"), run(), NOW)


WRITTEN = ["1", "1.0", "1e0"]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        *((value, word) for value in (1, 1.0, "1", "1.0", "1e0", "+1.00") for word in WRITTEN),
        *((value, f"'{word}'") for value in (1, 1.0) for word in WRITTEN),
    ],
)
def test_a_number_is_found_however_it_is_written(value: Value, written: str) -> None:
    given = run(arguments={"lr": Argument(value=value)})
    assert holds(parse(f"lr = {written} and lr in ({written}, 7)"), given, NOW)
    assert not holds(parse(f"lr != {written} or lr = 10 or lr = true"), given, NOW)


@pytest.mark.parametrize(
    "condition",
    [
        "lr > 0.5",
        "missing > 1",
        "missing != 1",
        "missing < 1",
        "lr = adam",
        "optimizer > 3",
        "amp = false",
        "best.missing < 1",
        "lr > 0.1 and (val_loss < 0.1 or acc > 0.9)",
        "tag != baseline",
        "token = secret",
        "token = hidden",
        "token != hidden",
        "token ~ hid",
        "token = none",
        "missing = none",
        "missing = null",
        "missing != none",
        "missing in (none, 3)",
        "argument.missing = None",
        "best.missing = none",
        "warmup != none",
        "diverged > 1",
        "diverged < 1",
        "diverged >= nan",
        "diverged != nan",
        "diverged = inf",
        "val_loss = nan",
        "missing = nan",
        "missing != nan",
        "lr in (0.1, 0.2)",
        "lr not in (0.1, 0.5)",
        "missing not in (0.1, 0.5)",
        "0.05 < lr < 0.5",
        "0.5 < lr < 0.6",
        "token in (hidden, secret)",
    ],
)
def test_conditions_that_do_not_hold(condition: str) -> None:
    assert not holds(parse(condition), run(), NOW)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("lr >", "The condition ends too early: expected a value after “>”."),
        ("state = runing", "“runing” at character 9 is no state of a job. Did you mean running?"),
        ("layers = [1,2]", "Expected a value after “=” at character 10, not “[”."),
        ("state = cancelin", "“cancelin” at character 9 is no state of a job. Did you mean cancelling?"),
        ("state != 5", "“5” at character 10 is no state of a job. States are queued, starting, running"),
        ("lr > and", "“lr” is compared with a number, or a text in quotes, not with “and” at character 6."),
        ("> 3", "Expected the name of an argument, a metric or a column at character 1, not “>”."),
        ("lr > 1 acc < 2", "The condition before character 8 is complete; “acc” cannot follow it."),
        ("(lr > 1", "The condition ends too early: expected a closing bracket."),
        ("lr > 1)", "The condition before character 7 is complete; “)” cannot follow it."),
        ("lr > 1 < 2", "The condition before character 8 is complete; “<” cannot follow it."),
        ("0.1 ~ lr", "“~” at character 5 comes after a name, not before one."),
        ("0.1 < lr <", "The condition ends too early: expected a value after “<”."),
        ("0.1 < 0.2", "Expected the name of an argument, a metric or a column at character 7, not “0.2”."),
        ("lr in 0.1", "Expected a list of values in brackets after “in” at character 7, not “0.1”."),
        ("lr in ()", "Expected a value of the list of “lr” at character 8, not “)”."),
        ("lr in (0.1 0.2)", "Expected a comma or “)” at character 12, not “0.2”."),
        ("lr in [0.1)", "Expected a comma or “]” at character 11, not “)”."),
        ("lr in (0.1", "The condition ends too early: expected a comma or “)”."),
        ("in (1)", "Expected the name of an argument, a metric or a column at character 1, not “in”."),
        ("submitted in (2026-11-26)", "“in” before character 14 compares no times: use <, <=, > or >=."),
        ("state in (runing)", "“runing” at character 11 is no state of a job. Did you mean running?"),
        ("name ~ 'tr", "The quote at character 8 is not closed."),
        ("name = “tr", "The quote at character 8 is not closed."),
        ("lr ! 1", "“!” at character 4 has no meaning here."),
        ("lr > 1e999", "The number at character 6 is too large."),
        ("", "The condition ends too early"),
        ("(" * 200 + "lr", "There are more than 20 brackets inside each other."),
        ("not " * 100 + "lr", "There are more than 20 brackets inside each other."),
        ("l" * (MAX_CONDITION + 1), f"The condition has {MAX_CONDITION + 1} characters"),
    ],
)
def test_a_condition_that_cannot_be_read_says_where(condition: str, message: str) -> None:
    with pytest.raises(ConditionError) as error:
        parse(condition)
    assert error.value.message.startswith(message)
    assert 1 <= error.value.place <= len(condition) + 1
    assert ("layers ~ 2" in error.value.hint) == ("[1,2]" in condition)


AT = datetime(2026, 11, 26, 18, 0, tzinfo=UTC).timestamp()
AN_HOUR_AGO = AT - 3600


@pytest.mark.parametrize(
    ("condition", "is_met"),
    [
        ("submitted > -2h", True),
        ("submitted > -1 h 30 min and submitted < -50 min", True),
        ("submitted > −90m", True),  # noqa: RUF001
        ("-2h < submitted < -30min", True),
        ("2026-11-25 < submitted < 2026-11-26", False),
        ("submitted > -30min", False),
        ("submitted <= -30min", True),
        ("submitted > 2026-11-26", True),
        ("submitted < '2026-11-26'", False),
        ("submitted > 2026-11-26T17:30", False),
        ('submitted < "2026-11-26 17:30"', True),
        ("submitted < 2026-11-26T18:30+01:00", True),
        ("submitted < 2026-11-26T17:30Z", True),
        ("submitted > 2026-11-25 and submitted < 2026-11-27", True),
        ("started = none", True),
        ("started > -2d", False),
    ],
)
def test_times_are_compared_with_dates_and_ages(condition: str, is_met: bool) -> None:
    job = structs.replace(run(started=None), submitted=AN_HOUR_AGO)
    assert holds(parse(condition, "UTC"), job, AT) == is_met


@pytest.mark.parametrize(
    ("zone", "is_met"), [("", False), ("UTC", False), ("Europe/Berlin", True), ("+02:00", True), ("-0100", False)]
)
def test_a_date_without_a_zone_is_in_that_of_the_reader(
    zone: str, is_met: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    try:
        job = structs.replace(run(), submitted=AN_HOUR_AGO)
        assert holds(parse("submitted > 2026-11-26T17:30", zone), job, AT) == is_met
        assert holds(parse("submitted > 2026-11-26T17:30Z", zone), job, AT) is False
        summer = parse("submitted > 2026-07-01T12:00", "Europe/Berlin")
        assert isinstance(summer, Comparison)
        assert summer.value == datetime(2026, 7, 1, 10, tzinfo=UTC).timestamp(), "that of the date, not of today"
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("zone", ["Nowhere/Else", "../UTC", "/etc/passwd", "Europe", "+25:00", "x" * 65, "UTC\0"])
def test_an_unknown_zone_is_refused_where_a_date_needs_it(zone: str) -> None:
    assert parse("lr > 1 and submitted > 2026-11-26T18:00Z", zone)
    with pytest.raises(
        ConditionError, match=r"does not know the time zone .* of the date at character 13"
    ) as error:
        parse("submitted > 2026-11-26", zone)
    assert error.value.hint == "Write the zone as 2026-11-26T18:00+01:00."


def test_a_process_knows_its_time_zone_by_its_environment_or_its_machine(tmp_path: Path) -> None:
    link = tmp_path / "localtime"
    assert own_zone({"TZ": "Asia/Tokyo"}, link) == "Asia/Tokyo"
    assert own_zone({"TZ": ":/usr/share/zoneinfo/Asia/Tokyo"}, link) == "Asia/Tokyo"
    link.symlink_to("/usr/share/zoneinfo/Europe/Berlin")
    assert own_zone({}, link) == "Europe/Berlin"
    for present in (own_zone({"TZ": "CET-1CEST"}, link), own_zone({}, tmp_path / "none")):
        assert re.fullmatch(r"[+-]\d{4}", present)


@pytest.mark.parametrize("value", ["many", "adam", "true", "none", "many2"])
def test_an_order_by_a_word_is_refused_with_the_word_and_an_example(value: str) -> None:
    for operator in ("<", "<=", ">", ">=", "≥"):
        with pytest.raises(ConditionError) as error:
            parse(f"val_loss {operator} {value}")
        place = len(f"val_loss {operator} ") + 1
        assert error.value.message == (
            f"“val_loss” is compared with a number, or a text in quotes, not with “{value}” at character {place}."
        )
        assert error.value.hint == "Example: val_loss > 0.3"
    assert parse("optimizer > 'adam'") == Comparison("optimizer", ">", "adam")


def test_a_text_for_a_number_is_refused_once_the_runs_have_numbers_there() -> None:
    condition = parse("not (optimizer = sgd or val_loss > 'many')")
    check_values(condition, [run(values={})], NOW)
    numbers = [run(values={"val_loss": 0.5}), run(values={})]
    with pytest.raises(NoNumberError) as error:
        check_values(condition, numbers, NOW)
    assert (error.value.name, error.value.value) == ("val_loss", "many")


@pytest.mark.parametrize(("written", "meant"), [("≤", "<="), ("≥", ">="), ("≠", "!="), ("==", "=")])
def test_operators_may_be_written_as_in_mathematics(written: str, meant: str) -> None:
    assert parse(f"lr{written}0.5") == parse(f"lr {meant} 0.5")


@pytest.mark.parametrize("column", ["submitted", "started"])
@pytest.mark.parametrize("value", ["1h", "yesterday", "2026-13-45", "'soon'", "5", "nan", "true"])
def test_a_time_that_is_none_is_refused_with_the_column_the_value_and_an_example(column: str, value: str) -> None:
    with pytest.raises(ConditionError) as error:
        parse(f"lr > 1 and {column} > {value}")
    place = len(f"lr > 1 and {column} > ") + 1
    assert error.value.message == (
        f"“{column}” is compared with a date such as 2026-11-26T18:00, or an age such as -10min, -2h or -7d, "
        f"not with “{value}” at character {place}."
    )
    assert error.value.hint == f"Example: {column} > 2026-11-26, or {column} > -2h: later than two hours ago"


@pytest.mark.parametrize("operator", ["=", "!=", "~"])
def test_times_are_earlier_or_later_and_never_equal(operator: str) -> None:
    with pytest.raises(ConditionError, match="compares no times: use <, <=, > or >="):
        parse(f"submitted {operator} 2026-11-26")


@pytest.mark.parametrize(
    ("name", "value", "kind", "example"),
    [
        ("duration", "2x", "a duration in s, min, h or d", "duration > 2h"),
        ("duration", "30y", "a duration in s, min, h or d", "duration > 2h"),
        ("duration", "2026-11-26", "a duration in s, min, h or d", "duration > 2h"),
        ("gpus", "many", "a number", "gpus > 2"),
        ("gpus", "2h", "a number", "gpus > 2"),
        ("step", "true", "a number", "step > 2"),
        ("generation", "'a b'", "a number", "generation > 2"),
        ("best.loss", "low", "a number", "best.loss > 2"),
        ("last.loss", "low", "a number", "last.loss > 2"),
    ],
)
def test_a_wrong_number_is_refused_with_the_column_the_value_and_an_example(
    name: str, value: str, kind: str, example: str
) -> None:
    for operator in (">", "=", "!=", "~"):
        with pytest.raises(ConditionError) as error:
            parse(f"{name} {operator} {value}")
        place = len(f"{name} {operator} ") + 1
        assert error.value.message == f"“{name}” is compared with {kind}, not with “{value}” at character {place}."
        assert error.value.hint == f"Example: {example}"


@pytest.mark.parametrize(
    "condition",
    [
        "last.'a b' > 1",
        'best."a b" > 1',
        "'last.a b' > 1",
        "argument.'x y' = 3",
        "日本語 > 1",
        "last.日本語 > 1",
        "gpus = '4'",
        "step = none",
        "note ~ '2026-11-26' or note ~ 2026-11-26",
    ],
)
def test_names_of_any_alphabet_and_quotes_after_a_prefix_are_read(condition: str) -> None:
    job = run(
        values={"a b": 2.0, "日本語": 2.0},
        extremes={"a b": Extremes(2, 1, 2, 1)},
        arguments={"x y": Argument(value=3)},
        note="of 2026-11-26",
    )
    assert holds(parse(condition), job, NOW)


def test_a_column_is_meant_before_an_argument_of_its_name() -> None:
    named = {name: Argument(value="own") for name in ("note", "state", "id")}
    job = run(arguments=named, note="mine")
    for name in named:
        assert not holds(parse(f"{name} ~ own"), job, NOW)
        assert holds(parse(f"argument.{name} = own"), job, NOW)
    assert holds(parse("note = mine and state = running and id = j1"), job, NOW)


def test_any_text_is_a_condition_or_refused() -> None:
    chance = random.Random(7)
    parts = [
        "lr",
        ">",
        "<=",
        "0.1",
        "(",
        ")",
        "and",
        "or",
        "not",
        "'",
        '"',
        "~",
        "é",
        "\u202e",
        "\0",
        "1e9",
        "-",
        " ",
    ]
    for _ in range(5_000):
        text = " ".join(chance.choices(parts, k=chance.randrange(8)))
        with suppress(ConditionError):
            assert holds(parse(text), run(), NOW) in {True, False}


@pytest.mark.parametrize("reverse", [False, True])
def test_runs_without_a_number_come_after_all_numbers(reverse: bool) -> None:
    values = [NotFinite.NAN, 0.3, NotFinite.INFINITY, NotFinite.NAN, 0.1, NotFinite.MINUS_INFINITY]
    runs = [run(n, values={"loss": value}) for n, value in enumerate(values)] + [run(9, values={})]
    numbers = [5, 4, 1, 2]
    order = [each.seq for each in ordered(runs, "loss", NOW, reverse=reverse)]
    assert order == [*(reversed(numbers) if reverse else numbers), 3, 0, 9]


def test_runs_are_ordered_by_a_value_with_those_without_it_last() -> None:
    values: list[Value] = [0.3, "auto", 0.1, 0.2]
    runs = [run(n, arguments={"lr": Argument(value=value)}) for n, value in enumerate(values)]
    runs.append(run(9, arguments={}))
    assert [each.seq for each in ordered(runs, "lr", NOW, reverse=False)] == [2, 3, 0, 1, 9]
    assert [each.seq for each in ordered(runs, "lr", NOW, reverse=True)] == [0, 3, 2, 1, 9]
    same = [run(n) for n in (1, 3, 2)]
    assert [each.seq for each in ordered(same, "best.val_loss", NOW, reverse=False)] == [3, 2, 1]


def test_a_hidden_argument_has_no_value() -> None:
    assert value_of(run(), "token", NOW) is Secret.HIDDEN
    runs = [run(1), run(2, arguments={"token": Argument(value=512)})]
    assert [each.seq for each in ordered(runs, "token", NOW, reverse=False)] == [2, 1]


def test_names_of_a_condition_are_those_of_some_run() -> None:
    check_names(names_of(parse("lr > 0 and (val_loss < 1 or not state = queued) and best.none < 1")), [run()])
    check_names(["none"], [])
    with pytest.raises(UnknownNameError) as error:
        check_names(names_of(parse("lr > 0 and not (val_los < 1 or gpus)")), [run()])
    assert (error.value.name, error.value.near) == ("val_los", "val_loss")

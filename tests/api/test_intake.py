from __future__ import annotations

import pytest
from msgspec import Struct

from springtide.hub_extension.api.intake import body_of, checked, query_of
from springtide.scheduler import wire
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire.shapes import ProjectName


def refused(text: str | bytes, kind: type = wire.Submission) -> Refusal:
    with pytest.raises(Refusal) as caught:
        body_of(text.encode() if isinstance(text, str) else text, kind)
    return caught.value


@pytest.mark.parametrize("field", ["gpus", "workers", "min_workers"])
@pytest.mark.parametrize(
    "given",
    [
        "-1",
        "2.0",
        "2.5",
        "true",
        '"2"',
        "NaN",
        "-Infinity",
        "1e309",
        "1e3",
        "1000001",
        "9" * 400,
        "[2]",
        "{}",
    ],
)
def test_what_is_no_count_of_gpus_is_refused_naming_the_field(field, given):
    error = refused(f'{{"argv": ["a"], "{field}": {given}}}')
    assert (error.status, error.field) == (422, field)
    assert f"{field} is" in error.message
    assert f"a whole number from {0 if field == 'gpus' else 1} up to 1000000" in error.message


@pytest.mark.parametrize("field", ["workers", "min_workers"])
def test_no_workers_are_refused(field):
    assert refused(f'{{"argv": ["a"], "{field}": 0}}').field == field


@pytest.mark.parametrize(
    ("field", "given", "words"),
    [
        ("time_limit", "0", "a number above 0"),
        ("time_limit", "NaN", "a number above 0"),
        ("grace", "-1", "a number from 0 up to 3600"),
        ("kind", '"shell"', "one of command, function, notebook"),
        ("kind", '"command\\n"', "one of command, function, notebook"),
        ("project", '"a/b"', "without “/” or control characters"),
        ("project", '"a\\n"', "without “/” or control characters"),
        ("rotate", "1", "true or false"),
        ("argv", "[]", "a list of 1 to 4096"),
        ("argv", '"python"', "a list of 1 to 4096"),
        ("retries", "101", "a whole number from 0 up to 100"),
        ("priority", "1.5", "a whole number from 0 up to 1000000"),
        ("priority", "-1", "a whole number from 0 up to 1000000"),
    ],
)
def test_a_wrong_field_is_told_with_what_was_expected(field, given, words):
    text = '{"argv": ["a"], "%s": %s}' % (field, given) if field != "argv" else '{"argv": %s}' % given  # noqa: UP031
    error = refused(text)
    assert (error.status, error.field) == (422, field)
    assert words in error.message


def test_a_tag_is_refused_with_what_it_may_not_have():
    error = refused('{"argv": ["a"], "tags": ["a b"]}')
    assert (error.status, error.field) == (422, "tags")
    assert "without spaces, commas or control characters" in error.message


def test_a_misspelt_field_is_refused_with_the_right_spelling():
    error = refused('{"argv": ["a"], "gpu": 1}')
    assert (error.status, error.code, error.field, error.hint) == (
        422,
        "unknown_field",
        "gpu",
        "Did you mean gpus?",
    )


def test_an_unknown_field_is_refused_with_the_known_ones():
    error = refused('{"argv": ["a"], "zzzzzz": 1}')
    assert "min_workers" in error.hint


def test_a_missing_field_is_named():
    error = refused("{}")
    assert (error.status, error.field) == (422, "argv")


@pytest.mark.parametrize("text", ["", "{", "{'a': 1}", b'{"argv": ["\xff"]}', '{"argv": ["\\ud800"]}', "nul"])
def test_what_is_no_json_is_refused(text):
    assert refused(text).status == 400


@pytest.mark.parametrize("text", ["[]", "3", '"x"', "null", "[" * 50_000, '{"argv":' * 50_000])
def test_json_of_another_shape_is_refused_however_deep(text):
    assert refused(text).status in {400, 422}


def test_the_value_of_an_environment_variable_is_not_repeated():
    error = refused('{"argv": ["a"], "env": {"A": "hunter2", "B": 1}}')
    assert error.field == "env"
    assert "hunter2" not in error.message + error.hint


def test_a_long_value_is_shortened():
    assert len(refused('{"argv": ["a"], "gpus": "%s"}' % ("x" * 10_000)).message) < 300


def test_a_broken_body_of_megabytes_is_still_told_apart():
    error = refused('{"argv": ["a"], "source": "%s", "gpus": 0}' % ("x" * (2 << 20)))
    assert error.field == "source"


class Query(Struct, frozen=True, forbid_unknown_fields=True):
    limit: int = 5
    mine: bool = False


def test_query_parameters_become_what_they_mean():
    assert query_of({"limit": [b"7"], "mine": [b"1"]}, Query) == Query(limit=7, mine=True)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"limit": [b"x"]}, "limit"),
        ({"limit": [b"1", b"2"]}, "limit"),
        ({"limit": [b"\xff"]}, "limit"),
        ({"mine": [b"yes please"]}, "mine"),
        ({"limt": [b"1"]}, "limt"),
    ],
)
def test_a_wrong_query_parameter_is_named(arguments, field):
    with pytest.raises(Refusal) as caught:
        query_of(arguments, Query)
    assert (caught.value.status, caught.value.field) == (422, field)


@pytest.mark.parametrize("name", ["", "a" * 65, "a/b", "a\n", "\x00"])
def test_a_part_of_the_address_is_checked_too(name):
    with pytest.raises(Refusal) as caught:
        checked(name, ProjectName, "name")
    assert (caught.value.status, caught.value.field) == (422, "name")

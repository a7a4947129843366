"""Parameters of a notebook: their defaults, values typed for them, and the cell that is added."""

from __future__ import annotations

import ast
import json
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from springtide.scheduler.capture import Here, capture_words
from springtide.scheduler.capture.notebook import with_parameters
from springtide.scheduler.capture.parameter_cells import (
    OTHER_TYPE,
    cells_of,
    known_parameters,
    parameters,
    typed_parameters,
)


class Mode(Enum):
    FAST = "fast"


class Size(IntEnum):
    BIG = 3


class Kind(StrEnum):
    TEXT = "text"


class Loud(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return "print('injected')"


class Rate(float):
    def __repr__(self) -> str:
        return "Rate!"


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Mode.FAST, "fast"),
        (Size.BIG, 3),
        (Kind.TEXT, "text"),
        (Loud("x"), "x"),
        (Rate(0.5), 0.5),
        ([Size.BIG], [3]),
    ],
)
def test_values_of_subclasses_are_those_of_the_plain_type(tmp_path: Path, value: Any, plain: Any) -> None:
    cells = [new_code_cell("rate = 1", metadata={"tags": ["parameters"]})]
    nbformat.write(new_notebook(cells=cells), tmp_path / "study.ipynb")
    captured = with_parameters(
        capture_words(["study.ipynb"], Here(tmp_path, home=tmp_path.parent)), {"rate": value}
    )
    added = captured.source.split("\n\n")[-1].splitlines()[-1]
    name, _, text = added.partition(" = ")
    assert name == "rate"
    found = ast.literal_eval(text)
    assert (found, type(found)) == (plain, type(plain))


def tagged(source: str, tag: str = "parameters") -> dict[str, Any]:
    return dict(new_code_cell(source, metadata={"tags": [tag]}))


CELLS = [
    tagged("rate: float = 0.5\nsteps = 10 * 3\nname = 'adam'\nfast = False"),
    tagged("sizes = [8, 8]\nmore = {'a': 1}\nseed = None"),
    tagged("rate = 0.1\nstray = 1", tag="injected-parameters"),
]


def test_parameters_have_the_default_that_holds_and_its_type() -> None:
    assert [(each.name, each.text, each.type) for each in parameters(CELLS)] == [
        ("rate", "0.1", "float"),
        ("steps", "10 * 3", ""),
        ("name", "adam", "str"),
        ("fast", "false", "bool"),
        ("sizes", "[8, 8]", "list"),
        ("more", "{'a': 1}", "dict"),
        ("seed", "None", ""),
    ]
    assert [each.name for each in parameters(CELLS[2:])] == ["rate", "stray"], "only injected ones are there"


def test_the_default_of_a_secret_is_hidden() -> None:
    (secret,) = parameters([tagged("api_token = 'hunter2'")])
    assert secret.text == "hidden"
    assert typed_parameters([tagged("api_token = 'hunter2'")], {"api_token": "other"}) == (
        {"api_token": "other"},
        {},
    )


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ({"steps": "40"}, {"steps": 40}),
        ({"steps": "many"}, {"steps": "many"}),
        ({"name": "10"}, {"name": "10"}),
        ({"name": "''"}, {"name": ""}),
        ({"fast": "true"}, {"fast": True}),
        ({"sizes": "[1, 2]"}, {"sizes": [1, 2]}),
        ({"more": "{'b': 2}"}, {"more": {"b": 2}}),
        ({"seed": "7"}, {"seed": 7}),
        ({"rate": "2"}, {"rate": 2}),
    ],
)
def test_typed_values_are_read_by_their_default_and_injected_ones_stay(
    typed: dict[str, str], value: dict[str, Any]
) -> None:
    assert typed_parameters(CELLS, typed) == ({"rate": 0.1, **value}, {})


def test_nothing_typed_changes_nothing() -> None:
    assert typed_parameters(CELLS, {"rate": "", "name": " "}) == ({}, {})


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("rate", "fast", "rate was “0.1”, a number; “fast” is a text."),
        ("fast", "maybe", "fast was “false”, true or false; “maybe” is a text."),
        ("more", "[1]", "more was “{'a': 1}”, a dict; “[1]” is a list."),
    ],
)
def test_a_value_of_another_type_is_refused_beside_its_name(name: str, text: str, words: str) -> None:
    values, problems = typed_parameters(CELLS, {name: text})
    assert values == {}
    assert problems == {name: f"{words} {OTHER_TYPE}"}


@pytest.mark.parametrize(
    ("cells", "language", "known"),
    [
        ([tagged("a = 1")], "python", ("a",)),
        ([tagged("a = 1")], "R", ()),
        ([{"metadata": {"tags": ["parameters"]}, "source": 5}], "python", ()),
        ([7, {"metadata": 3}], "python", ()),
        (3, "python", ()),
    ],
)
def test_what_is_no_notebook_in_python_has_no_parameters(
    tmp_path: Path, cells: object, language: str, known: tuple[str, ...]
) -> None:
    file = tmp_path / "any.ipynb"
    assert known_parameters(file) == ()
    file.write_text(json.dumps({"cells": cells, "metadata": {"kernelspec": {"language": language}}}))
    assert known_parameters(file) == known
    assert tuple(each.name for each in parameters(cells_of(file))) == known

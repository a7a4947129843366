"""Parameters of a notebook: their defaults, values typed for them, and the cell that is added."""

from __future__ import annotations

import ast
import json
import re
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from springtide.scheduler.capture import Here, capture_words
from springtide.scheduler.capture.errors import CaptureError
from springtide.scheduler.capture.notebook import with_parameters
from springtide.scheduler.capture.parameter_cells import (
    OTHER_TYPE,
    cells_of,
    known_parameters,
    misfits,
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
    tagged(
        "rate: float = 0.5\nsteps = 10 * 3\nname = 'adam'\nfast = False\n"
        "sizes = [8, 8]\nmore = {'a': 1}\nseed = None"
    ),
    tagged("rate = 0.1\nstray = 1", tag="injected-parameters"),
]


def test_parameters_have_the_default_that_holds_and_its_type() -> None:
    assert [(each.name, each.text, each.type) for each in parameters(CELLS)] == [
        ("rate", "0.1", "float"),
        ("steps", "10 * 3", ""),
        ("name", "adam", "str"),
        ("fast", "False", "bool"),
        ("sizes", "[8, 8]", "list"),
        ("more", "{'a': 1}", "dict"),
        ("seed", "None", ""),
    ]
    assert [each.name for each in parameters(CELLS[1:])] == ["rate", "stray"], "only injected ones are there"


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
        ({"fast": "True"}, {"fast": True}),
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


def test_a_value_that_its_parameter_cannot_have_is_refused_as_typed_and_as_given(tmp_path: Path) -> None:
    cells = [tagged("epochs: int = 3\nsteps = 7\nrate: float | None = None\nfast = False\nname = 'adam'")]
    for name, text, expected in (
        ("epochs", "2.5", "a whole number"),
        ("epochs", "3.0", "a whole number"),
        ("rate", "'high'", "a number"),
    ):
        values, problems = typed_parameters(cells, {name: text})
        said = f"{name} is {text.replace(chr(39), '“', 1).replace(chr(39), '”')}; expected {expected}."
        assert (values, problems) == ({}, {name: f"{said} {OTHER_TYPE}"})
        assert misfits(cells, {name: ast.literal_eval(text)}) == [said]
    fine = {"epochs": 4, "steps": 0.5, "rate": 1, "fast": True, "name": "sgd", "other": 2.5}
    assert misfits(cells, {"steps": "many"}) == ["steps is “many”; expected a number."]
    assert typed_parameters(cells, {"steps": "0.5"}) == ({"steps": 0.5}, {})
    assert misfits(cells, {**fine, "rate": None}) == misfits(cells, fine) == []


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


@pytest.mark.parametrize(
    ("source", "known", "shown"),
    [
        ("lr = 0.1\nlr *= 2\nepochs = 5\nepochs -= 1\nwidth = 8", {"width": 8}, ["lr", "epochs"]),
        ("lr = 0.1\nlr += 0", {}, ["lr"]),
        ("lr = 0.1\nif True:\n    lr = 0.5", {}, ["lr"]),
        ("if True:\n    lr = 0.5\nelse:\n    lr = 1", {}, ["lr"]),
        ("lr = 0.1\nlr = 0.2", {}, ["lr"]),
        ("i = 3\nfor i in range(5):\n    pass", {}, ["i"]),
        ("for i in range(5):\n    pass\ni = 3", {}, ["i"]),
        ("lr = 0.1\nlr, other = 1, 2", {"other": 2}, ["lr"]),
        ("lr = 0.1\ndel lr", {}, ["lr"]),
        ("lr = 0.1\nif (lr := 0.2):\n    pass", {}, ["lr"]),
        ("lr = 0.1\ntry:\n    pass\nfinally:\n    lr = 0.2", {}, ["lr"]),
        ("lr = 0.1\nmatch 3:\n    case lr:\n        pass", {}, ["lr"]),
        ("lr = 0.1\nfrom settings import lr", {}, ["lr"]),
        ("lr = 0.1\ndef halve():\n    global lr\n    lr /= 2\nhalve()", {}, ["lr"]),
        ("a, a = 1, 2", {}, ["a"]),
        ("sizes = [8]\nsizes.append(9)\nmore = {}\nmore['a'] = 1", {}, ["sizes", "more"]),
        ("x, y = 1, 2", {"x": 1, "y": 2}, []),
        ("[x, (y, z)] = 1, (2, 3)", {"x": 1, "y": 2, "z": 3}, []),
        ("x, *y = 1, 2, 3", {}, ["x", "y"]),
        ("a = b = 4", {"a": 4, "b": 4}, []),
        ("n: int = 3\nlayers = [i for i in (1, 2)]\ndef f(n):\n    n = 2\nsquare = lambda n: n", {"n": 3}, []),
        ("seed: int\nseed = 3", {"seed": 3}, []),
    ],
)
def test_a_parameter_that_is_set_again_has_no_known_default(
    tmp_path: Path, source: str, known: dict[str, Any], shown: list[str]
) -> None:
    cells = [new_code_cell(source, metadata={"tags": ["parameters"]})]
    nbformat.write(new_notebook(cells=cells), tmp_path / "study.ipynb")
    captured = capture_words(["study.ipynb"], Here(tmp_path, home=tmp_path.parent))
    assert {name: each.value for name, each in captured.arguments.items()} == known
    found = parameters([tagged(source)])
    assert [each.name for each in found if each.text == "computed"] == shown
    assert {each.name for each in found} >= {*known, *shown}


def test_a_parameter_that_is_set_again_is_an_argument_where_it_is_given(tmp_path: Path) -> None:
    cells = [new_code_cell("lr = 0.1\nlr *= 2\nx = 1", metadata={"tags": ["parameters"]})]
    nbformat.write(new_notebook(cells=cells), tmp_path / "study.ipynb")
    captured = capture_words(["study.ipynb", "-p", "lr", "0.4"], Here(tmp_path, home=tmp_path.parent))
    assert {name: each.value for name, each in captured.arguments.items()} == {"lr": 0.4, "x": 1}


def test_loop_variables_and_names_without_a_value_are_no_values() -> None:
    source = "for i in range(3):\n    pass\nimport os\nwith open('x') as file:\n    pass\nseed: int"
    assert [(each.name, each.text, each.type) for each in parameters([tagged(source)])] == [("seed", "", "int")]
    assert typed_parameters([tagged(source)], {"seed": "3"}) == ({"seed": 3}, {})


def notebook_of(tmp_path: Path, *tagged: str) -> Path:
    cells = [new_code_cell(text, metadata={"tags": ["parameters"]}) for text in tagged]
    path = tmp_path / "train.ipynb"
    nbformat.write(new_notebook(cells=[*cells, new_code_cell("print(lr)")]), path)
    return path


@pytest.mark.parametrize(
    ("tagged", "words"),
    [
        (("lr = 1", "lr = 2; q = 3"), "2 cells have the tag “parameters”"),
        (("lr = 1\nq = = 3",), "The cell with the tag “parameters” is no Python: invalid syntax in line 2"),
        (("%%bash\nlr=1",), "The cell with the tag “parameters” is no Python"),
    ],
)
def test_values_that_a_notebook_would_not_run_with_are_refused(
    tmp_path: Path, tagged: tuple[str, ...], words: str
) -> None:
    path = notebook_of(tmp_path, *tagged)
    with pytest.raises(CaptureError, match=re.escape(words)):
        capture_words([str(path), "-p", "lr", "5"], Here(tmp_path))
    assert capture_words([str(path)], Here(tmp_path)).kind == "notebook"
    assert words in typed_parameters(cells_of(path), {"lr": "5"})[1]["lr"]


@pytest.mark.parametrize(
    "text",
    ["%matplotlib inline\nlr = 1", "!pip list\nlr = 1", "%%time\nlr = 1", "files = !ls\nlr = 1", "lr = 1\nlr?"],
)
def test_lines_of_ipython_do_not_hide_the_parameters_beside_them(tmp_path: Path, text: str) -> None:
    path = notebook_of(tmp_path, text)
    assert {each.name: each.text for each in parameters(cells_of(path))}["lr"] == "1"
    with pytest.raises(CaptureError, match=r"“lrr” is no parameter of train.ipynb. Did you mean lr\?"):
        capture_words([str(path), "-p", "lrr", "5"], Here(tmp_path))
    assert capture_words([str(path), "-p", "lr", "5"], Here(tmp_path)).arguments["lr"].value == 5

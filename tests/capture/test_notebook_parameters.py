"""Values of a notebook's parameters, as the cell that is added has them."""

from __future__ import annotations

import ast
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from springtide.scheduler.capture import Here, capture_words
from springtide.scheduler.capture.notebook import with_parameters


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

"""A result that is no JSON value has a file beside it that pages can show."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import pytest
from jobs.payloads import payload_of

RUN = ("-m", "springtide.training.run")
FIGURE = "import matplotlib.figure\n    figure = matplotlib.figure.Figure()\n    axes = figure.subplots()\n    "


@pytest.fixture
def result_of(place):
    """Runs a function with this body; the names of its files that show a result, and the error output."""

    def run(body: str) -> tuple[set[str], str]:
        namespace: dict[str, Any] = {"__name__": "__main__"}
        exec(f"def f():\n    {body}", namespace)
        (place.root / "code").mkdir(exist_ok=True)
        payload = payload_of({"function": namespace["f"], "args": (), "kwargs": {}})
        (place.root / "code" / "payload.pkl").write_bytes(payload)
        code, _, err = place.run(*RUN, "function", str(place.root / "code" / "payload.pkl"), HOME=str(place.root))
        assert code == 0, err
        return {path.name for path in place.output.iterdir()} - {"result.pkl"}, err

    return run


def rows(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


@pytest.mark.parametrize("returned", ["figure", "axes", "axes.plot([1, 2])[0]"])
def test_a_figure_is_an_image(place, result_of, returned) -> None:
    assert result_of(f"{FIGURE}return {returned}") == ({"result.png"}, "")
    assert (place.output / "result.png").read_bytes().startswith(b"\x89PNG")


def test_a_table_is_a_table(place, result_of) -> None:
    body = (
        "import pandas\n    return pandas.DataFrame({'a': [1, 2], 'b': ['<script>', 'x,\"y']}, index=['p', 'q'])"
    )
    assert result_of(body) == ({"result.csv"}, "")
    assert rows(place.output / "result.csv") == [["", "a", "b"], ["p", "1", "<script>"], ["q", "2", 'x,"y']]


def test_of_a_large_table_the_beginning_is_shown(place, result_of) -> None:
    body = "import pandas\n    return pandas.DataFrame([['v' * 999] * 120] * 1500)"
    assert result_of(body) == ({"result.head.csv"}, "")
    shown = rows(place.output / "result.head.csv")
    assert (len(shown), len(shown[0]), len(shown[1][1])) == (1001, 101, 200)


def test_a_model_is_its_description(place, result_of) -> None:
    assert result_of("from sklearn.linear_model import Ridge\n    return Ridge(alpha=0.5)") == ({"result.txt"}, "")
    assert (place.output / "result.txt").read_text() == "Ridge(alpha=0.5)"


def test_html_of_a_result_is_never_written(place, result_of) -> None:
    body = (
        "class Hostile:\n        def _repr_html_(self): return '<script>alert(1)</script>'\n    return Hostile()"
    )
    assert result_of(body) == (set(), "")


@pytest.mark.parametrize("returned", ["{'loss': 0.5}", "None", "[1, 2]", "__import__('numpy').float32(0.5)"])
def test_plain_values_are_shown_by_their_json_alone(place, result_of, returned) -> None:
    assert result_of(f"return {returned}") == ({"result.json"}, "")
    json.loads((place.output / "result.json").read_text())


def test_an_object_that_cannot_be_shown_is_a_result_all_the_same(place, result_of) -> None:
    body = "class Shy:\n        def __repr__(self): raise OSError('no')\n    return Shy()"
    assert result_of(body) == (set(), "The result cannot be shown: OSError: no\n")
    assert (place.output / "result.pkl").exists()


def test_the_view_of_an_earlier_attempt_is_removed_and_a_file_of_the_functions_own_stays(place, result_of) -> None:
    (place.output / "result.txt").write_text("old")
    os.utime(place.output / "result.txt", (1, 1))
    body = f"{FIGURE}import os\n    path = os.environ['SPRINGTIDE_OUTPUT_DIR'] + '/result.png'\n"
    body += "    open(path, 'w').write('mine')\n    return figure"
    assert result_of(body)[0] == {"result.png"}
    assert (place.output / "result.png").read_text() == "mine"

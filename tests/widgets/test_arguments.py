"""Arguments of functions, cells, notebooks and sweeps, as they are sent with a job and changed in a run again."""

from __future__ import annotations

import dataclasses
import enum
import json
import pickle
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jobs.project_copies import run_copy
from nbformat.v4 import new_code_cell, new_notebook

from springtide.scheduler.arguments import changed
from springtide.scheduler.capture import Here
from springtide.widgets.submission.capture import capture, capture_cell
from springtide.widgets.submission.sweeps import Wanted, plan_items, plan_space


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


@dataclasses.dataclass
class Settings:
    rate: float = 0.1
    sizes: tuple[int, ...] = (1, 2)


class Speed(enum.Enum):
    FAST = 1


class Loud:
    def __repr__(self) -> str:
        raise AssertionError("no code of the user's objects runs")

    __str__ = __repr__


def values(arguments: Any) -> dict[str, object]:
    return {name: "hidden" if each.hidden else each.value for name, each in arguments.items()}


def train(lr: float, epochs: int = 3, *rest: int, name: str | None = None, **more: Any) -> str:
    return f"{lr} {epochs} {rest} {name} {more}"


def test_arguments_have_the_names_of_parameters_defaults_included(here: Here) -> None:
    captured = capture(train, (0.1,), {"name": "a", "momentum": 0.9, "api_key": "x"}, here)
    expected = {"lr": 0.1, "epochs": 3, "name": "a", "momentum": 0.9, "api_key": "hidden"}
    assert values(captured.arguments) == expected
    assert "'x'" not in captured.source
    assert values(capture(train, (0.1, 2, 7, 8), {}, here).arguments)["*rest"] == "(7, 8)"


def test_settings_inside_of_arguments_have_names_and_objects_only_a_type(here: Here) -> None:
    def run(config: Any, settings: Any, speed: Any, where: Any, loud: Any, several: Any, number: Any) -> None:
        pass

    given = ({"opt": {"lr": 0.1}, "n": 1}, Settings(), Speed.FAST, Path("data"), Loud, [Loud()], np.float64(0.5))
    assert values(capture(run, given, {}, here).arguments) == {
        "config.opt.lr": 0.1,
        "config.n": 1,
        "settings.rate": 0.1,
        "settings.sizes": "(1, 2)",
        "speed": "Speed.FAST",
        "where": "data",
        "loud": "Loud",
        "several": "<list>",
        "number": 0.5,
    }


def test_plain_variables_of_a_cell_are_its_arguments(here: Here) -> None:
    captured = capture_cell("print(lr, data, name)", {"lr": 0.1, "data": [1], "name": "a", "other": 2}, (), here)
    assert values(captured.arguments) == {"lr": 0.1, "name": "a"}


def test_parameters_of_a_notebook_are_its_arguments_with_their_defaults(here: Here) -> None:
    cell = new_code_cell("lr = 0.5\nepochs: int = 3\ntoken = None\nx = lr * 2", metadata={"tags": ["parameters"]})
    (here.cwd / "study.ipynb").write_text(json.dumps(new_notebook(cells=[cell])))
    assert values(capture("study.ipynb", (), {}, here).arguments) == {"lr": 0.5, "epochs": 3, "token": None}
    captured = capture("study.ipynb", (), {"lr": 0.1, "token": "abc"}, here)
    assert values(captured.arguments) == {"lr": 0.1, "epochs": 3, "token": "hidden"}
    assert "abc" not in captured.source


def test_a_sweep_has_the_arguments_that_its_trials_share(tmp_path: Path) -> None:
    wanted = Wanted(train, {"name": "a"}, tmp_path)
    assert values(plan_space(wanted, {"lr": [0.1, 0.2]}).payload.arguments) == {"epochs": 3, "name": "a"}
    assert values(plan_items(wanted, [1, 2]).payload.arguments) == {"epochs": 3, "name": "a"}


def result_with(captured: Any, folder: Path, **typed: str) -> Any:
    """Return the result of a run again with other arguments, in a process of its own."""
    words, _ = changed(captured.kind, captured.argv, captured.arguments, typed)
    folder.mkdir()
    done = run_copy(replace(captured, argv=tuple(words)), folder, SPRINGTIDE_OUTPUT_DIR=str(folder))
    assert done.returncode == 0, f"{shlex.join(words)}\n{done.stderr}"
    return pickle.loads((folder / "result.pkl").read_bytes())


@pytest.mark.process
def test_a_function_runs_again_with_other_arguments(here: Here, tmp_path: Path) -> None:
    def run(lr: float, /, sizes: list[int], *, name: str | None = None, **more: Any) -> Any:
        return lr, sizes, name, more

    captured = capture(run, (0.1,), {"sizes": [1], "decay": 0.5}, here)
    out = tmp_path.with_name(f"{tmp_path.name} a job")
    changes = {"lr": "0.25", "sizes": "[3, 4]", "name": "'it is'", "decay": "1"}
    assert result_with(captured, out, **changes) == (0.25, [3, 4], "it is", {"decay": 1})


@pytest.mark.process
def test_a_cell_runs_again_with_other_values_of_its_variables(here: Here, tmp_path: Path) -> None:
    captured = capture_cell("lr * 2", {"lr": 0.1}, (), here)
    assert result_with(captured, tmp_path.with_name(f"{tmp_path.name} a job"), lr="4") == 8


@pytest.mark.process
@pytest.mark.parametrize("given", [{}, {"lr": 0.2}])
def test_a_notebook_runs_again_with_other_parameters(here: Here, tmp_path: Path, given: dict[str, Any]) -> None:
    cells = [
        new_code_cell("lr = 0.1\nname = 'a'", metadata={"tags": ["parameters"]}),
        new_code_cell("print(lr, name)"),
    ]
    (here.cwd / "study.ipynb").write_text(json.dumps(new_notebook(cells=cells)))
    captured = capture("study.ipynb", (), given, here)
    words, arguments = changed(captured.kind, captured.argv, captured.arguments, {"lr": "0.5", "name": "it's"})
    assert values(arguments) == {"lr": 0.5, "name": "it's"}
    out = tmp_path.with_name(f"{tmp_path.name} a job")
    out.mkdir()
    done = run_copy(replace(captured, argv=tuple(words)), out, SPRINGTIDE_OUTPUT_DIR=str(out))
    assert done.stdout == "0.5 it's\n", done.stderr
    kept = json.loads((out / "study.ipynb").read_text())["cells"]
    assert [cell["metadata"].get("tags") for cell in kept] == [["parameters"], ["injected-parameters"], None]


def test_a_notebook_in_another_language_has_no_parameters(here: Here) -> None:
    cell = new_code_cell("lr = 0.1", metadata={"tags": ["parameters"]})
    info = {"kernelspec": {"name": "julia", "display_name": "Julia", "language": "julia"}}
    (here.cwd / "study.ipynb").write_text(json.dumps(new_notebook(cells=[cell], metadata=info)))
    assert capture("study.ipynb", (), {}, here).arguments == {}

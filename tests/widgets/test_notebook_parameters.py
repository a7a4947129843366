"""Notebooks are sent with parameters, as papermill has them, and with a kernel that is there."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from springtide.scheduler.capture import Captured, Here, capture_words, check_kernel
from springtide.scheduler.capture import CaptureError as UnfitError
from springtide.widgets.errors import CaptureError, OptionError
from springtide.widgets.submission.capture import capture
from springtide.widgets.submission.keywords import split_keywords

DEFAULTS = "lr = 0.5\nepochs: int = 3\nname = 'a'"


@pytest.fixture
def here(tmp_path: Path, monkeypatch) -> Here:
    monkeypatch.chdir(tmp_path)
    return Here(tmp_path)


def write(path: Path, *cells: Any, **metadata: Any) -> None:
    nbformat.write(new_notebook(cells=list(cells), metadata=metadata), path)


def tagged(source: str = DEFAULTS, tag: str = "parameters") -> Any:
    return new_code_cell(source, metadata={"tags": [tag]})


@pytest.fixture
def study(here) -> Path:
    path = here.cwd / "study.ipynb"
    write(path, new_markdown_cell("# Study"), tagged(), new_code_cell("print(lr)"))
    return path


def cells_of(captured: Captured) -> list[Any]:
    assert captured.project is not None
    notebook = nbformat.reads(captured.project.files["study.ipynb"].content.decode(), as_version=4)
    nbformat.validate(notebook)
    return list(notebook.cells)


def test_parameters_are_set_after_the_tagged_cell(here, study) -> None:
    values = {"lr": 0.1, "epochs": 5, "name": "it's", "on": None}
    captured = capture("study.ipynb", (), {key: values[key] for key in ("lr", "epochs", "name")}, here)
    cells = cells_of(captured)
    assert [cell.metadata.get("tags") for cell in cells] == [None, ["parameters"], ["injected-parameters"], None]
    assert cells[2].source == '# Parameters\nlr = 0.1\nepochs = 5\nname = "it\'s"'
    assert cells[2].source in captured.source
    assert captured.notes[-1] == 'Parameters: lr = 0.1, epochs = 5, name = "it\'s".'
    assert captured.name == "study"


def test_a_notebook_that_runs_in_place_or_is_a_link_has_its_parameters(here, study) -> None:
    captured = capture("study.ipynb", (), {"lr": 1}, replace(here, in_place=True))
    assert "lr = 1" in captured.files["study.ipynb"].decode()
    (here.cwd / "link.ipynb").symlink_to("study.ipynb")
    project = capture("link.ipynb", (), {"lr": 1}, here).project
    assert project is not None
    assert "lr = 1" in project.files["link.ipynb"].content.decode()
    assert "lr = 1" not in project.files["study.ipynb"].content.decode()
    assert project.links == {}
    assert "lr = 1" not in study.read_text()


def test_earlier_injected_parameters_are_replaced(here, study) -> None:
    write(study, tagged(), tagged("lr = 7", "injected-parameters"), new_code_cell("print(lr)"))
    assert [cell.source for cell in cells_of(capture("study.ipynb", (), {"lr": 1}, here))] == [
        DEFAULTS,
        "# Parameters\nlr = 1",
        "print(lr)",
    ]


def test_without_a_tagged_cell_parameters_are_set_at_the_top_which_the_note_says(here, study) -> None:
    write(study, new_code_cell("print(lr)"))
    captured = capture("study.ipynb", (), {"lr": 1}, here)
    assert [cell.source for cell in cells_of(captured)] == ["# Parameters\nlr = 1", "print(lr)"]
    assert "at the top of the notebook, since no cell has the tag “parameters”" in captured.notes[-1]


def test_parameters_and_arguments_that_lead_out_of_the_project_are_named(here, study) -> None:
    place = here.cwd / "inside"
    place.mkdir()
    study.rename(place / "study.ipynb")
    (here.cwd / "x.npz").touch()
    inside = Here(place, home=here.cwd)
    said = (
        "../x.npz lies outside of the project: the job, which runs in a copy of it, does not find it there. "
        f"Give the absolute path: {here.cwd}/x.npz."
    )
    for captured in (
        capture("study.ipynb", (), {"name": "../x.npz"}, inside),
        capture(lambda path: path, ("../x.npz",), {}, inside),
    ):
        assert [note for note in captured.notes if "outside" in note] == [said]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([1, (2.5, None)], "[1, [2.5, None]]"),
        ({"a": True, "b": [Path("/data")]}, "{'a': True, 'b': ['/data']}"),
        (float("inf"), "float('inf')"),
        (__import__("numpy").float64(0.25), "0.25"),
    ],
)
def test_values_are_plain_data(here, study, value, text) -> None:
    assert f"\nlr = {text}" in cells_of(capture("study.ipynb", (), {"lr": value}, here))[2].source


def test_a_value_that_is_no_plain_data_is_refused(here, study) -> None:
    with pytest.raises(CaptureError, match=r"Parameter `lr` is an object, .* save other values to a file"):
        capture("study.ipynb", (), {"lr": [object()]}, here)


@pytest.mark.parametrize("words", [["-p", "epochs", "2.5"], ["-p", "lr", "fast"]])
def test_a_value_that_its_parameter_cannot_have_is_refused_in_the_notebook_and_in_a_terminal(
    here, study, words
) -> None:
    name, text = words[1:]
    expected = {"epochs": r"epochs is 2\.5; expected a whole number\.", "lr": "lr is “fast”; expected a number"}[
        name
    ]
    with pytest.raises(CaptureError, match=f"{expected}.* change the default in the notebook"):
        capture("study.ipynb", (), {name: float(text) if text[0].isdigit() else text}, here)
    with pytest.raises(UnfitError, match=expected):
        capture_words(["study.ipynb", *words], here)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"s": 5}, "s is 5; expected a text."),
        ({"flag": 7}, "flag is 7; expected True or False."),
        ({"n": True}, "n is True; expected a number."),
        ({"rate": False}, "rate is False; expected a number."),
    ],
)
def test_a_parameter_has_a_value_of_the_type_of_its_default(here, value, message) -> None:
    write(here.cwd / "study.ipynb", tagged("s = 'a'\nflag = True\nn = 3\nrate = 0.5"))
    with pytest.raises(CaptureError, match=message):
        capture("study.ipynb", (), value, here)


def test_a_number_in_a_terminal_is_a_text_for_a_parameter_that_is_one(here) -> None:
    write(here.cwd / "study.ipynb", tagged("s = 'a'\nt: str | None = None\nn = 3"))
    words = ["study.ipynb", *("-p", "s", "5"), *("-p", "t", "True"), *("-p", "n", "7")]
    assert cells_of(capture_words(words, here))[1].source.splitlines()[1:] == ["s = '5'", "t = 'True'", "n = 7"]


def test_a_text_cannot_become_code(here, study) -> None:
    hostile = "'; import os; os.abort() #\n"
    source = cells_of(capture("study.ipynb", (), {"name": hostile}, here))[2].source
    variables: dict[str, Any] = {}
    exec(source, variables)
    assert variables["name"] == hostile


def test_unknown_parameters_are_refused_with_the_known_ones(here, study) -> None:
    with pytest.raises(
        UnfitError, match=r"“rate” is no parameter of study.ipynb. Its parameters are lr, epochs and"
    ):
        capture_words(["study.ipynb", "-p", "rate", "0.1"], here)
    with pytest.raises(OptionError, match=r"Unknown option `rate`.* The notebook has the parameters lr, epochs, "):
        split_keywords("study.ipynb", None, {"rate": 0.1})


def test_all_parameters_are_named_to_whoever_gives_an_unknown_one(here) -> None:
    known = [f"p{number}" for number in range(25)]
    write(here.cwd / "wide.ipynb", tagged("\n".join(f"{name} = 1" for name in known)))
    names = f"{', '.join(known[:-1])} and {known[-1]}\\."
    with pytest.raises(UnfitError, match=f"Its parameters are {names}"):
        capture_words(["wide.ipynb", "-p", "rate", "0.1"], here)
    with pytest.raises(OptionError, match=f"has the parameters {', '.join(known)}"):
        split_keywords("wide.ipynb", None, {"rate": 0.1})


def test_a_mistyped_parameter_is_refused_with_the_nearest_one(here, study) -> None:
    message = r"`lrr`, which is no parameter of the notebook either\. Did you mean `lr`\? The notebook has the par"
    with pytest.raises(OptionError, match=message):
        split_keywords("study.ipynb", None, {"lrr": 0.1})
    with pytest.raises(UnfitError, match=r"no parameter of study.ipynb\. Did you mean epochs\? Its par"):
        capture_words(["study.ipynb", "-p", "epoch", "3"], here)


def test_keywords_are_options_or_parameters(here, study) -> None:
    assert split_keywords("study.ipynb", None, {"lr": 0.1, "gpus": 2}) == ({"gpus": 2}, {"lr": 0.1})
    assert split_keywords(study, {"name": "b"}, {"name": "job"}) == ({"name": "job"}, {"name": "b"})
    with pytest.raises(
        OptionError, match=r"`name` is an option of submit and a parameter of the notebook too\. Pass"
    ):
        split_keywords("study.ipynb", None, {"name": "b"})


def test_a_mistyped_option_is_no_parameter_of_a_notebook_without_a_tagged_cell(here, study) -> None:
    write(study, new_code_cell("print(lr)"))
    assert split_keywords("study.ipynb", None, {"lr": 1}) == ({}, {"lr": 1})
    with pytest.raises(OptionError, match=r"Unknown option `gpu`\. Did you mean `gpus`\?"):
        split_keywords("study.ipynb", None, {"gpu": 4})


def test_arguments_without_names_are_refused(here, study) -> None:
    with pytest.raises(CaptureError, match=r"by name: pool\.submit\('study\.ipynb', lr=0\.1\)"):
        capture("study.ipynb", (0.1,), {}, here)


def test_words_have_parameters_as_papermill_reads_them(here, study) -> None:
    words = ["study.ipynb", "-p", "lr", "1e-3", "--parameters", "epochs", "7", "-p", "name", "None"]
    assert cells_of(capture_words(words, here))[2].source == "# Parameters\nlr = 0.001\nepochs = 7\nname = None"
    with pytest.raises(UnfitError, match=r"each as -p NAME VALUE, and “-p lr” is none of these"):
        capture_words(["study.ipynb", "-p", "lr"], here)


def test_a_notebook_with_a_space_in_its_name_is_that_notebook(here, study) -> None:
    study.rename(here.cwd / "my study.ipynb")
    captured = capture("my study.ipynb", (), {}, here)
    assert (captured.kind, captured.name) == ("notebook", "my study")


def test_parameters_are_for_python_only(here, study) -> None:
    write(study, tagged("lr <- 1"), kernelspec={"name": "ir", "display_name": "R", "language": "R"})
    with pytest.raises(CaptureError, match=r"a notebook in “r”\. Parameters are for notebooks in Python"):
        capture("study.ipynb", (), {"lr": 1}, here)


def test_a_kernel_that_is_not_there_is_refused_with_those_that_are(here, study) -> None:
    write(study, kernelspec={"name": "py-of-joe", "display_name": "Joe", "language": "python"})
    captured = capture("study.ipynb", (), {}, here)
    with pytest.raises(UnfitError) as refused:
        check_kernel(captured, None)
    text = str(refused.value)
    assert text.startswith(
        f"study.ipynb needs the kernel “py-of-joe”, which {sys.executable} does not have. Its k"
    )
    assert "python3" in text
    assert f"“{sys.executable} -m ipykernel install --user --name py-of-joe”" in text
    check_kernel(captured, "an image")


def test_a_notebook_that_names_no_kernel_or_one_that_is_there_is_taken(here, study, monkeypatch) -> None:
    check_kernel(capture("study.ipynb", (), {}, here), None)
    spec = here.cwd / "kernels" / "other"
    spec.mkdir(parents=True)
    (spec / "kernel.json").write_text(
        json.dumps({"argv": ["other"], "display_name": "Other", "language": "other"})
    )
    monkeypatch.setenv("JUPYTER_PATH", str(here.cwd))
    write(study, kernelspec={"name": "other", "display_name": "Other", "language": "other"})
    check_kernel(capture("study.ipynb", (), {}, here), None)


def test_a_python_that_cannot_run_notebooks_is_refused(here, study) -> None:
    python = here.cwd / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    python.chmod(0o755)
    captured = capture("study.ipynb", (), {}, Here(here.cwd, str(python)))
    with pytest.raises(
        UnfitError, match=r"it lacks nbclient or ipykernel\. Install them: .* -m pip install nbclient"
    ):
        check_kernel(captured, None)

"""What a job could not load is refused when it is submitted, by its name."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from springtide.scheduler.capture import Captured, Here
from springtide.widgets.errors import CaptureError
from springtide.widgets.submission import loading
from springtide.widgets.submission.capture import capture, capture_cell

CLASSES = """
class Marker:
    def __reduce__(self): return "marker"

class Connection:
    def __init__(self, port): self.port = port
    def __reduce__(self): return Connection, ()

class Failed(Exception):
    def __init__(self, step, why):
        super().__init__(f"{step}: {why}")

class Plain:
    def __init__(self, value): self.value = value

class Careful:
    def __init__(self, value): self.value = value
    def __setstate__(self, state): self.__dict__.update(state)
"""


class Notebook:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.variables: dict[str, Any] = {"__name__": "__main__"}
        exec(CLASSES, self.variables)

    def submit(self, text: str, *args: Any) -> Captured:
        exec(text, self.variables)
        return capture(self.variables["work"], args, {}, Here(self.root))

    def made(self, text: str) -> Any:
        return eval(text, self.variables)


@pytest.fixture
def notebook(tmp_path: Path) -> Notebook:
    return Notebook(tmp_path)


@pytest.fixture
def processes(monkeypatch) -> list[list[str]]:
    """The processes that try to load something."""
    started: list[list[str]] = []
    run = subprocess.run

    def counted(command: list[str], **options: Any) -> Any:
        started.append(command)
        return run(command, **options)

    monkeypatch.setattr(loading.subprocess, "run", counted)
    return started


def test_a_name_that_only_the_notebook_knows_is_refused(notebook, monkeypatch) -> None:
    marker = notebook.made("Marker()")
    monkeypatch.setattr(sys.modules["__main__"], "marker", marker, raising=False)
    notebook.variables["marker"] = marker
    with pytest.raises(
        CaptureError, match=r"work uses `marker`, a Marker, .* only in this notebook\. Make it inside"
    ):
        notebook.submit("def work(): return marker")


@pytest.mark.parametrize(
    ("text", "argument", "message"),
    [
        (
            "def work(x): pass",
            "Connection(5)",
            r"work's argument 1 is a __main__\.Connection and cannot be loaded",
        ),
        (
            "def work(x): pass",
            "Failed(3, 'no data')",
            r"argument 1 is a __main__\.Failed .* loaded .*TypeError.*why",
        ),
        (
            "def work(x): pass",
            "[1, {'a': Plain(Connection(5))}]",
            r"argument 1 → \[1\] → \['a'\] → attribute `value`",
        ),
        ("def work(x): connection", "0", r"work → global `connection` is a __main__\.Connection"),
    ],
)
def test_an_object_that_cannot_be_loaded_is_refused_by_name(notebook, text, argument, message) -> None:
    notebook.variables["connection"] = notebook.made("Connection(1)")
    with pytest.raises(CaptureError, match=message):
        notebook.submit(text, notebook.made(argument))


def test_a_variable_of_a_cell_that_cannot_be_loaded_is_refused_by_name(notebook) -> None:
    notebook.variables["connection"] = notebook.made("Connection(1)")
    with pytest.raises(CaptureError, match=r"the cell's variable `connection` is a .* cannot be loaded in a job"):
        capture_cell("connection.port", notebook.variables, (), Here(notebook.root))


@pytest.mark.parametrize("argument", ["3", "Plain(3)", "[Plain(1)] * 3", "{'a': (1, 2.0)}"])
def test_what_needs_no_trial_starts_no_process(notebook, processes, argument) -> None:
    notebook.submit("def work(x): pass", notebook.made(argument))
    assert processes == []


def test_a_class_with_a_loading_of_its_own_is_tried_once(notebook, processes) -> None:
    assert notebook.submit("def work(x): pass", notebook.made("Careful(3)")).notes == ()
    assert len(processes) == 1


def test_only_the_loading_is_tried_and_not_the_call(notebook) -> None:
    notebook.submit("def work(x): open('called', 'w')", notebook.made("Careful(3)"))
    assert not (notebook.root / "called").exists()


def test_a_trial_that_takes_too_long_is_a_note(notebook, monkeypatch) -> None:
    monkeypatch.setattr(loading, "LOAD_S", 0.0)
    notes = notebook.submit("def work(x): pass", notebook.made("Careful(3)")).notes
    assert notes == ("Not tried here is whether a job can load work: that takes more than 0 s.",)


def test_a_large_payload_is_not_tried(notebook, processes, monkeypatch) -> None:
    monkeypatch.setattr(loading, "MAX_BYTES", 1000)
    notes = notebook.submit("def work(*x): pass", notebook.made("Careful(3)"), bytes(2048)).notes
    assert processes == []
    assert [note.partition(": ")[0] for note in notes] == ["Not tried here is whether a job can load work"]


def test_a_module_that_only_this_notebook_finds_is_noted(notebook, tmp_path_factory, monkeypatch) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "module_elsewhere.py").write_text("class Net: pass")
    monkeypatch.syspath_prepend(elsewhere)
    module = importlib.import_module("module_elsewhere")
    try:
        (note,) = notebook.submit("def work(net): pass", module.Net()).notes
    finally:
        del sys.modules["module_elsewhere"]
    assert f"work needs the module module_elsewhere, which this notebook has from {elsewhere} and a new" in note

from __future__ import annotations

import json
import pickle
import signal
import time
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jobs.payloads import payload_of
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from patience import PATIENCE_S

from springtide.scheduler.executors.supervisor.error_line import error_line
from springtide.training import AGAIN

RUN = ("-m", "springtide.training.run")
HANDLED_S = 0.5
"""Time for the main thread to take a signal in while another runs the notebook: a later pause is a cell later."""


@pytest.fixture
def call(place):
    """Runs a function as a job; like ``place.run``."""

    def run(function: Any, *args: Any, rank: int = 0, world: int = 1, attempt: int = 1, **kwargs: Any):
        code = place.root / "code"
        code.mkdir(exist_ok=True)
        payload = {"function": function, "args": args, "kwargs": kwargs}
        (code / "payload.pkl").write_bytes(payload_of(payload))
        return place.run(*RUN, "function", str(code / "payload.pkl"), rank=rank, world=world, attempt=attempt)

    return run


def by_value(text: str) -> Any:
    """A function as a notebook has it: of no module that could be imported."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(text, namespace)
    return next(value for name, value in namespace.items() if callable(value) and name != "__builtins__")


def test_the_result_of_a_function_is_kept(place, call) -> None:
    code, out, err = call(by_value("def f(a, b):\n    print('working')\n    return {'sum': a + b}"), 2, b=3)
    assert (code, out, err) == (0, "working\n", "")
    assert pickle.loads((place.output / "result.pkl").read_bytes()) == {"sum": 5}
    assert json.loads((place.output / "result.json").read_text()) == {"sum": 5}
    assert sorted(path.name for path in place.output.iterdir()) == ["result.json", "result.pkl"]


@pytest.mark.parametrize(
    ("returns", "kept"),
    [
        ("__import__('numpy').float32(0.5)", "0.5"),
        ("[1, {'a': None}]", '[1, {"a": null}]'),
        ("{1, 2}", None),
        ("float('nan')", None),
        ("__import__('numpy').zeros(3)", None),
        ("bytes(2 << 20).decode()", None),
    ],
)
def test_a_result_that_is_a_json_value_is_kept_for_other_programs_too(place, call, returns, kept) -> None:
    assert call(by_value(f"def f(): return {returns}"))[0] == 0
    file = place.output / "result.json"
    assert (file.read_text() if file.exists() else None) == kept
    assert (place.output / "result.pkl").exists()


def test_a_result_with_numbers_that_are_not_finite_is_shown_as_text(place, call) -> None:
    assert call(by_value("def f(): return {'loss': float('nan'), 'acc': [float('inf')]}"))[0] == 0
    assert (place.output / "result.txt").read_text() == "{'loss': nan, 'acc': [inf]}"
    assert call(by_value("def f(): return {'loss': 1.5}"), attempt=2)[0] == 0
    assert json.loads((place.output / "result.json").read_text()) == {"loss": 1.5}


def test_a_file_of_the_functions_own_is_not_replaced_by_its_result(place, call) -> None:
    text = "def f():\n    from springtide.training import current_job\n"
    text += "    (current_job().output_directory / 'result.json').write_text('mine')\n    return 1"
    assert call(by_value(text))[0] == 0
    assert (place.output / "result.json").read_text() == "mine"


def test_an_exception_is_kept_in_words(place, call) -> None:
    code, _, err = call(by_value("def train():\n    raise ValueError('no data at /x')"))
    assert code == 1
    error = json.loads((place.output / "error.json").read_text())
    assert (error["type"], error["message"], error["attempt"]) == ("ValueError", "no data at /x", 1)
    assert "in train" in error["traceback"]
    assert "run_function" not in error["traceback"]
    assert error["traceback"].strip() == err.strip()
    assert not (place.output / "result.pkl").exists()


def test_a_later_success_takes_the_error_back(place, call) -> None:
    call(by_value("def f(): raise ValueError"))
    assert call(by_value("def f(): return 1"), attempt=2)[0] == 0
    assert sorted(path.name for path in place.output.iterdir()) == ["result.json", "result.pkl"]


def test_a_result_that_only_cloudpickle_can_take_is_kept(place, call) -> None:
    assert call(by_value("def f(): return lambda: 42"))[0] == 0
    assert pickle.loads((place.output / "result.pkl").read_bytes())() == 42


def test_a_function_pauses_through_the_training_library(place, call) -> None:
    text = """
def f():
    from springtide.training import current_job
    job = current_job()
    found = job.restore()
    if found is None:
        job.save("progress", step=1)
        job.exit_for_pause()
    return found.state
"""
    assert call(by_value(text))[0] == AGAIN
    assert list(place.output.iterdir()) == []
    assert call(by_value(text), attempt=2)[0] == 0
    assert pickle.loads((place.output / "result.pkl").read_bytes()) == "progress"


def test_a_function_finds_the_modules_that_came_with_it(place, call) -> None:
    code = place.root / "code"
    code.mkdir()
    (code / "helper.py").write_text("WORD = 'hello'")
    assert call(by_value("def f():\n    import helper\n    return helper.WORD"))[0] == 0
    assert pickle.loads((place.output / "result.pkl").read_bytes()) == "hello"


def test_of_a_gang_the_first_ones_result_and_the_first_error_count(place, call) -> None:
    assert call(by_value("def f(): return 'other'"), rank=1, world=2)[0] == 0
    assert not (place.output / "result.pkl").exists()
    assert call(by_value("def f(): raise KeyError('root cause')"), rank=1, world=2)[0] == 1
    assert call(by_value("def f(): raise RuntimeError('peer left')"), rank=0, world=2)[0] == 1
    assert json.loads((place.output / "error.json").read_text())["type"] == "KeyError"


def test_a_payload_that_is_none_is_an_error_in_words(place) -> None:
    (place.root / "broken.pkl").write_bytes(b"nonsense")
    code, _, err = place.run(*RUN, "function", "broken.pkl")
    assert code == 1
    assert "UnpicklingError" in err


@pytest.mark.parametrize("words", [(), ("function",), ("dance", "x"), ("function", "a", "b")])
def test_a_command_that_is_none_is_told_how(place, words: tuple[str, ...]) -> None:
    code, _, err = place.run(*RUN, *words)
    assert code == 2
    assert err.startswith("usage:")


# ---------- notebooks


def write(path: Path, *cells: str, kernel: str = "python3") -> Path:
    notebook = new_notebook(
        cells=[new_markdown_cell("# Title"), *map(new_code_cell, cells)],
        metadata={"kernelspec": {"name": kernel, "display_name": kernel, "language": "python"}},
    )
    path.parent.mkdir(exist_ok=True)
    nbformat.write(notebook, path)
    return path


def outputs(path: Path) -> list[str]:
    """What each code cell printed; an error by its name."""
    notebook = nbformat.read(path, as_version=4)
    return [
        "".join(each.get("text") or each.get("ename") or each["data"]["text/plain"] for each in cell.outputs)
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def test_a_notebook_is_run_and_kept_with_its_outputs(place) -> None:
    source = write(place.root / "code" / "train.ipynb", "import helper\nprint(helper.WORD)", "6 * 7")
    (place.root / "code" / "helper.py").write_text("WORD = 'beside'")
    before = source.read_bytes()
    code, out, err = place.run(*RUN, "notebook", str(source))
    assert (code, out) == (0, "beside\n42\n"), err
    assert "WARNING" not in err  # the kernel's own, of what the person cannot change
    assert outputs(place.output / "train.ipynb") == ["beside\n", "42"]
    assert source.read_bytes() == before
    *progress, last = place.reports()
    assert [(line["step"], line["of"]) for line in progress] == [(1, 3), (2, 3), (3, 3)]
    assert last["milestone"] == "returned"


def test_a_notebook_that_fails_is_kept_up_to_there(place) -> None:
    source = write(place.root / "train.ipynb", "print('one')", "1 / 0", "print('three')")
    code, _, err = place.run(*RUN, "notebook", str(source))
    assert code == 1
    assert "ZeroDivisionError" in err
    assert outputs(place.output / "train.ipynb") == ["one\n", "ZeroDivisionError", ""]
    error = json.loads((place.output / "error.json").read_text())
    assert (error["type"], error["message"]) == ("ZeroDivisionError", "division by zero")
    assert "\x1b" not in error["traceback"]


def test_a_notebook_is_paused_between_two_cells(place) -> None:
    text = "import pathlib, time\npathlib.Path('begun').touch()\n"
    text += "while not pathlib.Path('go').exists(): time.sleep(0.01)"
    source = write(place.root / "train.ipynb", text, "print('second')")
    process = place.start(*RUN, "notebook", str(source))
    place.until((place.root / "begun").exists, "the first cell")
    process.send_signal(signal.SIGTERM)
    time.sleep(HANDLED_S)
    (place.root / "go").touch()
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (AGAIN, ""), err


def test_a_cell_that_checkpoints_and_exits_pauses_the_notebook(place) -> None:
    text = """
from springtide.training import current_job
job = current_job()
found = job.restore()
if found is None:
    job.report(step=1, of=10, loss=0.5)
    job.save("progress", step=1)
    job.exit_for_pause()
print(found.state)
"""
    source = write(place.root / "train.ipynb", "pass", text, "print('last')")
    assert place.run(*RUN, "notebook", str(source))[0] == AGAIN
    code, out, _ = place.run(*RUN, "notebook", str(source), attempt=2)
    assert (code, out) == (0, "progress\nlast\n")
    first = [(line["step"], line["of"]) for line in place.reports() if line["attempt"] == 1 and not line["saved"]]
    assert first == [(1, 4), (2, 4), (1, 10)]


@pytest.mark.parametrize("kind", ["kernel", "no notebook"])
def test_a_notebook_that_cannot_run_is_told_in_words(place, kind: str) -> None:
    source = write(place.root / "train.ipynb", "pass", kernel="fortran-77")
    if kind == "no notebook":
        source.write_text("nothing of the kind")
    code, _, err = place.run(*RUN, "notebook", str(source))
    assert code == 1
    assert ("fortran-77" if kind == "kernel" else "train.ipynb is not a notebook") in err


def test_a_kernel_that_dies_is_told_in_words(place) -> None:
    source = write(place.root / "train.ipynb", "import os", "os._exit(0)")
    code, _, err = place.run(*RUN, "notebook", str(source))
    assert code == 1
    message = "The kernel ended unexpectedly in cell In [2], perhaps for want of memory."
    assert error_line(err, code) == f"DeadKernelError: {message}"


def test_a_cell_that_exits_with_0_fails_if_others_did_not_run(place) -> None:
    source = write(place.root / "train.ipynb", "print('one')", "import sys\nsys.exit(0)", "", "print('three')")
    code, out, err = place.run(*RUN, "notebook", str(source))
    assert (code, out) == (1, "one\n")
    message = "The notebook ended with sys.exit(0) in cell In [2], and 1 cell after it did not run."
    assert error_line(err, code) == f"NotebookError: {message}"
    error = json.loads((place.output / "error.json").read_text())
    assert (error["type"], error["message"]) == ("NotebookError", message)


@pytest.mark.parametrize(
    "cells",
    [
        ("import sys", "sys.exit()", " "),
        ("from springtide.training import current_job", "current_job().done()\nraise SystemExit(0)", "print(3)"),
    ],
)
def test_a_cell_that_exits_with_0_at_the_end_of_the_work_fails_nothing(place, cells: tuple[str, ...]) -> None:
    source = write(place.root / "train.ipynb", *cells)
    code, out, err = place.run(*RUN, "notebook", str(source))
    assert (code, out) == (0, ""), err
    assert not (place.output / "error.json").exists()


ASKED = "import os, signal, time\ndef f():\n    "
TOUCH = "open(os.environ['SPRINGTIDE_PAUSE_FILE'], 'w').close()\n    os.kill(os.getpid(), signal.SIGTERM)\n    "
CURRENT = "from springtide.training import current_job; job = current_job()\n    "
OWN = "signal.signal(signal.SIGTERM, lambda *_: None)\n    "
RETURNS = {
    "was never asked": ("return 1", ["called", "returned"]),
    "did not look": (CURRENT + TOUCH + "return 1", ["called", "returned"]),
    "ignores the signal": (
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    " + TOUCH + "return 1",
        ["called", "returned"],
    ),
    "learnt of it": (CURRENT + TOUCH + "return job.should_pause()", ["called", "pause-seen", "returned"]),
    "handles the signal itself": (OWN + TOUCH + "return 1", ["called", "pause-seen", "returned"]),
    "handled the signal itself": (
        OWN + TOUCH + "signal.signal(signal.SIGTERM, signal.SIG_DFL)",
        ["called", "pause-seen", "returned"],
    ),
    "exits itself": (CURRENT + TOUCH + "raise SystemExit(0)", ["called"]),
}


@pytest.mark.parametrize("way", RETURNS)
def test_a_function_that_returned_says_so_unless_it_may_have_been_told_to_stop(place, call, way) -> None:
    text, said = RETURNS[way]
    code, _, err = call(by_value(ASKED + text))
    assert (code, err) == (0, "")
    assert [each["milestone"] for each in place.reports() if "milestone" in each] == said


def test_threads_that_outlive_the_function_are_named_in_the_log(place, call) -> None:
    starts = (
        "def f():\n    import threading, time\n"
        "    threading.Thread(target=time.sleep, args=(0.3,), name='upload').start()\n    return 3"
    )
    code, _, err = call(by_value(starts))
    assert (code, pickle.loads((place.output / "result.pkl").read_bytes())) == (0, 3)
    assert err == "springtide: The function has returned. The job ends when its thread upload does.\n"


def test_a_result_that_cannot_be_pickled_fails_no_training_and_its_text_is_kept(place, call) -> None:
    code, _, err = call(by_value("def f(): return (i for i in [1])"))
    assert code == 0
    assert "cannot be pickled" in err
    problem = json.loads((place.output / "result.problem.json").read_text())
    assert problem["type"] == "TypeError"
    assert problem["repr"].startswith("<generator object")
    assert not (place.output / "result.pkl").exists()
    assert not (place.output / "error.json").exists()
    (told,) = (each["lost_result"] for each in place.reports() if "lost_result" in each)
    assert told.startswith("TypeError: ")


def test_a_large_whole_number_and_a_part_of_a_character_are_json(place, call) -> None:
    code, _, err = call(by_value("def f(): return [10**6000, '\\ud800']"))
    assert (code, err) == (0, "")
    assert (place.output / "result.json").read_text() == f'[1{"0" * 6000}, "\\ud800"]'


NO_RESULT = "(i for i in [])"


@pytest.mark.parametrize(("first", "second"), [("1", "2"), ("1", NO_RESULT), (NO_RESULT, "2")])
def test_nothing_that_an_earlier_attempt_returned_stays_beside_the_result(place, call, first, second) -> None:
    text = "def f():\n    import os\n    return ({}) if os.environ['SPRINGTIDE_ATTEMPT'] == '1' else ({})"
    function = by_value(text.format(first, second))
    assert call(function)[0] == 0
    assert call(function, attempt=2)[0] == 0
    kept = {path.name for path in place.output.iterdir()}
    if second == "2":
        assert kept == {"result.pkl", "result.json"}
        assert pickle.loads((place.output / "result.pkl").read_bytes()) == 2
        assert json.loads((place.output / "result.json").read_text()) == 2
    else:
        assert kept == {"result.problem.json"}


def test_a_file_that_the_function_wrote_itself_stays_in_a_later_attempt(place, call) -> None:
    text = """
def f():
    from springtide.training import current_job
    (current_job().output_directory / "result.json").write_text("mine")
    return 1
"""
    for attempt in (1, 2):
        assert call(by_value(text), attempt=attempt)[0] == 0
        assert (place.output / "result.json").read_text() == "mine"


def test_a_result_is_saved_although_a_signal_comes_after_the_function(place, call) -> None:
    text = """
def f():
    import os, signal
    class Slow:
        def __reduce__(self):
            os.kill(os.getpid(), signal.SIGTERM)
            return (int, ())
    return Slow()
"""
    assert call(by_value(text))[0] == 0
    assert pickle.loads((place.output / "result.pkl").read_bytes()) == 0
    assert [each["milestone"] for each in place.reports() if "milestone" in each] == ["called", "returned"]

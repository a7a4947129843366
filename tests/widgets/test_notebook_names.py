"""What a notebook defines has its names inside the job, and in the processes that the job starts."""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from patience import PATIENCE_S

from springtide.scheduler.capture import Captured, Here
from springtide.widgets.submission.capture import capture, capture_cell

DEFINITIONS = """
import dataclasses, enum, functools, pickle, typing

class Colour(enum.Enum):
    RED = 1

@dataclasses.dataclass(frozen=True, slots=True)
class State:
    step: int
    colour: Colour = Colour.RED

class Point(typing.NamedTuple):
    x: int
    y: int

class Net:
    class Layer:
        def __init__(self, size): self.size = size
    def __init__(self, size): self.layer = self.Layer(size)
    def __eq__(self, other): return type(other) is type(self) and other.layer.size == self.layer.size

T = typing.TypeVar("T")
UserId = typing.NewType("UserId", int)

class Stack(typing.Generic[T]):
    def __init__(self): self.items: list[T] = []

def counted(function):
    @functools.wraps(function)
    def inner(*args): return function(*args)
    return inner

@counted
def double(x: UserId) -> int: return 2 * x

@functools.lru_cache(maxsize=7)
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)

def square(x): return x * x

scale = 3
def scaled(x): return scale * square(x)
"""


class Notebook:
    """A notebook with these definitions, whose jobs run in processes of their own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.code = root / "code"
        self.variables: dict[str, Any] = {"__name__": "__main__"}
        self.define(DEFINITIONS)

    def define(self, text: str) -> None:
        exec(text, self.variables)

    def submit(self, text: str, *args: Any) -> Captured:
        """Send the function ``work`` of the text."""
        self.define(text)
        return self.sent(capture(self.variables["work"], args, {}, Here(self.root)))

    def submit_cell(self, text: str) -> Captured:
        return self.sent(capture_cell(text, self.variables, (), Here(self.root)))

    def sent(self, captured: Captured) -> Captured:
        self.code.mkdir(exist_ok=True)
        for name, content in captured.files.items():
            (self.code / name).write_bytes(content)
        return captured

    def run(self, captured: Captured, attempt: int = 1) -> subprocess.CompletedProcess[str]:
        argv = [word.replace("{code}", str(self.code)) for word in captured.argv]
        places = {"OUTPUT_DIR": self.root / "output", "CHECKPOINT_DIR": self.root / "checkpoints"}
        env = {f"SPRINGTIDE_{name}": str(place) for name, place in places.items()}
        env |= {"SPRINGTIDE_ATTEMPT": str(attempt), "SPRINGTIDE_JOB_ID": "job", "SPRINGTIDE_JOB_NAME": "job"}
        return subprocess.run(
            argv,
            cwd=self.root,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def result(self, captured: Captured, attempt: int = 1) -> Any:
        """Run the job and return its result, read in this notebook."""
        done = self.run(captured, attempt)
        assert done.returncode == 0, done.stderr
        return self.read()

    def read(self) -> Any:
        """Return the result as a program reads it that has this notebook's names."""
        main = ModuleType("__main__")
        main.__dict__.update(self.variables)
        kept, sys.modules["__main__"] = sys.modules["__main__"], main
        try:
            return pickle.loads((self.root / "output" / "result.pkl").read_bytes())
        finally:
            sys.modules["__main__"] = kept


@pytest.fixture
def notebook(tmp_path: Path) -> Notebook:
    (tmp_path / "output").mkdir()
    return Notebook(tmp_path)


@pytest.mark.parametrize(
    ("uses", "value"),
    [
        ("Net", "Net"),
        ("Net", "Net(3)"),
        ("Net", "Net.Layer"),
        ("State", "State(4)"),
        ("Colour", "Colour.RED"),
        ("Point", "Point(1, 2)"),
        ("Stack", "Stack[int]()"),
        ("T, Stack", "T"),
        ("square", "square"),
        ("double", "double"),
        ("fib", "fib"),
        ("scaled", "scaled"),
    ],
)
def test_a_job_pickles_what_its_notebook_defines(notebook, uses, value) -> None:
    job = notebook.submit(
        f"def work():\n    {uses}\n    data = pickle.dumps({value})\n    return b'__main__' in data"
    )
    assert notebook.result(job) is True


def test_an_object_that_is_only_an_argument_is_pickled_in_the_job(notebook) -> None:
    text = "def work(given): return pickle.loads(pickle.dumps(given)) == given"
    notebook.define(text)
    assert notebook.result(notebook.submit(text, notebook.variables["Net"](5))) is True


def test_an_argument_and_a_variable_that_are_one_object_stay_one(notebook) -> None:
    notebook.define("net = Net(1)")
    job = notebook.submit("def work(given): return given is net and type(given) is Net", notebook.variables["net"])
    assert notebook.result(job) is True


def test_functions_share_the_variables_of_the_notebook(notebook) -> None:
    notebook.define("count = 0\ndef up():\n    global count\n    count += 1\ndef seen(): return count")
    job = notebook.submit(
        "def work():\n    import __main__\n    up(); up()\n    return seen(), count, __main__.count"
    )
    assert notebook.result(job) == (2, 2, 2)


def test_a_cached_function_keeps_its_settings_and_is_its_own_recursion(notebook) -> None:
    job = notebook.submit("def work(): return fib(30), fib.cache_info().hits, fib.cache_parameters()['maxsize']")
    assert notebook.result(job) == (832040, 28, 7)


WITH_POOL = """
def work(method):
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        squares = pool.map(scaled, range(3))
        nets = pool.map(Net, [1, 2])
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        sizes = list(pool.map(fib, [5, 6]))
    return squares, nets == [Net(1), Net(2)], sizes
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_of_a_job_have_its_names(notebook, method) -> None:
    assert notebook.result(notebook.submit(WITH_POOL, method)) == ([0, 3, 12], True, [5, 8])


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_of_a_cell_have_its_names(notebook, method) -> None:
    cell = f"""
import multiprocessing
OFFSET = 10
def shifted(x): return square(x) + OFFSET
class Pair:
    def __init__(self, x): self.x = x
print("working")
with multiprocessing.get_context({method!r}).Pool(2) as pool:
    pairs = pool.map(Pair, [1, 2])
    kept = pool.map(shifted, [1, 2]), [pair.x for pair in pairs], isinstance(pairs[0], Pair)
kept
"""
    job = notebook.submit_cell(cell)
    done = notebook.run(job)
    assert (done.returncode, done.stdout) == (0, "working\n"), done.stderr
    assert notebook.read() == ([11, 14], [1, 2], True)


def test_started_processes_load_no_arguments_that_they_do_not_need(notebook) -> None:
    notebook.define("class Heavy:\n    def __setstate__(self, state): print('loaded', flush=True)\n    x = 1")
    text = "def work(heavy):\n    import multiprocessing\n"
    text += "    with multiprocessing.get_context('spawn').Pool(1) as pool: return pool.map(square, [3])"
    heavy = notebook.variables["Heavy"]()
    heavy.y = 1
    done = notebook.run(notebook.submit(text, heavy))
    assert (done.returncode, done.stdout) == (0, "loaded\n"), done.stderr


def test_a_checkpoint_of_a_class_of_the_notebook_is_restored_by_the_next_attempt(notebook) -> None:
    text = """
def work():
    from springtide.training import current_job
    job = current_job()
    found = job.restore()
    if found is None:
        job.save(State(7), step=7)
        return None
    return isinstance(found.state, State), found.state
"""
    job = notebook.submit(text)
    assert notebook.result(job) is None
    assert notebook.result(job, attempt=2) == (True, notebook.variables["State"](7))


def test_a_result_is_an_object_of_the_notebooks_own_class(notebook) -> None:
    result = notebook.result(notebook.submit("def work(): return [Net(3), square, Colour.RED, Net.Layer]"))
    names = notebook.variables
    assert result == [names["Net"](3), names["square"], names["Colour"].RED, names["Net"].Layer]
    assert type(result[0]) is names["Net"]


def test_a_result_can_be_loaded_where_its_class_is_not_defined(notebook) -> None:
    notebook.result(notebook.submit("def work(): return Net(3), Net(4)"))
    notebook.variables = {}
    first, second = notebook.read()
    assert type(first).__qualname__ == "Net"
    assert isinstance(second, type(first))
    assert (first.layer.size, second.layer.size) == (3, 4)


@pytest.fixture
def own_module(notebook, monkeypatch) -> Iterator[ModuleType]:
    """A module in the working directory that prints when its file runs."""
    text = "print('ran')\nWORD = 'file'\nclass Net:\n    class Layer: pass\ndef make(): return Net()\n"
    (notebook.root / "own_module_of_names.py").write_text(text)
    monkeypatch.syspath_prepend(notebook.root)
    yield importlib.import_module("own_module_of_names")
    del sys.modules["own_module_of_names"]


def test_a_job_pickles_what_a_module_of_the_user_defines(notebook, own_module) -> None:
    text = """
def work(layer):
    from own_module_of_names import Net
    found = pickle.loads(pickle.dumps((Net(), layer)))
    return type(found[0]) is Net, type(found[1]) is Net.Layer
"""
    notebook.define("import pickle")
    job = notebook.submit(text, own_module.Net.Layer())
    done = notebook.run(job)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert notebook.read() == (True, True)


def test_the_file_of_a_module_runs_in_the_job_for_what_was_not_sent(notebook, own_module) -> None:
    own_module.make.changed = "in the notebook"
    text = """
def work(make):
    import own_module_of_names as own
    return getattr(own, "".join(["WO", "RD"])), own.make.changed, isinstance(own.make(), own.Net), own.make is make
"""
    job = notebook.submit(text, own_module.make)
    done = notebook.run(job)
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr
    assert notebook.read() == ("file", "in the notebook", True, True)


def test_the_main_module_has_no_names_but_those_of_the_job(notebook) -> None:
    job = notebook.submit("def work():\n    import __main__\n    return __main__.nothing")
    done = notebook.run(job)
    assert done.returncode == 1
    assert "nothing called 'nothing' from the notebook" in done.stderr

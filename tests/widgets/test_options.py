"""Options, the function's own arguments, and refusals before anything is sent."""

import ast
import inspect
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

from springtide.scheduler.capture import Here, submission
from springtide.scheduler.wire import OPTIONS
from springtide.training import current_job
from springtide.widgets.connection import PoolError
from springtide.widgets.errors import CaptureError, NotOnHubError, OptionError
from springtide.widgets.magics import train as magic
from springtide.widgets.shared_pool import Pool
from springtide.widgets.submission.capture import capture
from springtide.widgets.submission.keywords import split_keywords
from springtide.widgets.submission.names import needed_names
from springtide.widgets.submission.options import checked


def greedy(gpus, rate=0.1):
    return gpus, rate


def plain(rate=0.1):
    return rate


def test_keywords_that_are_no_options_go_to_the_function():
    options, own = split_keywords(plain, None, {"gpus": 4, "rate": 0.2})
    assert (options["gpus"], own) == (4, {"rate": 0.2})


def test_a_name_that_is_both_has_to_be_said_clearly():
    with pytest.raises(OptionError, match="kwargs="):
        split_keywords(greedy, None, {"gpus": 4})
    options, own = split_keywords(greedy, {"gpus": 2}, {"gpus": 4})
    assert (options["gpus"], own) == (4, {"gpus": 2})


@pytest.mark.parametrize("work", [plain, "python train.py"])
def test_a_misspelt_option_is_named_with_the_right_one(work):
    with pytest.raises(OptionError, match=r"Unknown option `gpu`.*Did you mean `gpus`"):
        split_keywords(work, None, {"gpu": 4})


@pytest.mark.parametrize(
    "wrong",
    [{"gpus": -1}, {"gpus": 2.5}, {"gpus": True}, {"gpus": "4"}, {"workers": float("nan")},
     {"retries": -1}, {"name": 3}, {"env": {"A": 1}}, {"priority": 1.5}, {"rotate": "yes"}, {"time_limit": "soon"},
     {"time_limit": 0}, {"grace": "2h"}, {"gpu_types": [1]}],
)  # fmt: skip
def test_an_option_of_the_wrong_kind_is_refused_by_its_name(wrong):
    with pytest.raises(OptionError, match=f"{next(iter(wrong))} is .*; expected "):
        checked(wrong)


def test_options_reach_the_request(tmp_path):
    captured = capture(plain, (), {}, Here(tmp_path))
    options = checked({"gpus": 4, "time_limit": timedelta(hours=2), "gpu_types": "v100", "env": {"A": "1"}})
    request = submission(captured, options, "key")
    assert (request.name, request.gpus, request.time_limit, request.key) == ("plain", 4, 7200.0, "key")
    assert request.gpu_types == ("v100",)
    assert request.env == {**captured.env, "A": "1"}
    assert request.cwd == str(tmp_path)


def test_the_signature_of_submit_shows_every_option_with_its_default():
    shown = inspect.signature(Pool().submit).parameters
    assert [name for name in shown if name in OPTIONS] == list(OPTIONS)
    assert (shown["gpus"].default, shown["priority"].default, shown["time_limit"].default) == (1, "train", None)
    assert all(f"``{name}``: {option.help[:20]}" in Pool.submit.__doc__ for name, option in OPTIONS.items())


@pytest.mark.parametrize("use_jedi", [True, False])
@pytest.mark.parametrize("call", ["pool.submit(f, gp", "pool.when(gp"])
def test_tab_completion_offers_the_options(call, use_jedi, tmp_path, monkeypatch):
    monkeypatch.setattr("jedi.settings.cache_directory", str(tmp_path))  # other processes write to the usual one
    shell = InteractiveShell()
    shell.Completer.use_jedi = use_jedi
    shell.user_ns.update(pool=Pool(), f=plain)
    with provisionalcompleter():
        found = {completion.text for completion in shell.Completer.completions(call, len(call))}
    assert {"gpus=", "gpu_types="} <= found


def test_away_from_a_hub_one_sentence_says_what_to_do(monkeypatch):
    monkeypatch.delenv("SPRINGTIDE_URL", raising=False)
    with pytest.raises(NotOnHubError) as caught:
        Pool().submit(plain)
    assert "springtide up" in str(caught.value)
    assert caught.value._render_traceback_() == [f"NotOnHubError: {caught.value}"]
    assert "springtide up" in Pool()._repr_mimebundle_()["text/plain"]


# ---------- the magic


class Sent(Pool):
    def submit_cell(self, *cell_and_options: object):
        self.options = cell_and_options[-1]
        return "handle"


class Shell:
    def __init__(self) -> None:
        self.user_ns: dict[str, Any] = {}
        self.user_ns_hidden: dict[str, Any] = {}


def test_the_magics_line_becomes_options():
    pool, shell = Sent(), Shell()
    line = "--gpus 4 --workers 2 --name 'two words' --priority high --time-limit 2h --env A=1 --env B=2 --to job"
    assert magic(shell, line, "1", pool) == "handle"
    assert pool.options == {
        "gpus": 4, "workers": 2, "name": "two words", "priority": 75, "time_limit": 7200.0,
        "env": {"A": "1", "B": "2"},
    }  # fmt: skip
    assert shell.user_ns == {"job": "handle"}


def test_spellings_of_before_stay_good():
    pool = Sent()
    line = "--gpu-types a100 v100 --not-preemptible --no-rotate --grace 30s --priority 60 --retries 2"
    magic(Shell(), line, "1", pool)
    assert pool.options == {
        "gpu_types": ("a100", "v100"), "preemptible": False, "rotate": False, "grace": 30.0, "priority": 60,
        "retries": 2,
    }  # fmt: skip


def test_help_lists_every_option_and_sends_nothing():
    pool = Sent()
    said: list[Any] = []
    assert magic(Shell(), "--help", "", pool, said.append) is None
    assert not hasattr(pool, "options")
    assert all(option.flag in said[0] for option in OPTIONS.values())
    assert "--to VARIABLE" in said[0]


@pytest.mark.parametrize(
    "line",
    ["--gpus four", "--gpu 4", "--time-limit soon", "--env A", "--gpus -1", "--to 4x", "--name 'open", "stray"],
)
def test_a_wrong_line_is_a_sentence_and_sends_nothing(line):
    pool = Sent()
    with pytest.raises(OptionError, match=r"^%%train: (?!.*%%train:).*(`%%train --help`|variable)"):
        magic(Shell(), line, "1", pool)
    assert not hasattr(pool, "options")


def test_an_empty_cell_sends_nothing():
    pool = Sent()
    with pytest.raises(OptionError, match="the cell is empty"):
        magic(Shell(), "--gpus 2", "\n", pool)
    assert not hasattr(pool, "options")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("x = y + 1\nx", {"y"}),
        ("with open(p) as f:\n    for line in f:\n        line", {"open", "p"}),
        ("total += 1", {"total"}),
        ("def f(a, b=c):\n    return a + d + f(b)", {"c", "d"}),
        ("class K(Base):\n    x = 1\n    def m(self): return y", {"Base", "y"}),
        ("w = [i * k for i in items]", {"k", "items"}),
        ("import os.path as p\nfrom sys import argv\nfrom re import *\np, argv", set()),
        ("if a:\n    b = 1\nb", {"a", "b"}),
        ("try:\n    a = 1\nexcept E as e:\n    e\nelse:\n    a", {"E"}),
        ("await go()", {"go"}),
        ("f'{value:{width}}'", {"value", "width"}),
        ("del gone", {"gone"}),
    ],
)
def test_a_cell_needs_the_names_it_reads_first(text, names):
    assert needed_names(ast.parse(text).body) == names


def test_the_package_imports_beside_files_of_the_same_names_and_stays_light(tmp_path):
    for name in ("scheduler", "widgets", "training", "capture"):
        Path(tmp_path, f"{name}.py").write_text("mine = True\n")
    code = (
        "import sys, springtide.widgets, widgets, scheduler; assert widgets.mine and scheduler.mine;"
        "heavy = {'ipywidgets', 'anywidget', 'httpx', 'IPython', 'cloudpickle'};"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules);"
        "from springtide.widgets import pool; pool2 = pool;"
        "assert not {'ipywidgets', 'anywidget', 'IPython'} & set(sys.modules);"
        "import springtide.widgets.magics; from springtide.widgets import pool; assert pool is pool2;"
        "assert all(getattr(springtide.widgets, name) is not None for name in springtide.widgets.__all__)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_job_that_is_too_large_names_the_sizes_of_what_is_sent_once(pool, workdir) -> None:
    def train(small, first, second, again):
        return len(first)

    large = bytes(3 << 20)
    with pytest.raises(CaptureError) as refused:
        pool.submit(train, bytes(1 << 20), bytes(2 << 20), large, large)
    text = str(refused.value)
    assert "too large to send: 6.0 MiB, and the pool takes 3.0 MiB of it." in text
    assert "Largest: argument 3 3.0 MiB, argument 2 2.0 MiB, argument 1 1.0 MiB," in text
    assert "payload.pkl" not in text
    assert "argument 4" not in text


HALF = "x\udc80"


ASKS = {
    "name": lambda pool: pool.submit(str, 1, name=HALF),
    "env": lambda pool: pool.submit(str, 1, env={"A": HALF}),
    "search": lambda pool: pool.jobs(search=HALF),
}


@pytest.mark.parametrize("ask", ASKS)
def test_a_text_with_half_of_a_character_is_refused_with_a_sentence(pool, workdir, ask) -> None:
    with pytest.raises(PoolError, match=r"“x\\udc80” has a part of a character, “\\udc80”\. No request can carry"):
        ASKS[ask](pool)


def test_a_word_of_a_command_with_half_of_a_character_is_refused_before_anything_is_sent(pool, workdir) -> None:
    with pytest.raises(CaptureError, match=r"“x\\udc80” is no UTF-8, as all words of a command have to be\."):
        pool.submit(["echo", HALF])


VALUES = {
    "large": 10**400,
    "huge": 10**5000,
    "negative": -(10**400),
    "half": HALF,
    "both": {"a": [HALF, 10**5000], HALF: 1},
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_values_beyond_floats_and_encodings_come_back_as_they_are(pool, workdir, value) -> None:
    def train(given):
        if isinstance(given, int):
            current_job().report(step=given, of=given, loss=given, fine=1)
        return given

    assert pool.submit(train, value).result(60) == value
    sweep = pool.map(train, [value], metric="loss")
    assert sweep.results(60) == [value]
    (row,) = sweep.trials()
    assert (row.state, row.value) == ("succeeded", None)
    assert isinstance(row.parameters["item"], str)


def test_a_notebook_whose_directory_was_removed_submits_nothing_and_says_so(pool, tmp_path, monkeypatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(CaptureError, match=r"The working directory “.*gone” was removed"):
        pool.submit(len, "ab")


def test_an_open_file_is_refused_and_named(pool, workdir) -> None:
    with (workdir / "log.txt").open("w") as log:

        def train(given=None):
            return given or log

        refused = r"is a _io\.TextIOWrapper and cannot be sent \(it is the open file “.*log\.txt”\)"
        with pytest.raises(CaptureError, match=f"variable `log` {refused}"):
            pool.submit(train)
        with pytest.raises(CaptureError, match=rf"argument 1 → \['out'\] {refused}"):
            pool.submit(len, {"out": log})


def test_gpus_chosen_by_a_variable_are_said_to_be_the_pools(pool, workdir) -> None:
    job = pool.submit(len, "ab", env={"CUDA_VISIBLE_DEVICES": "7"})
    assert "CUDA_VISIBLE_DEVICES was left out: the pool chooses the GPUs of a job" in job.notes[-1] + job.notes[0]

"""Jobs from a terminal run in its activated environment, as the same command would there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from programs.terminal import Done, Run

pytestmark = pytest.mark.xdist_group("hub-command")

LAUNCHER = """#!{python}
import os, subprocess, sys
print("launched in", sys.prefix, flush=True)
raise SystemExit(subprocess.run([sys.executable, *sys.argv[1:]]).returncode)
"""
WHERE = "import os, sys; print('ran in', sys.prefix, os.environ.get('VIRTUAL_ENV'), *sys.argv[1:])\n"


class Terminal:
    """A terminal of susan's in which a real environment with a launcher of its own is activated."""

    def __init__(self, run: Run, directory: Path) -> None:
        self._run, self.directory, self.venv = run, directory, directory / "nlp"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.venv], check=True)
        self.write("nlp/bin/torchrun", LAUNCHER.format(python=self.venv / "bin" / "python"))
        self.write("train.py", WHERE)
        path = f"{self.venv}/bin:{os.environ['PATH']}"
        self.variables = {"PATH": path, "VIRTUAL_ENV": str(self.venv)}

    def write(self, name: str, text: str) -> None:
        """Write a file that may be executed."""
        (self.directory / name).write_text(text)
        (self.directory / name).chmod(0o755)

    def __call__(self, *words: str, **variables: str) -> Done:
        return self._run(*words, variables={**self.variables, **variables})

    def ran(self, *command: str, **variables: str) -> str:
        """Run a job to its end; return its output."""
        done = self("submit", "--follow", "--", *command, **variables)
        assert done.code == 0, (done.out, done.err)
        return done.out


@pytest.fixture
def terminal(run: Run, directory: Path) -> Terminal:
    return Terminal(run, directory)


def test_python_and_every_program_are_those_of_the_activated_environment(terminal: Terminal) -> None:
    here = f"ran in {terminal.venv} {terminal.venv}"
    assert terminal.ran("python", "train.py", "1") == f"{here} 1\n"
    assert terminal.ran("torchrun", "train.py") == f"launched in {terminal.venv}\n{here}\n"
    assert terminal.ran("env", "-u", "A", "python3", "train.py") == f"{here}\n"
    assert terminal.ran("bash", "-c", "python train.py && exec torchrun train.py").count(here) == 2


def test_scripts_activate_what_the_shell_would(terminal: Terminal) -> None:
    terminal.write("nlp/bin/activate_other", f"export VIRTUAL_ENV={terminal.venv}/other\n")
    terminal.write("run.sh", "#!/bin/bash\nsource activate_other\npython train.py\n")
    assert terminal.ran("./run.sh") == f"ran in {terminal.venv} {terminal.venv}/other\n"
    terminal.write("prog", "#!/usr/bin/env python\n" + WHERE)
    assert terminal.ran("./prog", "2") == f"ran in {terminal.venv} {terminal.venv} 2\n"


def test_a_program_that_the_shell_does_not_find_is_refused_before_it_waits(terminal: Terminal) -> None:
    before = terminal("jobs", "--json").json["items"]
    for words in (["submit"], ["submit", "--dry-run"]):
        done = terminal(*words, "--", "accelerate", "launch", "train.py")
        assert done.code == 2
        assert "The program “accelerate” is not on the PATH of the submission." in done.err
        assert "Activate the environment that has it" in done.err
    done = terminal("submit", "--", "./missing")
    assert "There is no program “./missing” that can be run." in done.err
    assert "Sent" not in done.err
    assert [job["id"] for job in terminal("jobs", "--json").json["items"]] == [job["id"] for job in before]


def test_a_program_that_is_gone_when_the_job_starts_is_named(terminal: Terminal) -> None:
    sent = terminal("submit", "--json", "--", "torchrun", "train.py").json
    terminal("wait", sent["id"])
    (terminal.venv / "bin" / "torchrun").unlink()
    again = terminal("rerun", "--follow", sent["id"])
    assert again.code == 1
    assert f"The program “{terminal.venv}/bin/torchrun” is not there any more." in again.err


def test_the_environment_is_shown_before_and_after_without_its_values(terminal: Terminal) -> None:
    told = terminal("submit", "--dry-run", "--", "torchrun", "train.py", WANDB_API_KEY="hunter2")
    assert told.code == 0, told.err
    assert f"Program: {terminal.venv}/bin/torchrun\n" in told.out
    assert f", {terminal.venv}/bin/python (environment nlp)\n" in told.out
    assert "WANDB_API_KEY is set here and not sent with the job." in told.err
    assert "hunter2" not in told.out + told.err
    sent = terminal("submit", "--json", "--", "bash", "-c", "true").json
    shown = terminal("show", sent["id"])
    assert (
        f"Python: the one that the command chooses; first on its PATH is {terminal.venv}/bin/python3" in shown.out
    )
    both = terminal("submit", "--json", "--carry", "WANDB_*", "--", "python", "train.py", WANDB_API_KEY="hunter2")
    shown = terminal("show", both.json["id"])
    assert "WANDB_API_KEY" in shown.out
    whole = json.dumps(
        [terminal("show", both.json["id"], "--json").json, both.json, shown.out, told.out, both.err]
    )
    assert "hunter2" not in whole
    assert os.environ["PATH"] not in whole


def test_variables_reach_the_job_when_they_are_carried_or_written_before_the_program(terminal: Terminal) -> None:
    show = "import os; print([os.environ.get(name) for name in ('WANDB_MODE', 'HF_HOME', 'A')])"
    command = ("A=1", "python", "-c", show)
    given = {"WANDB_MODE": "offline", "HF_HOME": "/hf"}
    left = terminal("submit", "--follow", "--", *command, **given)
    assert left.out == "[None, None, '1']\n"
    assert "HF_HOME and WANDB_MODE are set here and not sent with the job. " in left.err
    assert "To send them: --carry HF_HOME,WANDB_MODE\n" in left.err
    sent = terminal("submit", "--follow", "--carry", "WANDB_*", "--carry", "HF_HOME", "--", *command, **given)
    assert sent.out == "['offline', '/hf', '1']\n"
    assert "WANDB_MODE" not in sent.err


def test_a_run_again_has_the_environment_of_the_first_run(terminal: Terminal) -> None:
    sent = terminal("submit", "--json", "--carry", "HF_HOME", "--", "python", "train.py", HF_HOME="/hf").json
    again = terminal(
        "rerun", "--follow", "--carry", "WANDB_MODE", sent["id"], PATH=os.environ["PATH"], WANDB_MODE="x"
    )
    assert again.out == f"ran in {terminal.venv} {terminal.venv}\n"
    latest = terminal("jobs", "--json").json["items"][0]["id"]
    assert terminal("show", latest, "--json").json["environment"]["variables"] == ["HF_HOME", "WANDB_MODE"]


def test_a_notebook_runs_with_a_python_that_can_run_it(terminal: Terminal) -> None:
    cell = {"cell_type": "code", "source": "print(1)", "metadata": {}, "outputs": [], "execution_count": None}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    terminal.write("my study.ipynb", json.dumps(notebook))
    done = terminal("submit", "--follow", "--", "my study.ipynb")
    assert done.code == 0, done.err
    assert (
        f"{terminal.venv}/bin/python3 does not have springtide, so the notebook runs with {sys.executable}"
        in done.err
    )

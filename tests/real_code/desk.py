"""What the tests of the corpus do at a user's desk, wherever the pool runs its jobs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from hubs.hub_people import until
from programs.terminal import Done, called

from tests.real_code.corpus import CORPUS, EDITED, PROGRAMS, Place, Program

ENDED: Final = frozenset({"succeeded", "failed", "cancelled"})
COMMITTER: Final = {
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "user.name",
    "GIT_CONFIG_VALUE_0": "Susan",
    "GIT_CONFIG_KEY_1": "user.email",
    "GIT_CONFIG_VALUE_1": "susan@example.org",
}
ENTRY_POINT: Final = """#!{python}
import os, sys, time
sys.path.insert(0, os.getcwd())
from neap_plugin import RATE

FILE = "neap.txt"
step, value = map(int, open(FILE).read().split()) if os.path.exists(FILE) else (0, 1)
while step < 40:
    step, value = step + 1, value * RATE % 65521
    with open(FILE + ".new", "w") as file:
        file.write(f"{{step}} {{value}}")
    os.replace(FILE + ".new", FILE)
    print(f"step {{step}}/40", flush=True)
    time.sleep(0.1)
print("RESULT", value)
"""


class Desk:
    """A user's terminal in a copy of a project.

    ``env`` are the variables by which the command finds the pool and the user, and those of the activated
    environment.
    """

    def __init__(self, project: Path, env: Mapping[str, str]) -> None:
        self.project = project
        self.env = env

    def send(self, *words: str) -> Done:
        """Run `springtide submit` in the project."""
        return called("submit", *words, env=self.env, cwd=self.project)

    def __call__(self, *words: str) -> Any:
        """Return the JSON that a command about a job prints."""
        return called(*words, "--json", env=self.env, cwd=self.project).json

    def submit(self, program: Program, name: str) -> str:
        """Return the id of a job that runs the program."""
        options = ("--json", "--name", name, "-e", "OMP_NUM_THREADS=1", *program.options)
        return str(self.send(*options, "--", *program.command.split()).json["id"])

    def log(self, job: str) -> str:
        done = called("logs", job, env=self.env, cwd=self.project)
        assert done.code == 0, done.err
        return done.out

    def steps(self, job: str) -> list[int]:
        """Return the numbers of the steps that the job has printed, over all attempts."""
        return [int(number) for number in re.findall(r"step (\d+)/", self.log(job))]

    def is_past(self, step: int, job: str) -> bool:
        """Return whether the job has printed a step. Raises `AssertionError` if it ended before."""
        state = self.state(job)
        steps = self.steps(job)
        if max(steps, default=0) >= step:
            return True
        assert state not in ENDED, self("show", job)["reason"]["text"] + "\n" + self.log(job)
        return False

    def state(self, job: str) -> str:
        return str(self("show", job)["state"])

    def result(self, job: str) -> str:
        """Wait until the job has succeeded, and return its last line."""
        until(f"the end of {job}", lambda: self.state(job) in ENDED, every=0.5)
        assert self.state(job) == "succeeded", self.log(job)
        found: list[str] = re.findall(r"^RESULT .*", self.log(job), re.MULTILINE)
        return found[-1]


def cases(place: Place) -> list[Any]:
    """Return the programs that make sense in a place, as parameters of a test."""
    return [
        pytest.param(each, id=each.folder, marks=() if place in each.usual else pytest.mark.full)
        for each in CORPUS
        if place is Place.MACHINE or not each.not_in_pods
    ]


def lay_out(program: Program, folder: Path, path: str) -> Path:
    """Return a copy of the program's project in a folder, prepared by programs of the search path."""
    project = folder / program.folder
    shutil.copytree(PROGRAMS / program.folder, project, symlinks=True)
    if program.folder == "linked_package":
        (project / ".shared-of-the-lab").rename(folder / "lab-package")
        (project / "shared").symlink_to("../lab-package")
    if program.prepare:
        env = os.environ | COMMITTER | {"PATH": path}
        subprocess.run(["sh", "-c", program.prepare], cwd=project, env=env, check=True)
    return project


def write_entry_point(programs: Path, python: str) -> None:
    """Write a program of an environment as pip does; ``python`` is its interpreter where it runs."""
    program = programs / "neap-train"
    program.write_text(ENTRY_POINT.format(python=python))
    program.chmod(0o755)


def check_it_ends_the_same_with_a_pause(at: Desk, program: Program) -> None:
    """Send a program twice, spoil its files, pause one job in the middle and resume it; compare the results."""
    whole, paused = (at.submit(program, name) for name in ("whole", "paused"))
    spoil(at.project)
    until("the middle", lambda: at.is_past(program.steps // 3, paused), every=0.3)
    at("pause", paused)
    until("the pause", lambda: at.state(paused) == "paused", every=0.3)
    before = len(at.steps(paused))
    at("resume", paused)
    assert at.result(paused) == at.result(whole)
    again = at.steps(paused)[before:]
    assert again[0] > 1, f"it started again at step {again[0]}"


def spoil(project: Path) -> None:
    """Edit what was sent, as people do while their jobs wait."""
    for path in project.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.suffix in EDITED and "data" not in path.parts:
            path.write_text("this is not what was submitted\n")

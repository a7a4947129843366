"""Training code as others write it runs unchanged, and is the same after a pause as without one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import framework_tools
import pytest
from hub_people import until
from pool_process import ServiceProcess
from terminal import called

from tests.real_code.corpus import CORPUS, EDITED, PROGRAMS, Environment, Program

pytestmark = pytest.mark.xdist_group("real-code")  # one pool, and each program takes a core

ENTRY_POINT = """#!{python}
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
"""A program of the user's environment, as pip writes them."""


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a pool with four simulated GPUs."""
    service = ServiceProcess(tmp_path_factory.mktemp("pool"), projects={"lab": (4, ["susan"])})
    yield service.start()
    service.stop()


@pytest.fixture(scope="module")
def own_environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the programs of an environment of the user's own."""
    made = tmp_path_factory.mktemp("own") / "environment"
    venv.create(made, symlinks=True)
    program = made / "bin" / "neap-train"
    program.write_text(ENTRY_POINT.format(python=made / "bin" / "python"))
    program.chmod(0o755)
    return made / "bin"


class Desk:
    """A user's terminal in a copy of a project, with an activated environment."""

    def __init__(self, pool: str, programs: Path, project: Path) -> None:
        self.project = project
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        self.env = {
            "SPRINGTIDE_URL": pool,
            "JUPYTERHUB_API_TOKEN": "susan",
            "PATH": path,
            "VIRTUAL_ENV": str(programs.parent),
        }

    def __call__(self, *words: str) -> Any:
        """Return the JSON that the command prints."""
        return called(*words, "--json", env=self.env, cwd=self.project).json

    def submit(self, program: Program, name: str) -> str:
        """Return the id of a job that runs the program."""
        options = ("--json", "--name", name, "-e", "OMP_NUM_THREADS=1", *program.options)
        words = ("submit", *options, "--", *program.command.split())
        return str(called(*words, env=self.env, cwd=self.project).json["id"])

    def log(self, job: str) -> str:
        done = called("logs", job, env=self.env, cwd=self.project)
        assert done.code == 0, done.err
        return done.out

    def steps(self, job: str) -> list[int]:
        """Return the numbers of the steps that the job has printed, over all attempts."""
        return [int(number) for number in re.findall(r"step (\d+)/", self.log(job))]

    def state(self, job: str) -> str:
        return str(self("show", job)["state"])

    def result(self, job: str) -> str:
        """Wait until the job has succeeded, and return its last line."""
        until(f"the end of {job}", lambda: self.state(job) in {"succeeded", "failed", "cancelled"}, every=0.5)
        assert self.state(job) == "succeeded", self.log(job)
        found: list[str] = re.findall(r"^RESULT .*", self.log(job), re.MULTILINE)
        return found[-1]


@pytest.fixture
def desk(pool: str, own_environment: Path, tmp_path: Path) -> Callable[[Program], Desk]:
    """Lay out the project of a program, and return the user's desk there."""

    def made(program: Program) -> Desk:
        project = tmp_path / program.folder
        shutil.copytree(PROGRAMS / program.folder, project, symlinks=True)
        programs = {
            Environment.OWN: lambda: own_environment,
            Environment.NOTEBOOKS: lambda: Path(sys.executable).parent,
            Environment.FRAMEWORKS: lambda: framework_tools.interpreter().parent,
        }[program.environment]()
        desk = Desk(pool, programs, project)
        if program.folder == "linked_package":
            (project / ".shared-of-the-lab").rename(tmp_path / "lab-package")
            (project / "shared").symlink_to(tmp_path / "lab-package")
        if program.prepare:
            git = {f"GIT_CONFIG_KEY_{place}": key for place, key in enumerate(("user.name", "user.email"))}
            values = {"GIT_CONFIG_VALUE_0": "Susan", "GIT_CONFIG_VALUE_1": "susan@example.org"}
            env = os.environ | {"GIT_CONFIG_COUNT": "2"} | git | values
            subprocess.run(
                ["sh", "-c", program.prepare], cwd=project, env=env | {"PATH": desk.env["PATH"]}, check=True
            )
        return desk

    return made


@pytest.mark.parametrize(
    "program",
    [pytest.param(each, id=each.folder, marks=() if each.usual else pytest.mark.full) for each in CORPUS],
)
def test_a_program_ends_the_same_with_a_pause_and_edits_after_its_submission(
    program: Program, desk: Callable[[Program], Desk]
) -> None:
    at = desk(program)
    whole, paused = (at.submit(program, name) for name in ("whole", "paused"))
    spoil(at.project)
    middle = program.steps // 3
    until("the middle", lambda: max(at.steps(paused), default=0) >= middle, every=0.3)
    at("pause", paused)
    until("the pause", lambda: at.state(paused) == "paused", every=0.3)
    before = len(at.steps(paused))
    at("resume", paused)
    assert at.result(paused) == at.result(whole)
    again = at.steps(paused)[before:]
    assert again[0] > 1, f"it started again at step {again[0]}"


def spoil(project: Path) -> None:
    """Edit what was sent, as somebody does who goes on working."""
    for path in project.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.suffix in EDITED and "data" not in path.parts:
            path.write_text("this is not what was submitted\n")

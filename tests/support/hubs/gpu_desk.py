"""People's terminals at a pool of the machine's real GPUs, with `nvidia-smi` as a witness."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

from hubs.hub_people import until
from programs.terminal import called

FRAMEWORK_PROGRAMS = Path(__file__).parents[2] / "frameworks/exact"
PROGRAMS = Path(__file__).parents[2] / "real_gpus/programs"
GIB = 1 << 30
HINT = "They need an NVIDIA GPU, and PyTorch for CUDA in the python3 of PATH or in that of CUDA_PYTHON."


def _asked(what: str, fields: tuple[str, ...]) -> list[list[str]]:
    program = shutil.which("nvidia-smi")
    assert program, HINT
    words = [program, f"--query-{what}={','.join(fields)}", "--format=csv,noheader,nounits"]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    return [[word.strip() for word in line.split(",")] for line in lines]


def asked(*fields: str) -> list[list[str]]:
    """Return what nvidia-smi says of each GPU."""
    return _asked("gpu", fields)


def computing() -> list[list[str]]:
    """Return pid and memory, in MiB, of each process that computes on a GPU, by nvidia-smi."""
    return _asked("compute-apps", ("pid", "used_memory"))


def copy_program(name: str, place: Path) -> None:
    """Copy a program, and what those of frameworks import, into a directory of its own.

    Beside all others it could import one of them: their names are those of packages.
    """
    folder = PROGRAMS if (PROGRAMS / name).exists() else FRAMEWORK_PROGRAMS
    shutil.copy(folder / name, place)
    shutil.copy(FRAMEWORK_PROGRAMS / "pausing.py", place)


class Desk:
    """A person's terminal."""

    def __init__(self, url: str, user: str, place: Path, python: Path, token: str = "") -> None:
        self.user = user
        self.token = token or user
        self.url = url
        self.place = place / user
        self.place.mkdir()
        self.python = python
        self.env = {"SPRINGTIDE_URL": url, "JUPYTERHUB_API_TOKEN": self.token, "PATH": os.environ["PATH"]}

    def __call__(self, *words: str) -> Any:
        """Return the JSON that a command prints."""
        verb, *rest = words
        return called(verb, "--json", *rest, env=self.env, cwd=self.place).json

    def submit(self, *command: str, gpus: int = 1, options: tuple[str, ...] = ()) -> str:
        """Return the id of a job that runs a command; the last program that it names is copied beside it first."""
        copy_program(next(word for word in reversed(command) if word.endswith(".py")), self.place)
        words = ("submit", "--gpus", str(gpus), *options, "--", str(self.python), *command)
        return str(self(*words)["id"])

    def get(self, path: str) -> Any:
        """Return an answer of the API."""
        request = urllib.request.Request(
            f"{self.url}api/v1{path}", headers={"Authorization": f"token {self.token}"}
        )
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def state(self, job: str) -> str:
        return str(self("show", job)["state"])

    def log(self, job: str) -> str:
        return called("logs", job, env=self.env, cwd=self.place).out

    def says(self, job: str, text: str) -> None:
        """Wait until the job has printed a text."""

        def said() -> bool:
            printed = text in self.log(job)
            return printed or self._ended(job, "running")

        until(f"“{text}” of {job}", said, every=0.2)

    def reached(self, job: str, state: str) -> None:
        until(f"{job} {state}", lambda: self.state(job) == state or self._ended(job, state), every=0.2)

    def _ended(self, job: str, state: str) -> bool:
        found = self.state(job)
        assert found not in {"succeeded", "failed", "cancelled"} - {state}, f"{found}: {self.log(job)}"
        return False

    def result(self, job: str, word: str = "RESULT") -> str:
        """Return what a job that has succeeded has printed last behind a word."""
        self.reached(job, "succeeded")
        found: list[str] = re.findall(rf"^{word} (.*)", self.log(job), re.MULTILINE)
        return found[-1]

    def sees(self, job: str) -> dict[str, Any]:
        """Return what the job of ``look.py`` has seen."""
        found: dict[str, Any] = json.loads(self.result(job))
        return found

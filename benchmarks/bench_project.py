"""What it costs to send a project and to make its copy: 10,000 files of code, 60,000 of data beside a script.

The first submission sends the files to a real service by HTTP, the second sends their digest alone.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from machine import describe

from springtide.scheduler.capture import Captured, Here, capture_words, submission
from springtide.scheduler.client import Client
from springtide.scheduler.executors.supervisor.tree import make_tree

T = TypeVar("T")


def timed(what: str, work: Callable[[], T]) -> T:
    """Print how long the work takes, and return its result."""
    began = time.perf_counter()
    result = work()
    print(f"{what:50} {time.perf_counter() - began:6.2f} s", flush=True)
    return result


def code(root: Path, number: int) -> None:
    """Write a project with this many modules."""
    (root / "train.py").parent.mkdir(parents=True, exist_ok=True)
    (root / "train.py").write_text("print(1)")
    (root / "pyproject.toml").write_text("")
    for place in range(number):
        module = root / f"package{place % 100}" / f"module{place}.py"
        module.parent.mkdir(exist_ok=True)
        module.write_text(f"x = {place}\n" * 50)


def data(root: Path, number: int) -> None:
    """Write a script with this many files of data beside it."""
    root.mkdir(parents=True)
    (root / "train.py").write_text("print(1)")
    for place in range(number):
        (root / f"image{place}.jpg").touch()


def copied(captured: Captured, job: Path) -> None:
    """Make the job's copy, as its supervisor does."""
    assert captured.project is not None
    job.mkdir()
    (job / "packed").write_bytes(captured.project.packed)
    root = str(captured.project.root)
    make_tree({"tree": str(job / "tree"), "packed": str(job / "packed"), "root": root, "cwd": str(job / "tree")})


def main() -> None:
    """Measure, with a pool if ``SPRINGTIDE_URL`` names one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--data", type=int, default=60_000)
    parser.add_argument("--pool", action="store_true", help="also submit to the pool at SPRINGTIDE_URL")
    options = parser.parse_args()
    print(describe())
    place = Path(tempfile.mkdtemp(prefix="springtide-bench-"))
    try:
        code(place / "code", options.files)
        data(place / "data", options.data)
        for name in ("code", "data"):
            here = Here(place / name, home=place)
            captured = timed(f"{name}: capture", partial(capture_words, ["python", "train.py"], here))
            timed(f"{name}: copy of the job", partial(copied, captured, place / f"job of {name}"))
        if options.pool:
            here = Here(place / "code", home=place)

            def submit() -> None:
                captured = capture_words(["true"], here)
                client.submit(submission(captured, {"gpus": 0}), captured.packed)

            with Client() as client:
                timed("code: first submission, files sent", submit)
                timed("code: second submission, nothing sent", submit)
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()

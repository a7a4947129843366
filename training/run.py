"""Runs what a notebook sent, as ``python -m springtide.training.run``.

``function PAYLOAD.pkl`` calls a function: its result goes to ``result.pkl`` in the job's output directory, an
exception to ``error.json``. ``notebook IN.ipynb`` executes a notebook and keeps it there under its own name, with
the outputs of all cells that ran, after every cell.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, List, NoReturn, Optional

from springtide.training.job import Job, current_job

RESULT = "result.pkl"
ERROR = "error.json"


def write(path: Path, data: bytes) -> None:
    """Write a file completely or not at all, and put it on disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    with beside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def fail(job: Job, kind: str, message: str, text: str) -> NoReturn:
    """Record what went wrong and end. Of several processes the first that fails is the one that is heard."""
    sys.stderr.write(text.rstrip("\n") + "\n")
    path = job.output_directory / ERROR
    try:
        heard = json.loads(path.read_text(encoding="utf-8"))["attempt"] == job.attempt
    except (OSError, ValueError, KeyError, TypeError):
        heard = False
    if not heard:
        error = {"type": kind, "message": message, "traceback": text, "attempt": job.attempt}
        write(path, json.dumps(error).encode())
    raise SystemExit(1)


def run_function(path: Path) -> None:
    """Call the function in the payload and keep what it returns; of several processes, what the first returns."""
    job = Job(os.environ)
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        call = pickle.loads(path.read_bytes())  # noqa: S301 - it runs with the rights of the one who sent it
        result = call["function"](*call["args"], **call["kwargs"])
        data = _pickled(result) if job.rank == 0 else None
    except Exception as error:  # noqa: BLE001 - whatever the function raises
        own = error.__traceback__.tb_next if error.__traceback__ is not None else None
        text = "".join(traceback.format_exception(type(error), error, own))
        fail(job, type(error).__name__, str(error), text)
    if data is not None:
        write(job.output_directory / RESULT, data)
        _forget_error(job)


def _pickled(result: Any) -> bytes:
    try:
        return pickle.dumps(result)
    except Exception:  # noqa: BLE001 - then the stronger one may
        import cloudpickle  # noqa: PLC0415 - only what plain pickle cannot take needs it

        return bytes(cloudpickle.dumps(result))


def _forget_error(job: Job) -> None:
    with suppress(FileNotFoundError):
        (job.output_directory / ERROR).unlink()


def run_notebook(path: Path) -> None:
    """Run a notebook from its first cell, and exit 75 if a pause was asked for meanwhile.

    A pause is granted between two cells, or where a cell checkpoints and exits through `springtide.training`. The
    next attempt begins with the first cell again, and finds its checkpoints.
    """
    from springtide.training.notebook import execute  # noqa: PLC0415 - it needs nbclient

    job = current_job()
    sys.path.insert(0, str(path.parent.resolve()))
    ended = execute(job, path, job.output_directory / path.name)
    if ended.paused:
        job.exit_for_pause()
    if ended.error is not None:
        fail(job, ended.error.kind, ended.error.message, ended.error.text)
    _forget_error(job)


def main(argv: Optional[List[str]] = None) -> None:
    """The command."""
    words = sys.argv[1:] if argv is None else argv
    runs = {"function": run_function, "notebook": run_notebook}
    if len(words) != 2 or words[0] not in runs:
        sys.stderr.write("usage: python -m springtide.training.run function|notebook FILE\n")
        raise SystemExit(2)
    runs[words[0]](Path(words[1]))


if __name__ == "__main__":
    main()

"""The program that runs a submitted function or notebook, as ``python -m springtide.training.run``.

``function PAYLOAD.pkl NAME=VALUE…`` calls a function, with other values of some arguments: its result is written
to ``result.pkl`` in the job's output directory, an exception to ``error.json``. In a gang those of the other
processes are written to ``result.RANK.pkl``. A result that is a JSON value is written to ``result.json`` too, for
programs that are not in Python; a figure, a table or a model to a file that pages show. For a sweep the payload
has the calls of all trials, or a study that chooses the arguments. ``notebook IN.ipynb NAME=VALUE…`` executes a
notebook, with other values of some parameters, and saves it in that directory under its own name, with the outputs
of all cells that ran, after every cell.
"""

from __future__ import annotations

import inspect
import json
import linecache
import os
import signal
import sys
import threading
import time
import traceback
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Dict, Iterator, List, NoReturn, Optional, Sequence, Set, Tuple

from springtide.training import stacks, trials
from springtide.training.adapters import optuna
from springtide.training.files import warn, write_atomically
from springtide.training.generations import Generation
from springtide.training.job import Job, current_job, job_of_process
from springtide.training.names import Payload, become_main, result_dumps
from springtide.training.previews import PREVIEWS, preview
from springtide.training.values import literal

RESULT = "result.pkl"
RESULT_AS_JSON = "result.json"
RESULT_PROBLEM = "result.problem.json"
"""File with the reason of a lost result: the error's ``type`` and ``message``, and the result's ``repr``."""
MAX_REPR = 10_000
"""Maximum length of an unpicklable result's text, in characters."""
RESULT_OF_RANK = "result.{}.pkl"
MAX_RANK_BYTES = 16 << 20
"""Maximum size of the pickled result of a process other than the first, in bytes: a model that all of them
return is saved once."""
MAX_JSON_BYTES = 1 << 20
"""Maximum size of a pickled result that is written as JSON as well, in bytes."""
MAX_DIGITS = 100_000
"""Maximum number of digits of a whole number in it."""
PLAIN = (bool, int, float, str, bytes, list, tuple, dict, set)
"""Types of results that have no view of their own."""
ERROR = "error.json"
OURS = "springtide."
"""Start of the packages whose modules call the function, wherever each of them is installed."""


def fail(job: Job, kind: str, message: str, text: str) -> NoReturn:
    """Record an error and exit. Of several processes, the first one that fails is recorded."""
    sys.stderr.write(text.rstrip("\n") + "\n")
    path = job.output_directory / ERROR
    try:
        recorded = json.loads(path.read_text(encoding="utf-8"))["attempt"] == job.attempt
    except (OSError, ValueError, KeyError, TypeError):
        recorded = False
    if not recorded:
        error = {"type": kind, "message": message, "traceback": text, "attempt": job.attempt}
        with suppress(OSError):  # the log has it too
            write_atomically(path, json.dumps(error).encode())
    raise SystemExit(1)


def run_function(path: Path, changes: Sequence[str] = ()) -> None:
    """Call the function in the payload and save its result; of several processes, that of each.

    ``changes`` are arguments in place of those in the payload, each as ``name=value`` with a literal of Python,
    or a number without one: ``nan`` and ``inf``.
    """
    job, began = Job(os.environ), time.time()
    job.called()
    sys.path.insert(0, str(path.parent.resolve()))
    payload = become_main(path)
    try:
        call = _with_changes(_read(payload), changes)
        result, is_done = _called(call, job, path.parent)
    except Exception as error:  # noqa: BLE001 - any exception of the function
        text = _traceback_of(error)
        fail(job, type(error).__name__, str(error), text)
    program = job_of_process()
    told_to_stop = program.was_told_to_stop()
    with suppress(ValueError):  # a thread that is not the main one
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the result is saved, also during a pause
    try:
        if job.rank == 0:
            if is_done:
                _save(result, job, began)
            _forget_error(job)
        elif is_done:
            _save_of_rank(result, job)
    except OSError as error:
        message = f"The result cannot be written to {job.output_directory}: {error.strerror or error}."
        fail(job, "ResultError", message, f"springtide.ResultError: {message}")
    job.wait_for_reports()
    program.returned(told_to_stop=told_to_stop)
    _name_threads_that_run_on()


def _name_threads_that_run_on() -> None:
    """Say in the log which threads the end of the process waits for."""
    main = threading.main_thread()
    names = sorted(each.name for each in threading.enumerate() if each is not main and not each.daemon)
    if names:
        threads = "its thread {} does" if len(names) == 1 else "its threads {} do"
        warn("The function has returned. The job ends when " + threads.format(", ".join(names)) + ".")


def _read(payload: Payload) -> Dict[str, Any]:
    try:
        return {"function": payload.function, **payload.call}
    except ModuleNotFoundError as error:
        if error.name == "optuna":
            raise ModuleNotFoundError(optuna.MISSING, name="optuna") from None
        raise


def pairs(changes: Sequence[str]) -> List[Tuple[str, str]]:
    """Return the names and the values in arguments that are given as ``name=value``."""
    return [(name, text) for name, _, text in (change.partition("=") for change in changes)]


def _with_changes(call: Dict[str, Any], changes: Sequence[str]) -> Dict[str, Any]:
    """Return the call with other arguments; for a cell, with other values of its variables."""
    if not changes:
        return call
    values = {name: literal(text) for name, text in pairs(changes)}
    function = call["function"]
    if hasattr(function, "variables"):
        function.variables.update(values)
        return call
    signature = inspect.signature(getattr(function, "function", function))
    bound = signature.bind(*call["args"], **call["kwargs"])
    others = next((each.name for each in signature.parameters.values() if each.kind is each.VAR_KEYWORD), None)
    for name, value in values.items():
        if name in signature.parameters or others is None:
            bound.arguments[name] = value
        else:
            bound.arguments.setdefault(others, {})[name] = value
    return {**call, "args": bound.args, "kwargs": bound.kwargs}


def _called(call: Dict[str, Any], job: Job, code: Path) -> Tuple[Any, bool]:
    """Return the result of the call, and whether there is one: a pruned trial has none."""
    if not job.sweep:
        return call["function"](*call["args"], **call["kwargs"]), True
    trial = trials.begin(os.environ, call["metric"], attempt=job.attempt, rank=job.rank)
    if "study" in call:
        history = trials.read_history(code)
        result = optuna.run_trial(call, job, trial, history)
        return result, not trial.pruned
    if trial.generation is not None:
        return _called_in(trial.generation, call, job, trial)
    args, kwargs = call["calls"][trial.number]
    result = call["function"](*args, **kwargs)
    trial.end(trial.value_of(result))
    return result, True


def _called_in(generation: Generation, call: Dict[str, Any], job: Job, trial: trials.Trial) -> Tuple[Any, bool]:
    """Call the function for one generation of a population, unless an earlier attempt came to its end.

    Raises `GenerationError` if the function returns although generations follow.
    """
    found = job.restore()
    if found is not None and generation.ended_before(found.about):
        trial.end(generation.value)
        job.done()
        return None, False
    result = call["function"](*call["args"], **call["kwargs"])
    generation.check_returned()
    trial.end(generation.value if generation.reached else trial.last)
    return result, True


def _traceback_of(error: BaseException) -> str:
    """Return the traceback without the frames of this library; frames of a notebook name their cells."""
    shown = traceback.TracebackException(type(error), error, error.__traceback__)
    ours = _own_files(error)
    part: Optional[traceback.TracebackException] = shown
    while part is not None:
        frames = [frame for frame in part.stack if frame.filename not in ours]
        for frame in frames:
            source = frame.line and linecache.cache.get(frame.filename)
            if source and len(source) == 4 and source[1] is None:  # in no file
                frame.filename = source[3]
        part.stack[:] = frames
        part = part.__cause__ or part.__context__
    return "".join(shown.format())


def _own_files(error: BaseException) -> Set[str]:
    """Return the files of this library that the traceback leads through, also that of the error's causes."""
    files, seen = set(), set()
    part: Optional[BaseException] = error
    while part is not None and id(part) not in seen:
        seen.add(id(part))
        for frame, _ in traceback.walk_tb(part.__traceback__):
            if str(frame.f_globals.get("__package__") or "").startswith(OURS):
                files.add(frame.f_code.co_filename)
        part = part.__cause__ or part.__context__
    return files


def _save(result: Any, job: Job, began: float) -> None:
    """Save the result, or why it cannot be: the work of the job is done, so the job does not fail for it.

    The results of earlier attempts are removed; this one ``began`` at that time, in seconds since the epoch.
    Raises `OSError` if the result cannot be written; a full disk is waited for.
    """
    directory = job.output_directory
    for name in PREVIEWS:
        _remove_older(directory / name, began)
    has_view = result is not None and not isinstance(result, PLAIN) and getattr(result, "shape", None) != ()
    try:
        data = result_dumps(result)
    except Exception as error:  # noqa: BLE001 - objects of users may raise anything
        why = f"{type(error).__name__}: {error}"[:MAX_REPR]
        problem = {"type": type(error).__name__, "message": str(error)[:MAX_REPR], "repr": _shown(result)}
        if (directory / RESULT).exists():
            _remove_older(directory / RESULT_AS_JSON, began)
            _remove(directory / RESULT)
        job.write_outcome(directory / RESULT_PROBLEM, json.dumps(problem).encode())
        if has_view:
            _write_preview(result, directory)
        sys.stderr.write(f"The result cannot be pickled, so only its text is kept: {why}\n")
        job.lost_result(why)
        return
    if (directory / RESULT).exists():
        _remove_older(directory / RESULT_AS_JSON, began)
    job.write_outcome(directory / RESULT, data)
    _remove(directory / RESULT_PROBLEM)
    is_json = _saved_as_json(result, len(data), directory / RESULT_AS_JSON)
    if has_view or (not is_json and isinstance(result, PLAIN)):  # such as with a number that is not finite
        _write_preview(result, directory)


def _write_preview(result: Any, directory: Path) -> None:
    """Write a file that shows a result which is no JSON value. A file that the function wrote itself stays."""
    try:
        made = preview(result)
    except Exception as error:  # noqa: BLE001 - objects of users may raise anything
        sys.stderr.write(f"The result cannot be shown: {type(error).__name__}: {error}\n")
        return
    if made is not None and not (directory / made[0]).exists():
        _write_view(directory / made[0], made[1])


def _write_view(path: Path, data: bytes) -> None:
    """Write a file that shows the result. The result itself is kept: the job does not fail without this file."""
    try:
        write_atomically(path, data)
    except OSError as error:
        warn(f"{path.name}, which shows the result, cannot be written: {error.strerror or error}.")


def _shown(result: Any) -> str:
    try:
        return repr(result)[:MAX_REPR]
    except Exception:  # noqa: BLE001 - objects of users may raise anything
        return f"<{type(result).__name__}>"


def _save_of_rank(result: Any, job: Job) -> None:
    """Save the result of a process other than the first, unless it is large; without it the job does not fail."""
    try:
        data = result_dumps(result)
    except Exception as error:  # noqa: BLE001 - objects of users may raise anything
        sys.stderr.write(f"The result of rank {job.rank} cannot be pickled, so it is not saved: {error}\n")
        return
    if len(data) > MAX_RANK_BYTES:
        most = MAX_RANK_BYTES >> 20
        sys.stderr.write(f"The result of rank {job.rank} is larger than {most} MiB, so it is not saved.\n")
        return
    job.write_outcome(job.output_directory / RESULT_OF_RANK.format(job.rank), data)


def _saved_as_json(result: Any, size: int, path: Path) -> bool:
    """Write a result as JSON, and return whether it can be. A file of that name that the function wrote stays."""
    if size > MAX_JSON_BYTES or path.exists():
        return True
    try:
        with _long_numbers():
            text = json.dumps(result, allow_nan=False, default=_single_number)
    except Exception:  # noqa: BLE001 - objects of users may raise anything
        return False
    _write_view(path, text.encode())
    return True


@contextmanager
def _long_numbers() -> Iterator[None]:
    """Write whole numbers of up to `MAX_DIGITS` digits, as JSON may have them, in this context."""
    before = getattr(sys, "get_int_max_str_digits", lambda: 0)()
    if not 0 < before < MAX_DIGITS:
        yield
        return
    sys.set_int_max_str_digits(MAX_DIGITS)
    try:
        yield
    finally:
        sys.set_int_max_str_digits(before)


def _single_number(value: Any) -> Any:
    """Return the number in an array or a tensor that holds a single one. Raises `TypeError` for anything else."""
    if getattr(value, "shape", None) != ():
        raise TypeError(type(value).__name__)
    return value.item()


def _forget_error(job: Job) -> None:
    _remove(job.output_directory / ERROR)


def _remove_older(path: Path, than: float) -> None:
    """Remove a file that was written before this time, in seconds since the epoch."""
    with suppress(FileNotFoundError):
        if path.stat().st_mtime < than:
            path.unlink()


def _remove(path: Path) -> None:
    with suppress(FileNotFoundError):
        path.unlink()


def run_notebook(path: Path, changes: Sequence[str] = ()) -> None:
    """Run a notebook from its first cell, and exit with 75 if a pause was requested meanwhile.

    ``changes`` are parameters in place of those in the notebook, each as in `run_function`. A pause takes effect
    between two cells, or where a cell saves a checkpoint and exits through `springtide.training`. The next attempt
    starts again with the first cell, and finds the checkpoints of the previous one.
    """
    from springtide.training.notebook import execute  # noqa: PLC0415 - it requires nbclient

    job = current_job()
    sys.path.insert(0, str(path.parent.resolve()))
    kept = job.output_directory / path.name
    try:
        ended = execute(job, path, kept, pairs(changes))
    except OSError as error:
        message = f"The notebook cannot be written to {kept}: {error.strerror or error}."
        fail(job, "NotebookError", message, f"springtide.NotebookError: {message}")
    except Exception as error:  # noqa: BLE001 - of the libraries that run notebooks; cells are not among it
        fail(job, type(error).__name__, str(error), _traceback_of(error))
    if ended.paused:
        job.exit_for_pause()
    if ended.error is not None:
        fail(job, ended.error.kind, ended.error.message, ended.error.text)
    _forget_error(job)
    if ended.returned:
        job.returned(told_to_stop=job.was_told_to_stop())


def main(argv: Optional[List[str]] = None) -> None:
    """Run the function or notebook that the arguments name."""
    words = sys.argv[1:] if argv is None else argv
    runs = {"function": run_function, "notebook": run_notebook}
    if len(words) < 2 or words[0] not in runs or not all("=" in word for word in words[2:]):
        sys.stderr.write("usage: python -m springtide.training.run function|notebook FILE [NAME=VALUE…]\n")
        raise SystemExit(2)
    stacks.answer_requests()
    runs[words[0]](Path(words[1]), words[2:])


if __name__ == "__main__":
    main()

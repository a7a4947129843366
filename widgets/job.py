"""The handle of a job. It holds only the id; everything else is fetched."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import sys
import time
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

from springtide.scheduler import wire
from springtide.scheduler.arguments import file_run
from springtide.scheduler.client import Client, place_for
from springtide.scheduler.client.descriptions import ended_without_return
from springtide.scheduler.client.log_text import LogText, attempt_mark, whole_text
from springtide.scheduler.file_names import is_quoted, name_among, real_name
from springtide.scheduler.wire import Surface
from springtide.scheduler.wire.jobs import RESULT_FILE
from springtide.scheduler.wire.submission import offered
from springtide.scheduler.wording import LONG_GIVEN, given, sentence
from springtide.widgets.connection import PoolError
from springtide.widgets.display import phrases, plain
from springtide.widgets.display.document import NotebookDocument
from springtide.widgets.display.live_job import FINAL
from springtide.widgets.display.plain import Environment
from springtide.widgets.display.progress_bar import is_rewritten
from springtide.widgets.errors import (
    DownloadError,
    JobCancelledError,
    JobFailedError,
    NoResultError,
    OptionError,
    SpringtideError,
)
from springtide.widgets.figures import kept_out_of_sight
from springtide.widgets.handle import NO_LONGER, Handle, Timeout, WaitInterrupted, typed_arguments
from springtide.widgets.interrupts import answered
from springtide.widgets.results import Checkpoints, Metrics, Outputs

RESULT = "result.pkl"
RESULT_PROBLEM = "result.problem.json"
RESULT_OF_RANK = "result.{}.pkl"
ERROR = "error.json"
OPTION_NAMES = frozenset(option.name for option in offered(Surface.SUBMIT))
NOT_FOUND = 404
NO_FILE = frozenset({NOT_FOUND, 422})
"""Statuses of the refusals of a name that is not a file's; the second one is for a folder."""
LOG_WAIT_S = 10.0
LINE = 120
"""Width at which an unfinished line of a followed log is cut, in characters."""


class LogOutput(str):
    """The text of a log; a notebook shows it as lines."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Job(Handle):
    """A handle of a job. It can be made again from the id at any time: ``pool.job(id)``.

    All methods raise `PoolError` when the pool refuses and `UnreachableError` when it does not answer.
    """

    @property
    def progress(self) -> wire.Progress:
        """The job's last report."""
        return self.info.progress

    @property
    def environment(self) -> Environment | None:
        """The job's environment at its submission; None if none was kept."""
        info = self.info
        return None if info.environment is None else Environment(info.environment, info.options.image)

    # ---------- waiting

    def __await__(self) -> Generator[Any, None, Any]:
        """Wait for the end of the job and return the result: ``await job``."""
        return self._result_later().__await__()

    async def _result_later(self) -> Any:
        await self._ended()
        return await asyncio.to_thread(self.result)

    # ---------- results

    def result(self, timeout: Timeout = None, *, trust: bool = False) -> Any:
        """Return the result of the function or the cell, the executed notebook, or ``result.json`` of a command.

        Waits until the job has ended, for at most ``timeout``, as `wait` does. The result of another person's job
        is a pickle that runs that person's code when it is loaded: say ``trust=True`` if you do. Raises
        `NotFinishedError`, `JobFailedError` with the job's own traceback, `JobCancelledError` or `NoResultError`.
        """
        job = self.info
        if job.state not in FINAL:
            job = self.wait(timeout).info
        self._require_success(job)
        if job.kind == "notebook":
            return self.notebook()
        if job.outcome is not None and job.outcome.pruned:
            msg = f"Trial {job.trial} was pruned, because others were better, so it has no result."
            raise NoResultError(msg)
        if job.kind == "command":
            return self._written()
        self._require_trust(job.user, trust=trust, call="job.result(trust=True)")
        try:
            kept = self.output(RESULT)
        except NoResultError as error:
            raise self._not_kept(error, job) from None
        return loaded(kept, self.id)

    def _written(self) -> Any:
        """Return what a command wrote to ``result.json``, as ``springtide result`` prints it."""
        try:
            content = self.output(RESULT_FILE)
        except NoResultError:
            msg = (
                f"The command of job {self.id} has left no {RESULT_FILE} in its output directory, which "
                "would be its result. job.outputs() lists what it left."
            )
            raise NoResultError(msg) from None
        try:
            return json.loads(content)
        except ValueError:
            name = RESULT_FILE
            msg = f'{name} of job {self.id} is no JSON. job.output("{name}") has its bytes.'
            raise NoResultError(msg) from None

    def _not_kept(self, error: NoResultError, job: wire.Job) -> NoResultError:
        """Return the error for a result that could not be pickled, or of a function that did not return.

        For any other missing result it is the given one.
        """
        if ended_without_return(job):
            return NoResultError(f"Job {phrases.clean(job.name)} has no result. {phrases.why(job)}")
        try:
            problem = json.loads(self.output(RESULT_PROBLEM))
            why, text = (phrases.clean(str(problem[name])) for name in ("message", "repr"))
        except (NoResultError, ValueError, KeyError, TypeError):
            return error
        msg = (
            f"Job {self.id} has succeeded, but what it returned cannot be pickled: {sentence(why)} "
            f"Only its text was kept: {sentence(text)} Return something that pickle can write, or save it to "
            "current_job().output_directory."
        )
        return NoResultError(msg)

    def results(self, timeout: Timeout = None, *, trust: bool = False) -> list[Any]:
        """Return the function's result in each worker of the job, by rank; the first one is `result`.

        Takes the arguments of `result` and raises its errors; also `NoResultError` if a worker's result is larger
        than 16 MiB, or cannot be pickled: the log of that worker says so.
        """
        first = self.result(timeout, trust=trust)
        others = range(1, self.info.attempts[-1].workers)
        return [first, *(loaded(self.output(RESULT_OF_RANK.format(rank)), self.id) for rank in others)]

    def output(self, name: str) -> bytes:
        """Return the file ``name`` of the output directory. It may be in quotes, as in `outputs`."""
        name = self._name_of_output(name)
        try:
            return self._connection.ask(Client.output, self.id, name)
        except PoolError as error:
            raise self._no_output(name, error) from None

    def _no_output(self, name: str, error: PoolError) -> SpringtideError:
        """Return the error for a file that could not be fetched."""
        if error.status != NOT_FOUND:
            return error
        return NoResultError(f"Job {self.id} has written no output {given(name, LONG_GIVEN)}. {error}")

    def outputs(self) -> Outputs:
        """Return the files of the job's output directory."""
        return Outputs(self._connection.ask(Client.outputs, self.id))

    def download(self, name: str, to: str | os.PathLike[str] = ".") -> Path:
        """Save the file or folder ``name`` of the job's output directory as ``to``, or in the directory ``to``.

        As for ``cp``, ``to`` is a directory to save it in if such a one is there, or if it ends in a slash:
        ``job.download("model.pt", "models/")``, which is made then. Of a folder all files are saved. Returns the
        path of the file or the folder. A file of that name is replaced once the whole new one is there. ``name``
        may be in quotes, as `outputs` shows odd names.
        """
        name = self._name_of_output(name)
        try:
            return self._connection.ask(Client.download, self.id, name, to)
        except PoolError as error:
            if error.status not in NO_FILE:
                raise
            return self._folder(name, to, error)
        except OSError as error:
            raise _not_saved(name, to, error) from None

    def _name_of_output(self, name: str) -> str:
        if not is_quoted(name):
            return name
        return name_among(name, [file.name for file in self._connection.ask(Client.outputs, self.id).items])

    def _folder(self, name: str, to: str | os.PathLike[str], error: PoolError) -> Path:
        """Save the files of a folder; raise the error for a name that is no folder either."""
        below, listed = f"{name.rstrip('/')}/", self._connection.ask(Client.outputs, self.id)
        files = [file.name for file in listed.items if file.name.startswith(below)]
        if not files:
            raise self._no_output(name, error) from None
        if listed.more:
            msg = (
                f"Job {self.id} has more files than are listed, so not all of those in {given(name, LONG_GIVEN)} "
                "are known. Download them by their names, or have the job pack them into one file."
            )
            raise DownloadError(msg)
        target = place_for(name, to)
        for file in files:
            path = target / real_name(file.removeprefix(below))
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._connection.ask(Client.download, self.id, file, path)
            except OSError as failed:
                raise _not_saved(file, to, failed) from None
        return target

    def checkpoints(self) -> Checkpoints:
        """Return the checkpoints that the job has saved, the newest first."""
        return Checkpoints(self._connection.ask(Client.checkpoints, self.id))

    def delete_checkpoints(self, *names: str, force: bool = False) -> Checkpoints:
        """Delete checkpoints of the job by their names, and return the others.

        The one that an unfinished job resumes from is deleted with ``force`` only.
        """
        return Checkpoints(self._connection.ask(Client.delete_checkpoints, self.id, names, force=force))

    def fork(
        self,
        /,
        *,
        step: float | None = None,
        checkpoint: str | None = None,
        kwargs: Mapping[str, Any] | None = None,
        **keywords: Any,
    ) -> Job:
        """Continue from a checkpoint as a new job, and return its handle: ``job.fork(step=40, lr=0.01)``.

        The checkpoint is that of ``step``, or the one named ``checkpoint``, else the newest. Keywords that are
        options of `Pool.submit` are given instead of the job's. All others are arguments of its function, command
        or notebook by name, as those of `rerun`. Arguments with the name of an option, and new options of a
        command, are given as ``kwargs={"gpus": 2}`` and ``kwargs={"--decay": 0.5}``.

        Code, files and other arguments are the job's; `Pool.fork` continues with other code. Only your own jobs
        can be forked. Raises `OptionError`, and `CaptureError` for variables that cannot be carried.
        """
        info = self.info
        options, arguments = _divided(info, kwargs, keywords)
        job = answered(
            lambda: self._connection.ask(
                Client.fork,
                self.id,
                self._changes(options),
                step=step,
                checkpoint=checkpoint,
                arguments=typed_arguments(info, arguments),
            )
        )
        return Job(job.id, self._way)

    def metrics(self) -> Metrics:
        """Return everything that the job has reported so far, over all its attempts; also as a frame of pandas."""
        return Metrics(self._connection.ask(all_points, self.id))

    def notebook(self) -> NotebookDocument:
        """Return the executed notebook of a notebook job, as far as it ran: it displays itself, and can be saved.

        ``job.notebook().save("run.ipynb")``; its parts are those of the notebook format, ``["cells"]`` for one.
        """
        job = self.info
        if job.kind != "notebook":
            msg = f"Job {phrases.clean(job.name)} ran a {job.kind}, not a notebook."
            raise NoResultError(msg)
        return NotebookDocument(json.loads(self.output(file_run(job.argv))))

    def logs(self, *, follow: bool = False, rank: int = 0, tail: int | None = None) -> LogOutput | None:
        """Return the output of the worker ``rank``; with ``follow``, print it as it comes until the job ends.

        ``tail`` is the number of last lines to begin with, all by default.
        """
        if follow:
            try:
                for text in self._log_texts(rank, LOG_WAIT_S, tail):
                    sys.stdout.write(text)
                    sys.stdout.flush()
            except KeyboardInterrupt:
                raise WaitInterrupted(NO_LONGER.format(self.id)) from None
            return None
        return LogOutput("".join(self._log_texts(rank, 0, tail)))

    def _log_texts(self, rank: int, wait: float, tail: int | None) -> Iterator[str]:
        """Yield the log, or its last ``tail`` lines, and with ``wait`` what follows until the job has ended."""
        width = LINE if wait and is_rewritten(sys.stdout) else None
        text, limit = LogText(colours=True, width=width), wire.LONGEST_LOG_PIECE
        first = [] if tail is None else self._connection.ask(Client.log_tail, self.id, tail, rank=rank)
        offset, attempt = 0, first[0].attempt if first else 1
        while True:
            if first:
                piece = first.pop(0)
            else:
                piece = self._connection.ask(Client.log, self.id, rank=rank, offset=offset, limit=limit, wait=wait)
            if piece.text and piece.attempt != attempt:
                attempt = piece.attempt
                yield f"{text.finish()}{attempt_mark(self.info, attempt, time.time())}\n"
            yield text.feed(piece.text)
            if not first and not piece.text and (piece.ended or not wait):
                yield text.finish()
                return
            offset = piece.next

    def _require_success(self, job: wire.Job) -> None:
        if job.state == "cancelled":
            msg = f"Job {phrases.clean(job.name)} was cancelled, so it has no result."
            raise JobCancelledError(msg)
        if job.state == "failed":
            name, error = phrases.clean(job.name), phrases.clean(job.error)
            msg = f"Job {name} failed. {error} See job.logs() for the rest."
            raise JobFailedError(msg, self.traceback)

    @property
    def traceback(self) -> str:
        """The traceback that Python printed when the job's function or notebook failed; empty if it did not."""
        try:
            text = json.loads(self.output(ERROR))["traceback"]
        except (NoResultError, ValueError, KeyError, TypeError):
            return ""
        return whole_text(str(text), colours=True)

    # ---------- display

    def _words(self, info: wire.Job) -> tuple[str, str]:
        now = time.time()
        return plain.job_text(info, now), plain.job_html(info, now)


def _divided(
    job: wire.Job, kwargs: Mapping[str, Any] | None, keywords: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of a fork among its keywords, and its arguments. Raises `OptionError` for wrong ones."""
    options = {name: value for name, value in keywords.items() if name in OPTION_NAMES}
    others = {name: value for name, value in keywords.items() if name not in OPTION_NAMES}
    arguments = others if kwargs is None else {**others, **kwargs}
    twice = next((name for name in kwargs or () if name.lstrip("-+").replace("-", "_") in others), None)
    if twice is not None:
        raise OptionError(f"The argument {given(twice)} is given twice: in kwargs and as a keyword. Give it once.")
    known = job.arguments if job.kind != "command" else {}
    both = next((name for name in options if kwargs is None and name in known), None)
    if both is not None:
        msg = (
            f"{given(both)} is an option of a job and a parameter of its {job.kind} too. Pass the "
            f"parameters as kwargs={{…}}, which may be empty; then {both}=… is the option."
        )
        raise OptionError(msg)
    return options, arguments


def loaded(kept: bytes, job_id: str) -> Any:
    """Return a result, the caller's own or trusted. Raises `NoResultError` if it cannot be loaded here."""
    try:
        with kept_out_of_sight():
            return pickle.loads(kept)  # noqa: S301 - the caller's own, or explicitly trusted
    except ModuleNotFoundError as error:
        hint = f"Its module {error.name} is not installed here: %pip install it, or load it where it is."
    except AttributeError as error:
        hint = f"{phrases.clean(str(error))}. Run the cells that define it, or update the package it is from."
    msg = f"The result of job {job_id} cannot be loaded here. {hint} job.output({RESULT!r}) has its bytes."
    raise NoResultError(msg)


def _not_saved(name: str, to: str | os.PathLike[str], error: OSError) -> DownloadError:
    """Return the error for a file that could not be saved here."""
    return DownloadError(
        f"{given(name, LONG_GIVEN)} could not be saved as {given(str(to), LONG_GIVEN)}: {error.strerror}. "
        "Name another directory or file."
    )


def all_points(client: Client, job_id: str) -> list[wire.Point]:
    """Return everything that a job has reported so far."""
    return list(client.all_points(job_id))

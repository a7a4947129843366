"""The handle of something in the pool: it holds only the id, everything else is fetched."""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import Any, Self, TypeAlias

from msgspec import UNSET

from springtide.scheduler import capture, wire
from springtide.scheduler.arguments import BadArgument, typed_of
from springtide.scheduler.client import Client
from springtide.scheduler.client.descriptions import state_words
from springtide.scheduler.wire import BadOption
from springtide.scheduler.wire.durations import seconds
from springtide.scheduler.wire.options import unknown_option
from springtide.scheduler.wire.submission import checked
from springtide.widgets.connection import Connection, PoolError, connection, own
from springtide.widgets.display import phrases, progress_bar
from springtide.widgets.display.document import job_output
from springtide.widgets.display.feed import JobFeed
from springtide.widgets.display.listener import listener
from springtide.widgets.display.live_job import FINAL
from springtide.widgets.errors import (
    CaptureError,
    NotFinishedError,
    OptionError,
    SpringtideError,
    UntrustedResultError,
)
from springtide.widgets.results import arguments_of

Timeout: TypeAlias = float | str | timedelta | None
"""How long to wait: seconds, a text such as ``"10m"``, or None for as long as it takes."""
ENDED = 409
"""Status of the refusal to cancel a job that has ended."""
NO_ARGUMENTS: Mapping[str, Any] = MappingProxyType({})
NO_LONGER = "No longer waiting. The job continues; pool.job('{}') brings it back."


class WaitInterrupted(KeyboardInterrupt):
    """Waiting was interrupted. The job continues."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


class Handle(ABC):
    """A handle of a job or of a sweep. It can be made again from the id at any time: ``pool.job(id)``.

    All methods raise `PoolError` when the pool refuses and `UnreachableError` when it does not answer.
    """

    def __init__(self, job_id: str, way: Connection | None = None, notes: Sequence[str] = ()) -> None:
        self.id = job_id
        self._way = way
        self.notes = tuple(notes)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.id,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handle) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    # ---------- state

    @property
    def info(self) -> wire.Job:
        """The pool's present description of the job."""
        return self._connection.ask(Client.job, self.id)

    @property
    def name(self) -> str:
        """The job's name."""
        return self.info.name

    @property
    def state(self) -> str:
        """One of queued, starting, running, pausing, paused, succeeded, failed and cancelled."""
        return self.info.state

    @property
    def shown(self) -> str:
        """The state as people read it, such as ``cancelling`` or ``succeeded, 2 of 12 trials failed``."""
        return state_words(self.info)

    @property
    def done(self) -> bool:
        """Whether the job has ended."""
        return self.state in FINAL

    @property
    def reason(self) -> str:
        """Why the job waits, or what happens to it, in words."""
        return phrases.why(self.info)

    @property
    def starts(self) -> str:
        """When the job is expected to start or resume, in words; empty unless it waits."""
        return phrases.starts(self.info, time.time())

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the job by name, as tables show them."""
        return arguments_of(self.info)

    @property
    def tags(self) -> list[str]:
        """The job's tags, words of your own by which it is found: ``job.tags = ["baseline"]`` sets others.

        They can be set as long as the pool knows the job. Setting raises `OptionError`, and `PoolError`.
        """
        return list(self.info.options.tags)

    @tags.setter
    def tags(self, tags: Sequence[str]) -> None:
        self._edit_tags(tags=_tags(tags))

    def tag(self, *tags: str) -> None:
        """Add tags to the job: ``job.tag("best")``. Raises `OptionError`, and `PoolError` for too many."""
        self._edit_tags(add=_tags(tags))

    def untag(self, *tags: str) -> None:
        """Remove tags from the job; one that it does not have changes nothing."""
        self._edit_tags(remove=_tags(tags))

    @property
    def note(self) -> str:
        """A note about the job, which *My jobs* shows: ``job.note = "best so far"``; an empty one removes it."""
        return self.info.note

    @note.setter
    def note(self, text: str) -> None:
        self._mark(note=text)

    def archive(self, *, archived: bool = True) -> None:
        """Leave the job out of lists; with ``archived=False`` it is in them again. Nothing of it is deleted."""
        self._mark(archived=archived)

    def pin(self, *, pinned: bool = True) -> None:
        """Show the job first in *My jobs*; with ``pinned=False`` no longer."""
        self._mark(pinned=pinned)

    def _mark(self, **change: Any) -> None:
        self._connection.ask(Client.mark, self.id, wire.MarksEdit(**change))

    def _edit_tags(self, **change: list[str]) -> None:
        self._connection.ask(Client.edit_tags, self.id, wire.TagsEdit(**change))

    # ---------- actions

    def pause(self) -> None:
        """Pause the job at its next checkpoint; it waits until it is resumed."""
        self._connection.ask(Client.pause, self.id)

    def resume(self) -> None:
        """Let the job run again after `pause`."""
        self._connection.ask(Client.resume, self.id)

    def edit(
        self,
        *,
        priority: Any = UNSET,
        project: Any = UNSET,
        time_limit: Any = UNSET,
        reason: str = "",
        **workers: Any,
    ) -> None:
        """Change what the job asks for, or its project, while it does not run; a field left out stays.

        ``time_limit`` None removes the limit. ``workers`` and ``min_workers`` are changed as well, if given. The
        ``reason`` is kept in the audit trail. Raises `OptionError` for values that options do not take, and
        `PoolError` if the pool would not take such a job.
        """
        given = {"priority": priority, "time_limit": time_limit, **workers}
        try:
            changes = checked({name: value for name, value in given.items() if value is not UNSET})
        except BadOption as error:
            raise OptionError(str(error)) from None
        if unknown := changes.keys() - set(wire.OPTIONS_EDITED):
            raise OptionError(str(unknown_option(min(unknown), ("project", "reason", *wire.OPTIONS_EDITED))))
        self._connection.ask(Client.edit, self.id, wire.JobEdit(**changes, project=project, reason=reason))

    def cancel(self, *, children: bool = False, now: bool = False) -> None:
        """End the job for good; with ``children`` also the unfinished jobs that its program has submitted.

        It has its grace period to end, then it is killed. With ``now`` it has 5 seconds; one that is being
        cancelled is killed at once.
        """
        if not children:
            self._connection.ask(Client.end if now else Client.cancel, self.id)
            return
        for acted in self._connection.ask(partial(Client.cancel_with_children, now=now), self.id):
            if acted.problem is not None and acted.problem.status != ENDED:
                raise PoolError(acted.problem)

    def delete(self) -> None:
        """Delete the job for good, which has ended: its files, log, checkpoints, outputs and arguments.

        A sweep is deleted with its trials. Forks of the job keep their checkpoints. Raises `PoolError` for a job
        that has not ended.
        """
        self._connection.ask(Client.delete, self.id)

    def mark_finished(self) -> None:
        """End the job, which waits after an attempt, as succeeded: it is complete, and is not run again."""
        self._connection.ask(Client.finish, self.id)

    def rerun(
        self, *, arguments: Mapping[str, Any] = NO_ARGUMENTS, from_start: bool = False, **options: Any
    ) -> Self:
        """Run the job again and return the handle of the new run at once: ``job.rerun(gpus=2)``.

        Options are those of `Pool.submit`, given instead of those of the first run; variables of ``env`` are added
        to the first run's. ``arguments`` are other arguments of its function, command or notebook by name:
        ``job.rerun(arguments={"lr": 0.1})``. An option that a command does not have yet is named as the command
        takes it: ``{"--decay": 0.5}``. Everything else stays the same: code, other arguments, files, working
        directory. Only your own jobs can be run again, as long as the pool keeps their files, and a trial only
        with its sweep. That of a fork continues from the same checkpoint, as long as that is there, unless
        ``from_start``. Raises `OptionError`, and `CaptureError` for variables that cannot be carried.
        """
        typed = typed_arguments(self.info, arguments) if arguments else {}
        job = self._connection.ask(Client.rerun, self.id, self._changes(options), typed, from_start=from_start)
        return type(self)(job.id, self._way)

    def _changes(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return options as requests carry them. Raises `OptionError` and `CaptureError`."""
        try:
            return capture.with_carried(checked(options), capture.kernel_place(capture.working_directory()))
        except BadOption as error:
            raise OptionError(str(error)) from None
        except capture.CaptureError as error:
            raise CaptureError(str(error)) from None

    # ---------- waiting

    def wait(self, timeout: Timeout = None, *, quiet: bool = False) -> Self:
        """Wait until the job has ended, with a progress bar unless ``quiet``, and return the handle.

        ``timeout`` is in seconds, or a text such as ``"10m"``; then `NotFinishedError` is raised, which is a
        `TimeoutError`. Interrupting the kernel only ends the wait: the job continues. Raises `OptionError` for a
        timeout that is no duration.
        """
        until = _until(timeout)
        news = threading.Condition()
        latest: list[wire.Job | Exception] = []

        def seen(job: wire.Job | Exception) -> None:
            with news:
                latest[:] = [job]
                news.notify_all()

        shown = None if quiet else progress_bar.Bar()
        feed = JobFeed(self._connection.client, self.id, seen)
        try:
            job = self.info
            listener(self._connection.client).add(feed)
            while True:
                if shown is not None:
                    shown.show(job)
                left = None if until is None else until - time.monotonic()
                if job.state in FINAL:
                    return self
                if left is not None and left <= 0:
                    raise self._not_finished(job)
                with news:
                    if news.wait_for(lambda: bool(latest), left):
                        job = known(latest.pop())
        except KeyboardInterrupt:
            raise WaitInterrupted(NO_LONGER.format(self.id)) from None
        finally:
            listener(self._connection.client).remove(feed)
            if shown is not None:
                shown.close()

    def _not_finished(self, info: wire.Job) -> NotFinishedError:
        noun = type(self).__name__
        words = f"{noun} {phrases.clean(info.name)} is still {state_words(info)}."
        return NotFinishedError(f"{words} It continues; ask again, or `await {noun.lower()}`.")

    async def _ended(self) -> None:
        """Wait until the job has ended."""
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()

        def seen(job: wire.Job | Exception) -> None:
            if isinstance(job, Exception) or job.state in FINAL:
                loop.call_soon_threadsafe(ended.set)

        feed = JobFeed(self._connection.client, self.id, seen)
        listener(self._connection.client).add(feed)
        try:
            await ended.wait()
        finally:
            listener(self._connection.client).remove(feed)

    # ---------- display

    def show(self) -> None:
        """Display the live card."""
        show(self)

    @abstractmethod
    def _words(self, info: wire.Job) -> tuple[str, str]:
        """Return text and HTML in place of a live card."""

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        try:
            info = self.info
        except SpringtideError as error:
            return {"text/plain": f"{self!r}: {error}"}
        notice = " ".join(self.notes)
        text, html = self._words(info)
        fallback = {**job_output(info, time.time(), notice), "text/plain": text, "text/html": html}
        try:
            from springtide.widgets.display.card import bundle, card  # noqa: PLC0415 - the extra may be missing
        except ModuleNotFoundError:
            return fallback
        return {**bundle(card(self._connection, info, notice)), **fallback}

    def _require_trust(self, user: str, *, trust: bool, call: str) -> None:
        """Raise `UntrustedResultError` if the result is another person's, unless the caller trusts it."""
        if trust or user == self._connection.ask(Client.me).name:
            return
        msg = (
            f"This result was written by {phrases.clean(user)}'s job, and loading it would run code of "
            f"{phrases.clean(user)} in this notebook. If that is all right, say {call}."
        )
        raise UntrustedResultError(msg)

    @property
    def _connection(self) -> Connection:
        if self._way is None:
            self._way = connection()
        return self._way


def _tags(tags: Sequence[str]) -> list[str]:
    """Return tags as requests carry them. Raises `OptionError`."""
    try:
        found: list[str] = checked({"tags": tags})["tags"]
    except BadOption as error:
        raise OptionError(str(error)) from None
    return found


def _until(timeout: Timeout) -> float | None:
    """Return the end of a wait on the steady clock, None for no end. Raises `OptionError`."""
    if timeout is None:
        return None
    try:
        return time.monotonic() + seconds(timeout)
    except ValueError as error:
        raise OptionError(f"The timeout {error}.") from None


def typed_arguments(job: wire.Job, arguments: Mapping[str, Any]) -> dict[str, str | None]:
    """Return other arguments of a job as requests carry them. Raises `OptionError`."""
    try:
        return typed_of(job.kind, job.arguments, arguments)
    except BadArgument as error:
        raise OptionError(str(error)) from None


def known(job: wire.Job | Exception) -> wire.Job:
    """Return the job, or raise the error in its place."""
    if isinstance(job, Exception):
        raise own(job)
    return job


def show(thing: Any) -> None:
    """Display something in the notebook."""
    import_module("IPython.display").display(thing)

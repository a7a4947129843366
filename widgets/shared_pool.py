"""The pool as a notebook sees it: ``from springtide.widgets import pool``."""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from springtide.scheduler import wire
from springtide.scheduler.capture import Captured, Here, submission
from springtide.scheduler.client import Client
from springtide.scheduler.client.times import prospect
from springtide.widgets.connection import Connection, connection
from springtide.widgets.display import phrases, plain
from springtide.widgets.display.output_types import jobs_output, pool_output
from springtide.widgets.errors import SpringtideError
from springtide.widgets.job import Job, show
from springtide.widgets.results import frame, job_rows
from springtide.widgets.submission.capture import Work, capture, capture_cell
from springtide.widgets.submission.keywords import NAMES, check_names, split_keywords, takes_options
from springtide.widgets.submission.options import check_size, checked, wish

if TYPE_CHECKING:
    from pandas import DataFrame

    from springtide.widgets.form.backend import FormBackend
    from springtide.widgets.form.form import JobForm

UNCHECKED = 2**20
"""A request up to this many bytes is sent without asking first how much the pool takes."""


class Jobs(list[Job]):
    """Handles of jobs, shown as a table. ``infos`` are the jobs as they were when they were listed."""

    def __init__(self, jobs: Iterable[wire.Job], way: Connection | None) -> None:
        self.infos = list(jobs)
        super().__init__(Job(job.id, way) for job in self.infos)

    def to_frame(self) -> DataFrame:
        """Return a frame of pandas with a row for each job, as it was when it was listed.

        Times are in seconds since 1970, ``gpu_hours`` are GPU-hours. Raises `MissingPackageError`.
        """
        return frame(job_rows(self.infos))

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return {
            **jobs_output(self.infos, time.time()),
            "text/plain": plain.jobs_text(self.infos),
            "text/html": plain.jobs_html(self.infos),
        }


class Prospect:
    """When a job that is not submitted would start, in words; ``forecast`` has the numbers."""

    def __init__(self, forecast: wire.Forecast) -> None:
        self.forecast = forecast

    def __repr__(self) -> str:
        return phrases.clean(prospect(self.forecast))


class Pool:
    """The shared pool. Displayed, it is the pool at a glance: each project's quota, held, borrowed, waiting.

    All methods raise `NotOnHubError` where there is no pool, `PoolError` when it refuses and
    `UnreachableError` when it does not answer; a notebook shows these as one sentence.
    """

    def __init__(self, way: Connection | None = None) -> None:
        self._way = way

    def __reduce__(self) -> tuple[Any, ...]:
        return Pool, ()

    @takes_options
    def submit(self, work: Work, /, *args: Any, kwargs: Mapping[str, Any] | None = None, **keywords: Any) -> Job:
        """Send a job to the pool and return its handle at once.

        ``work`` is one of

        - a function, called with ``args`` and the keywords that are no options:
          ``pool.submit(train, 0.1, gpus=4)``
        - a command: ``pool.submit("python train.py --epochs 3", gpus=4)``, or a list of its words
        - a notebook: ``pool.submit("story.ipynb", gpus=4)``; it is executed and the executed copy is kept

        A function that has a parameter with the name of an option gets its keywords as ``kwargs={"gpus": 2}``;
        then all other keywords are options.

        What runs is the code and the arguments of this moment: functions, and what they use from the notebook and
        from modules in the working directory, are pickled; scripts and the files beside them are copied. Data
        is read where it lies, in this working directory, when the job runs. Raise `CaptureError` and
        `OptionError` when nothing was submitted because of what was asked for.

        Options:

        {options}
        """
        options, call = split_keywords(work, kwargs, keywords)
        return self.send(capture(work, args, call, here()), options)

    def submit_cell(
        self, text: str, namespace: dict[str, Any], hidden: Iterable[str], options: Mapping[str, Any]
    ) -> Job:
        """Send the text of a cell with the variables it reads from ``namespace``, except ``hidden`` ones."""
        return self.send(capture_cell(text, namespace, hidden, here()), options)

    def send(self, captured: Captured, options: Mapping[str, Any]) -> Job:
        """Send what was captured."""
        request = submission(captured, checked(options), uuid.uuid4().hex)
        if sum(len(content) for content in request.files.values()) > UNCHECKED:
            check_size(request, self.me.max_body, captured.sizes)
        accepted = self.connection.ask(Client.submit, request)
        return Job(accepted.id, self._way, captured.notes)

    @takes_options
    def when(self, **options: Any) -> Prospect:
        """Return when a job with these options of `submit` would start, and what would be paused for it.

        Nothing is submitted: ``pool.when(gpus=4)``, ``pool.when(gpus=8, workers=2, project="vision")``.
        """
        check_names(name for name in options if name not in NAMES)
        return Prospect(self.connection.ask(Client.when, wish(options)))

    def jobs(
        self,
        state: str | None = None,
        *,
        project: str | None = None,
        search: str | None = None,
        since: datetime | float | None = None,
        everyone: bool = False,
        limit: int | None = None,
    ) -> Jobs:
        """Return your jobs, or ``everyone``'s of your projects, newest first; handles come back after a restart.

        ``state`` may name several states, with commas between; ``search`` are words that the name, the user, the
        project or the id contains; ``since`` is the earliest time of submission, a `datetime` or seconds since
        1970. ``limit`` is the maximum number of jobs; without it the list is complete.
        """
        filters: dict[str, Any] = {
            "state": state,
            "project": project,
            "search": search,
            "since": since.timestamp() if isinstance(since, datetime) else since,
            "mine": not everyone,
        }
        if limit is not None:
            return Jobs(self.connection.ask(Client.jobs, **filters, limit=limit).items, self._way)
        return Jobs(self.connection.ask(_all_jobs, **filters), self._way)

    def job(self, job_id: str) -> Job:
        """Return the handle of one job."""
        return Job(self.connection.ask(Client.job, job_id).id, self._way)

    def form(self) -> JobForm:
        """Return a form to submit jobs with, offering what you may ask for."""
        from springtide.widgets.form.form import JobForm  # noqa: PLC0415 - needs the extra

        return JobForm(self.connection, backend_of(self))

    def show(self) -> None:
        """Display the pool at a glance."""
        show(self)

    @property
    def me(self) -> wire.Me:
        """Who you are, and what you may ask for."""
        return self.connection.ask(Client.me)

    @property
    def connection(self) -> Connection:
        """The way to the pool."""
        return self._way or connection()

    def __repr__(self) -> str:
        return "springtide.widgets.pool"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        try:
            view = self.connection.ask(Client.pool)
        except SpringtideError as error:
            return {"text/plain": str(error)}
        fallback = {
            **pool_output(view, time.time()),
            "text/plain": plain.pool_text(view),
            "text/html": plain.pool_html(view),
        }
        try:
            from springtide.widgets.display.card import PoolCard, bundle  # noqa: PLC0415 - the extra may be missing
        except ModuleNotFoundError:
            return fallback
        return {**bundle(PoolCard(self.connection)), **fallback}


class FormAnswer:
    """The answer to a form that JupyterLab or Notebook draws: the page evaluates this and reads the data."""

    def __init__(self, asked: str) -> None:
        self._asked = asked

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return {"application/json": backend_of(Pool()).answer(json.loads(self._asked)), "text/plain": ""}


def backend_of(pool: Pool, variables: Callable[[], Mapping[str, Any]] | None = None) -> FormBackend:
    """Return what answers a form; ``variables`` gives those of the notebook unless it is another function."""
    from springtide.widgets.form.backend import FormBackend  # noqa: PLC0415 - few need it

    return FormBackend(lambda: pool.connection, pool.submit, variables or namespace)


def _all_jobs(client: Client, /, **filters: Any) -> list[wire.Job]:
    return list(client.all_jobs(**filters))


def here() -> Here:
    """Return the notebook's directory, interpreter and file."""
    session = os.environ.get("JPY_SESSION_NAME")
    return Here(Path.cwd(), sys.executable, Path(session) if session else None)


def namespace() -> dict[str, Any]:
    """Return the variables of the notebook without IPython's own; outside of one, those of the program."""
    find = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = None if find is None else find()
    if shell is None:
        return vars(sys.modules["__main__"])
    return {name: value for name, value in shell.user_ns.items() if name not in shell.user_ns_hidden}

"""The pool as a notebook sees it: ``from springtide.widgets import pool``."""

from __future__ import annotations

import difflib
import inspect
import os
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from springtide.scheduler import wire
from springtide.scheduler.capture import Captured, Here
from springtide.scheduler.client import Client
from springtide.scheduler.client.times import prospect
from springtide.widgets import plain, words
from springtide.widgets.capture import Work, capture, capture_cell
from springtide.widgets.connection import Connection, connection
from springtide.widgets.errors import OptionError, SpringtideError
from springtide.widgets.handle import Job, show
from springtide.widgets.options import NAMES, Options, check_size, submission, wish

if TYPE_CHECKING:
    from springtide.widgets.form import JobForm

UNCHECKED = 2**20
"""A request up to this many bytes is sent without asking first how much the pool takes."""


class Jobs(list[Job]):
    """Handles of jobs, shown as a table."""

    def __init__(self, jobs: Iterable[wire.Job], way: Connection | None) -> None:
        self._known = list(jobs)
        super().__init__(Job(job.id, way) for job in self._known)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": plain.jobs_text(self._known), "text/html": plain.jobs_html(self._known)}


class Prospect:
    """When a job that is not submitted would start, in words; ``forecast`` has the numbers."""

    def __init__(self, forecast: wire.Forecast) -> None:
        self.forecast = forecast

    def __repr__(self) -> str:
        return words.clean(prospect(self.forecast))


class Pool:
    """The shared pool. Displayed, it is the pool at a glance: each project's quota, held, borrowed, waiting.

    All methods raise `NotOnHubError` where there is no pool, `PoolError` when it refuses and
    `UnreachableError` when it does not answer; a notebook shows these as one sentence.
    """

    def __init__(self, way: Connection | None = None) -> None:
        self._way = way

    def __reduce__(self) -> tuple[Any, ...]:
        return Pool, ()

    def submit(self, work: Work, /, *args: Any, kwargs: Mapping[str, Any] | None = None, **keywords: Any) -> Job:
        """Send a job to the pool and return its handle at once.

        ``work`` is one of

        - a function, called with ``args`` and the keywords that are no options:
          ``pool.submit(train, 0.1, gpus=4)``
        - a command: ``pool.submit("python train.py --epochs 3", gpus=4)``, or a list of its words
        - a notebook: ``pool.submit("story.ipynb", gpus=4)``; it is executed and the executed copy is kept

        Options: ``gpus`` per worker (1), ``workers`` (1), ``min_workers``, ``project``, ``name``, ``priority``
        ("train", "high" or a number), ``preemptible``, ``gpu_types``, ``require``, ``prefer``, ``rotate``,
        ``time_limit`` (seconds or a timedelta), ``retries``, ``grace`` (seconds), ``env``, ``image`` (of a
        container, on a cluster; this notebook's unless another is named).

        A function that has a parameter with the name of an option gets its keywords as ``kwargs={"gpus": 2}``;
        then all other keywords are options.

        What runs is the code and the arguments of this moment: functions, and what they use from the notebook and
        from modules in the working directory, are pickled; scripts and the files beside them are copied. Data
        is read where it lies, in this working directory, when the job runs. Raises `CaptureError` and
        `OptionError` when nothing was submitted because of what was asked for.
        """
        options, call = split_keywords(work, kwargs, keywords)
        return self.send(capture(work, args, call, here()), options)

    def submit_cell(self, text: str, namespace: dict[str, Any], hidden: Iterable[str], options: Options) -> Job:
        """Send the text of a cell with the variables it reads from ``namespace``, except ``hidden`` ones."""
        return self.send(capture_cell(text, namespace, hidden, here()), options)

    def send(self, captured: Captured, options: Options) -> Job:
        """Send what was captured."""
        request = submission(captured, options, uuid.uuid4().hex)
        if sum(len(content) for content in request.files.values()) > UNCHECKED:
            check_size(request, self.me.max_body, captured.sizes)
        accepted = self.connection.ask(Client.submit, request)
        return Job(accepted.id, self._way, captured.notes)

    def when(self, **options: Any) -> Prospect:
        """When a job with these options of `submit` would start, and what would be paused for it.

        Nothing is submitted: ``pool.when(gpus=4)``, ``pool.when(gpus=8, workers=2, project="vision")``.
        """
        unknown = [name for name in options if name not in NAMES]
        if unknown:
            msg = f"`{unknown[0]}` is no option of a job. Options are {', '.join(sorted(NAMES))}."
            raise OptionError(msg)
        return Prospect(self.connection.ask(Client.when, wish(Options(**options))))

    def jobs(
        self, state: str | None = None, *, project: str | None = None, everyone: bool = False, limit: int = 20
    ) -> Jobs:
        """The newest jobs, yours or ``everyone``'s of your projects; this brings handles back after a restart."""
        page = self.connection.ask(Client.jobs, state=state, project=project, mine=not everyone, limit=limit)
        return Jobs(page.items, self._way)

    def job(self, job_id: str) -> Job:
        """The handle of one job."""
        return Job(self.connection.ask(Client.job, job_id).id, self._way)

    def form(self) -> JobForm:
        """A form to submit jobs with, offering what you may ask for."""
        from springtide.widgets.form import JobForm  # noqa: PLC0415 - needs the extra

        return JobForm(self.connection, self.submit, namespace)

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
        fallback = {"text/plain": plain.pool_text(view), "text/html": plain.pool_html(view)}
        try:
            from springtide.widgets.card import PoolCard, bundle  # noqa: PLC0415 - the extra may be missing
        except ModuleNotFoundError:
            return fallback
        return {**bundle(PoolCard(self.connection)), **fallback}


def here() -> Here:
    """The notebook's directory, interpreter and file."""
    session = os.environ.get("JPY_SESSION_NAME")
    return Here(Path.cwd(), sys.executable, Path(session) if session else None)


def namespace() -> dict[str, Any]:
    """The variables of the notebook, or of the program outside one; without what IPython keeps there itself."""
    find = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = None if find is None else find()
    if shell is None:
        return vars(sys.modules["__main__"])
    return {name: value for name, value in shell.user_ns.items() if name not in shell.user_ns_hidden}


def split_keywords(
    work: Work, kwargs: Mapping[str, Any] | None, keywords: Mapping[str, Any]
) -> tuple[Options, Mapping[str, Any]]:
    """Which keywords are options and which are the function's own. Raises `OptionError` where that is unclear."""
    options = {name: value for name, value in keywords.items() if name in NAMES}
    others = {name: value for name, value in keywords.items() if name not in NAMES}
    own = _parameters(work) if callable(work) else {}
    if kwargs is None:
        for name in options:
            if name in own:
                msg = (
                    f"`{name}` is an option of submit and a parameter of the function too. Pass the function's "
                    f"keywords as kwargs={{{name!r}: …}} (or kwargs={{}}); then {name}=… is the option."
                )
                raise OptionError(msg)
        takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in own.values())
        unknown = [name for name in others if not callable(work) or not (takes_any or not own or name in own)]
    else:
        unknown = list(others)
    if unknown:
        near = difflib.get_close_matches(unknown[0], NAMES, 1)
        hint = f"Did you mean {near[0]}?" if near else f"Options are {', '.join(sorted(NAMES))}."
        msg = f"`{unknown[0]}` is no option of submit{' and no parameter of the function' if own else ''}. {hint}"
        raise OptionError(msg)
    return Options(**options), others if kwargs is None else kwargs


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}

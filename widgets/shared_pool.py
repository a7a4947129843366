"""The pool as a notebook sees it: ``from springtide.widgets import pool``."""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from springtide.scheduler import wire
from springtide.scheduler.capture import (
    Captured,
    Here,
    check_kernel,
    environment_shown,
    kernel_place,
    notes_of,
    submission,
    uncarried_words,
    unsent,
    working_directory,
)
from springtide.scheduler.client import Client
from springtide.scheduler.client.descriptions import image_of, none_matches, prospect
from springtide.scheduler.client.presets import as_filled
from springtide.scheduler.client.transport import encoded
from springtide.widgets.comparison import Comparison
from springtide.widgets.connection import Connection, connection
from springtide.widgets.display import phrases, plain
from springtide.widgets.display.document import jobs_output, pool_output
from springtide.widgets.display.plain import Environment
from springtide.widgets.errors import OptionError, SpringtideError
from springtide.widgets.handle import Handle, show
from springtide.widgets.interrupts import answered
from springtide.widgets.job import Job, all_points
from springtide.widgets.results import JOB_COLUMNS, JOB_TIMES, Advised, Presets, frame, job_rows
from springtide.widgets.submission.capture import Work, capture, capture_cell, capture_payload, own_errors
from springtide.widgets.submission.keywords import NAMES, check_names, check_own, split_keywords, takes_options
from springtide.widgets.submission.options import check_size, checked
from springtide.widgets.submission.spaces import bound_of_trials, population_of
from springtide.widgets.submission.sweeps import (
    Plan,
    Wanted,
    is_study,
    plan_items,
    plan_population,
    plan_space,
    plan_study,
)
from springtide.widgets.sweep import Sweep, handle_of

if TYPE_CHECKING:
    from pandas import DataFrame

    from springtide.widgets.form.backend import FormBackend
    from springtide.widgets.form.form import JobForm

UNCHECKED = 2**20
"""A request up to this many bytes is sent without asking first how much the pool takes."""


NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})


class Jobs(list[Job | Sweep]):
    """Handles of jobs and sweeps, shown as a table. ``infos`` are the jobs as they were when they were listed.

    ``none`` is the sentence of an empty list, if filters chose among the jobs.
    """

    def __init__(self, jobs: Iterable[wire.Job], way: Connection | None, none: str = "") -> None:
        self.infos = list(jobs)
        self.none = none
        super().__init__(handle_of(job, way) for job in self.infos)

    def to_frame(self) -> DataFrame:
        """Return a frame of pandas with a row for each job, as it was when it was listed.

        Arguments and reported values have columns of their own; those called like another column have the columns
        ``argument.NAME`` and ``reported.NAME``. ``submitted``, ``started`` and ``ended`` are times in UTC, so that
        ``frame["ended"] - frame["started"]`` is a duration; ``gpu_hours`` are GPU-hours. Raises
        `MissingPackageError`.
        """
        return frame(job_rows(self.infos), times=JOB_TIMES, heads=JOB_COLUMNS)

    def __repr__(self) -> str:
        return plain.jobs_text(self.infos, self.none)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return {
            **jobs_output(self.infos, time.time(), self.none),
            "text/plain": plain.jobs_text(self.infos, self.none),
            "text/html": plain.jobs_html(self.infos, self.none),
        }


class Prospect:
    """When a job that is not submitted would start, in words; ``forecast`` has the numbers."""

    def __init__(self, forecast: wire.Forecast) -> None:
        self.forecast = forecast

    def __repr__(self) -> str:
        return phrases.clean(prospect(self.forecast))


class Pool:
    """The shared pool. Displayed, it is the pool at a glance: each project's quota, held, borrowed, waiting.

    All methods raise `NotOnHubError` if there is no pool, `PoolError` when it refuses and `UnreachableError` when
    it does not answer; a notebook shows these as one sentence.
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
        - a notebook: ``pool.submit("story.ipynb", gpus=4)``; it is executed and the executed copy is kept.
          Keywords that are no options are its parameters: ``pool.submit("story.ipynb", lr=0.1)`` sets the
          variable ``lr`` after the cell with the tag ``parameters``, or at the top if there is none

        A function that has a parameter with the name of an option gets its keywords as ``kwargs={"gpus": 2}``;
        then all other keywords are options.

        The job runs the code and the arguments of this moment: functions, and the objects that they use from the
        notebook and from modules in the working directory, are pickled; code and settings of the project are
        copied. Data is read where it lies when the job runs. Raises `CaptureError` or
        `OptionError` for invalid work or options; then nothing was submitted.

        Options:

        {options}
        """
        options, call = split_keywords(work, kwargs, keywords)
        return self.send(capture(work, args, call, here(options)), options)

    @takes_options
    def fork(
        self,
        job: Job | str,
        work: Work,
        /,
        *args: Any,
        step: float | None = None,
        checkpoint: str | None = None,
        kwargs: Mapping[str, Any] | None = None,
        **keywords: Any,
    ) -> Job:
        """Continue from a checkpoint of a job with the code of this moment, and return the handle of the new job.

        ``pool.fork(job, train, 0.01, step=40)``. ``work`` and its arguments are those of `submit`. The checkpoint
        is that of ``step``, or the one named ``checkpoint``, else the newest. Options that are not given are those
        of the first job; `Job.fork` keeps its code as well. Raises `CaptureError` and `OptionError`.

        Options:

        {options}
        """
        options, call = split_keywords(work, kwargs, keywords)
        captured = capture(work, args, call, here(options))
        request = _request(captured, options)
        named = {name: getattr(request, name) for name in checked(options)}
        accepted = answered(
            lambda: self.connection.ask(
                Client.fork,
                job if isinstance(job, str) else job.id,
                {**named, "env": request.env},
                step=step,
                checkpoint=checkpoint,
                program=wire.program_of(request),
                packed=captured.packed,
            )
        )
        return Job(accepted.id, self._way, (*captured.notes, *_notes(accepted, self._left(request))))

    def submit_cell(
        self, text: str, namespace: dict[str, Any], hidden: Iterable[str], options: Mapping[str, Any]
    ) -> Job:
        """Send the text of a cell with the variables it reads from ``namespace``, except ``hidden`` ones."""
        return self.send(capture_cell(text, namespace, hidden, here(options)), options)

    @takes_options
    def map(
        self,
        function: Callable[..., Any],
        items: Iterable[Any],
        /,
        *,
        metric: str = "",
        goal: str | None = None,
        at_least: int = 1,
        at_most: int | None = None,
        kwargs: Mapping[str, Any] | None = None,
        **keywords: Any,
    ) -> Sweep:
        """Call a function once for each item, each call a job of its own, and return the handle of all at once.

        ``pool.map(train, ["cat", "dog"], gpus=2).results()``. All calls are one sweep, as those of `sweep`: one
        row in lists and one place in line. Keywords that are no options go to the function in every call.

        Calls are compared, and `Sweep.best` is one of them, only with a ``metric``, the name of a reported value,
        or a ``goal``, ``minimize`` or ``maximize``, for the numbers that the function returns. ``at_most`` bounds
        the trials that are unfinished at a time, ``at_least`` those that wait in line. Raises `CaptureError` or
        `OptionError` for invalid work or options; then nothing was submitted.

        Options, for each trial:

        {options}
        """
        options, call = split_keywords(function, kwargs, keywords)
        wanted = Wanted(function, call, here().cwd, metric, goal)
        return self._send_sweep(plan_items(wanted, items), at_least, at_most, options, wanted)

    @takes_options
    def sweep(
        self,
        function: Callable[..., Any],
        space: Any,
        /,
        *,
        trials: int | None = None,
        metric: str = "",
        goal: str | None = None,
        at_least: int = 1,
        at_most: int | None = None,
        seed: int = 0,
        kwargs: Mapping[str, Any] | None = None,
        **keywords: Any,
    ) -> Sweep:
        """Try parameters of a function, each trial a job of its own, and return the handle of the sweep at once.

        ``space`` is one of

        - a dictionary of lists: ``pool.sweep(train, {"lr": [0.1, 0.01], "layers": [1, 2, 3]}, gpus=1)`` calls
          ``train(lr=…, layers=…)`` for all combinations, or for ``trials`` of them, chosen by ``seed``
        - a list of dictionaries, one for each trial
        - a study of Optuna, whose sampler chooses the parameters of ``trials`` trials and whose pruner ends bad
          ones: ``pool.sweep(objective, optuna.create_study(), trials=100)`` calls ``objective(trial)``. It needs
          the extra ``sweeps`` here and where the jobs run

        The value of a trial is the number that the function returns, or the last ``metric`` that it reports with
        ``job.report``; the best is the smallest, with ``goal="maximize"`` the largest, with a study as that says.

        A sweep runs as many trials as the pool has GPUs for, and gives them back like any job: paused trials
        resume with the same parameters. At most ``at_most`` trials are unfinished at a time, and ``at_least``
        wait. Raises `CaptureError` or `OptionError` for invalid work or options; then nothing was submitted.

        Options, for each trial:

        {options}
        """
        own = {"trials": trials, "metric": metric, "goal": goal, "at_most": at_most, "seed": seed}
        check_own(function, kwargs, space, (name for name, value in own.items() if value))
        options, call = split_keywords(function, kwargs, keywords)
        wanted = Wanted(function, call, here().cwd, metric, goal, trials, seed, workers=self._workers(options))
        plan = plan_study(wanted, space) if is_study(space) else plan_space(wanted, space)
        return self._send_sweep(plan, at_least, at_most, options, wanted)

    @takes_options
    def evolve(
        self,
        function: Callable[..., Any],
        space: Mapping[str, Any],
        /,
        *,
        population: int,
        generations: int,
        every: float,
        metric: str,
        goal: str | None = None,
        quantile: float = 0.25,
        resample: float = 0.25,
        factors: tuple[float, float] = (0.8, 1.2),
        at_least: int = 1,
        at_most: int | None = None,
        seed: int = 0,
        kwargs: Mapping[str, Any] | None = None,
        **keywords: Any,
    ) -> Sweep:
        """Train a population (population-based training), and return the handle of the sweep at once.

        ``population`` members train the function for ``generations`` of ``every`` steps each. ``space`` has the
        range or the choices of each parameter: ``{"rate": loguniform(0.001, 0.1), "layers": [1, 2, 3]}``. After
        each generation the members whose ``metric`` is in the worst ``quantile`` continue from the checkpoint and
        the parameters of one in the best ``quantile`` (exploit), each parameter perturbed (explore): drawn anew
        with the probability ``resample``, else multiplied by one of the ``factors``, or a neighbour of the choice.

        The function reports ``metric``, and saves and restores checkpoints as any training that survives a pause:
        the end of a generation looks to it like a pause. Equal seeds choose equally, whatever is paused meanwhile.
        Each trial of the sweep is one member in one generation. Raises `CaptureError` or `OptionError` for invalid
        work or options; then nothing was submitted.

        Options, for each trial:

        {options}
        """
        own = {"population": population, "generations": generations, "every": every, "metric": metric}
        own |= {"goal": goal, "at_most": at_most, "seed": seed}
        check_own(function, kwargs, space, (name for name, value in own.items() if value), "evolve")
        options, call = split_keywords(function, kwargs, keywords)
        chosen = population_of(
            space,
            members=population,
            generations=generations,
            every=every,
            quantile=quantile,
            resample=resample,
            factors=factors,
            seed=seed,
        )
        wanted = Wanted(function, call, here().cwd, metric, goal, seed=seed, workers=self._workers(options))
        return self._send_sweep(plan_population(wanted, chosen), at_least, at_most, options, wanted)

    def send(self, captured: Captured, options: Mapping[str, Any]) -> Job:
        """Send captured work. Raises `CaptureError` for a notebook whose kernel is not there."""
        request = _request(captured, options)
        if captured.kind == "notebook":
            with own_errors():
                check_kernel(captured, image_of(request, self.me))
        left = self._left(request)
        accepted = self._accepted(request, captured)
        return Job(accepted.id, self._way, (*notes_of(captured, request), *_notes(accepted, left)))

    def _send_sweep(
        self, plan: Plan, at_least: int, at_most: int | None, options: Mapping[str, Any], wanted: Wanted
    ) -> Sweep:
        trials = wire.Trials(
            number=plan.number,
            at_most=bound_of_trials(at_most),
            at_least=at_least,
            metric=plan.metric,
            goal=plan.goal,
            parameters=plan.parameters,
            history=plan.history,
            population=plan.population,
        )
        captured = capture_payload(plan.payload, wanted.function, here(options))
        request = msgspec.structs.replace(_request(captured, options), trials=trials)
        left = self._left(request)
        accepted = self._accepted(request, captured)
        return Sweep(accepted.id, self._way, (*notes_of(captured, request), *_notes(accepted, left)))

    def _workers(self, options: Mapping[str, Any]) -> int:
        """Return the number of workers of each trial, of which a preset may be the reason."""
        wish = wire.Wish.of(checked(options))
        return wish.workers if wish.preset is None else as_filled(wish, self.me).workers

    def _accepted(self, request: wire.Submission, captured: Captured) -> wire.Job:
        if sum(len(content) for content in request.files.values()) > UNCHECKED:
            length = self.connection.ask(lambda _: len(encoded(request)))
            check_size(request, length, self.me.max_body, captured.sizes)
        return answered(lambda: self.connection.ask(Client.submit, request, captured.packed))

    def environment(
        self, work: Work, /, *args: Any, kwargs: Mapping[str, Any] | None = None, **keywords: Any
    ) -> Environment:
        """Return the environment of a job if it were submitted like this: Python, packages, files and variables.

        Takes the arguments of `submit` and submits nothing: ``pool.environment(train, 0.1, gpus=4)``. Packages
        that the code imports and the Python of the job does not have are named. Raises `CaptureError` and
        `OptionError`.
        """
        options, call = split_keywords(work, kwargs, keywords)
        return self.environment_of(capture(work, args, call, here(options)), options)

    def environment_of(self, captured: Captured, options: Mapping[str, Any]) -> Environment:
        """Return the environment of a job of captured work."""
        request = _request(captured, options)
        image = image_of(request, self.me)
        contents = None if image is None else self.connection.ask(Client.image_contents, image)
        return Environment(environment_shown(request, image, contents, self._left(request)), image)

    def _left(self, request: wire.Submission) -> list[str]:
        """Return the variables that are set here and not sent."""
        return unsent(request, here(), self.me.noted_variables)

    @takes_options
    def when(self, /, **options: Any) -> Prospect:
        """Return when a job with these options of `submit` would start, and what would be paused for it.

        Nothing is submitted: ``pool.when(gpus=4)``, ``pool.when(gpus=8, workers=2, project="vision")``.
        """
        check_names(name for name in options if name not in NAMES)
        return Prospect(self.connection.ask(Client.when, wire.Wish.of(checked(options))))

    @takes_options
    def advise(self, /, **options: Any) -> Advised:
        """Return how fast your earlier runs of a job were by GPU type, number of GPUs and nodes, and what pays.

        Takes options of `submit`, of which ``name`` names the job: ``pool.advise(name="train", gpus=4)``.
        """
        check_names(name for name in options if name not in NAMES)
        return Advised(self.connection.ask(Client.advise, wire.Wish.of(checked(options))))

    def jobs(
        self,
        state: str | None = None,
        *,
        tag: str | None = None,
        project: str | None = None,
        search: str | None = None,
        since: datetime | float | None = None,
        where: str | None = None,
        order: str | None = None,
        archived: str = "no",
        everyone: bool = False,
        limit: int | None = None,
    ) -> Jobs:
        """Return your jobs, or ``everyone``'s of your projects, newest first; handles come back after a restart.

        ``state`` may name several states, with commas between; ``tag`` is one of their tags; ``search`` are words
        that the name, the user, the project, the id or a tag contains, or names of arguments that are set, such as
        ``--amp``; ``since`` is the earliest time of
        submission, a `datetime` or seconds since 1970. ``where`` is a condition on arguments, metrics and columns,
        such as ``lr > 0.01 and best.val_loss < 0.3``, and ``order`` a value that sorts the jobs: ``-best.acc`` for
        the largest first. A metric that none of the jobs has is a warning, with those that they have. Archived
        jobs come with ``archived="yes"`` (only these) or ``"all"``. ``limit`` is the maximum number of jobs;
        without it the list is complete.
        """
        filters: dict[str, Any] = {
            "state": state,
            "tag": tag,
            "project": project,
            "search": search,
            "since": since.timestamp() if isinstance(since, datetime) else since,
            "mine": not everyone,
            "where": where,
            "order": order,
            "archived": archived,
        }
        page = self.connection.ask(Client.jobs, **filters, limit=sys.maxsize if limit is None else limit)
        if page.note:
            warnings.warn(page.note, stacklevel=2)
        return Jobs(page.items, self._way, none_matches({**filters, "mine": False}))

    def job(self, job_id: str) -> Job | Sweep:
        """Return the handle of one job, or of a sweep."""
        return handle_of(self.connection.ask(Client.job, job_id), self._way)

    def compare(self, *jobs: Job | Sweep | str | Iterable[Job | Sweep | str]) -> Comparison:
        """Return 2 to `wire.MAX_COMPARED` jobs or trials side by side, given as handles or ids.

        ``pool.compare(one, other)``, or a list: ``pool.compare(pool.jobs(tag="baseline", limit=5))``. Raises
        `PoolError` for other numbers of jobs, and for one that you may not see.
        """
        given = [each for job in jobs for each in ([job] if isinstance(job, str | Handle) else job)]
        ids = [job if isinstance(job, str) else job.id for job in given]
        if not ids:
            raise OptionError(f"No job is given. Name 2 to {wire.MAX_COMPARED} different jobs.")
        found = self.connection.ask(Client.compare, ids)
        return Comparison(found, [self.connection.ask(all_points, job.id) for job in found.jobs])

    def form(self) -> JobForm:
        """Return a form to submit jobs with, which offers the options that you may use."""
        from springtide.widgets.form.form import JobForm  # noqa: PLC0415 - needs the extra

        return JobForm(self.connection, backend_of(self))

    def show(self) -> None:
        """Display the pool at a glance."""
        show(self)

    @property
    def me(self) -> wire.Me:
        """Your name, your projects and the options that you may use."""
        return self.connection.ask(Client.me)

    @property
    def datasets(self) -> list[wire.DatasetView]:
        """The datasets that your jobs may name in ``datasets=…``, with their paths and projects."""
        return self.connection.ask(Client.datasets)

    @property
    def presets(self) -> Presets:
        """The presets that your jobs may name in ``preset=…``, with their options and projects, as a table."""
        return Presets(self.me.presets)

    @property
    def default_project(self) -> str | None:
        """The project of your jobs that name none, which you choose by setting it: None removes the choice.

        It holds wherever you submit, until you change it. Without it that is your only project, or that of your
        latest job. Once you have left it, such jobs are refused with a hint. Raises `PoolError` for a project that
        you are not in.
        """
        return self.me.default_project

    @default_project.setter
    def default_project(self, name: str | None) -> None:
        self.connection.ask(Client.edit_me, wire.MeEdit(default_project=name))

    @property
    def connection(self) -> Connection:
        """The connection to the pool."""
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
    """Return the backend of a form; ``variables`` gives those of the notebook unless it is another function."""
    from springtide.widgets.form.backend import FormBackend  # noqa: PLC0415 - few need it

    return FormBackend(lambda: pool.connection, pool.submit, pool.environment_of, variables or namespace)


def _request(captured: Captured, options: Mapping[str, Any]) -> wire.Submission:
    with own_errors():
        return submission(captured, checked(options), uuid.uuid4().hex, here=here())


def _notes(accepted: wire.Job, left: Sequence[str]) -> list[str]:
    """Return the notes on packages that the job's Python does not have, and on variables that are not sent."""
    words = "" if accepted.environment is None else accepted.environment.missing_text
    notes = (words, uncarried_words(left, f'carry="{",".join(left)}"'))
    return [phrases.clean(note) for note in notes if note]


def here(options: Mapping[str, Any] = NO_OPTIONS) -> Here:
    """Return the notebook's directory, interpreter, file and variables, for a job with these options."""
    session = os.environ.get("JPY_SESSION_NAME")
    with own_errors():
        cwd = working_directory()
    return kernel_place(cwd, Path(session) if session else None).for_job(options)


def namespace() -> dict[str, Any]:
    """Return the variables of the notebook without IPython's own; outside of one, those of the program."""
    find = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = None if find is None else find()
    if shell is None:
        return vars(sys.modules["__main__"])
    return {name: value for name, value in shell.user_ns.items() if name not in shell.user_ns_hidden}

"""The handle of a sweep: its trials, the best of them, and their results."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from springtide.scheduler import wire
from springtide.scheduler.arguments import argument_of
from springtide.scheduler.client import Client
from springtide.scheduler.user_environments import how_to_install
from springtide.scheduler.wording import count
from springtide.training.adapters.optuna import frozen_trial
from springtide.training.trials import FILE
from springtide.widgets.connection import PoolError
from springtide.widgets.display import phrases, plain
from springtide.widgets.display.live_job import FINAL
from springtide.widgets.errors import (
    JobCancelledError,
    JobFailedError,
    MissingPackageError,
    NoResultError,
    NotFinishedError,
    SpringtideError,
)
from springtide.widgets.handle import Handle, Timeout
from springtide.widgets.job import RESULT, Job, loaded
from springtide.widgets.results import Schedule, Trials, restored
from springtide.widgets.submission.spaces import bound_of_trials
from springtide.widgets.submission.sweeps import MINIMIZE

if TYPE_CHECKING:
    from pandas import DataFrame

AT_ONCE = 8
"""Number of files that are fetched at the same time."""
SUCCEEDED = "succeeded"
STATES = {SUCCEEDED: "complete", "pruned": "pruned", "failed": "failed", "cancelled": "failed"}
"""The states of trials in a history; all other trials run."""


class _Given:
    """Type of a default that differs from None, for arguments that may be None."""

    def __repr__(self) -> str:
        return "…"


_LEFT_OUT: Final = _Given()


class Sweep(Handle):
    """A handle of a sweep. It can be made again from the id at any time: ``pool.job(id)``.

    ``sweep[7]`` is the job of trial 7. All methods raise `PoolError` when the pool refuses and `UnreachableError`
    when it does not answer.
    """

    def __getitem__(self, number: int) -> Job:
        """Return the job of a trial. Raises `IndexError`, or `NotFinishedError` if it has not begun."""
        rows = self.trials()
        if not -len(rows) <= number < len(rows):
            msg = f"The sweep has {count(len(rows), 'trial')}, numbered from 0; there is no trial {number}."
            raise IndexError(msg)
        row = rows[number]
        if row.job is None:
            msg = f"Trial {row.trial} has not begun, so it has no job yet."
            raise NotFinishedError(msg)
        return Job(row.job, self._way)

    def __len__(self) -> int:
        return self._counts.number

    def __bool__(self) -> bool:
        return True

    # ---------- trials

    def trials(self, *, state: str | None = None, sort: str | None = None) -> Trials:
        """Return all trials as rows, also as a frame of pandas.

        ``state`` may name several states, with commas between, ``pruned`` among them. ``sort`` is ``trial`` or
        ``value``, reversed with a minus before it.
        """
        rows = self._connection.ask(_all_trials, self.id, sort=sort, state=state)
        return Trials(rows, self._counts.metric)

    def to_frame(self) -> DataFrame:
        """Return a frame of pandas with a row for each trial: parameters, metric, last report, state and times.

        Times are in UTC, ``gpu_hours`` are GPU-hours. Raises `MissingPackageError`.
        """
        return self.trials().to_frame()

    @property
    def best(self) -> wire.Best | None:
        """The best trial that succeeded (``trial``, ``value``, ``parameters``); None without one."""
        best = self._counts.best
        if best is None or best.parameters is None:
            return best
        return structs.replace(best, parameters=restored(best.parameters))

    def schedule(self, trial: int | None = None) -> Schedule:
        """Return with which parameters a trial of a population was trained from its first generation on.

        The trial is the best one unless another is named. Raises `NoResultError` for a sweep that trains no
        population and while no trial has a value, `IndexError` for a trial that is not there.
        """
        counts = self._counts
        if counts.population is None:
            msg = f"{self.id} trains no population, so its parameters do not change. pool.evolve trains one."
            raise NoResultError(msg)
        if trial is None:
            if counts.best is None:
                msg = "No trial of the sweep has a value yet, so none is the best. Name one: sweep.schedule(0)."
                raise NoResultError(msg)
            trial = counts.best.trial
        rows = {row.trial: row for row in self.trials()}
        if trial not in rows:
            msg = f"The sweep has {count(len(rows), 'trial')}, numbered from 0; there is no trial {trial}."
            raise IndexError(msg)
        line = [rows[trial]]
        while line[0].parent is not None:
            line.insert(0, rows[line[0].parent])
        return Schedule(line, counts.population.every)

    @property
    def _counts(self) -> wire.TrialCounts:
        counts = self.info.trials
        if counts is None:
            msg = f"{self.id} is no sweep but a single job: pool.job({self.id!r}) is its handle."
            raise NoResultError(msg)
        return counts

    def set(
        self,
        *,
        number: int | None = None,
        at_least: int | None = None,
        at_most: int | _Given | None = _LEFT_OUT,
    ) -> None:
        """Change a sweep that has not ended: its number of trials, and how many are in line or unfinished at most.

        ``at_most=None`` removes the bound. Raises `OptionError` for one below 1.
        """
        bound = None if isinstance(at_most, _Given) else bound_of_trials(at_most) or 0
        edit = wire.TrialsEdit(number=number, at_least=at_least, at_most=bound)
        self._connection.ask(Client.edit_trials, self.id, edit)

    def retry(self) -> None:
        """Queue the failed trials of an unfinished sweep again. Raises `PoolError` for a sweep that has ended.

        Those of an ended one can be sent as another sweep, with their parameters in
        ``[trial.parameters for trial in sweep.trials(state="failed")]``.
        """
        self._connection.ask(Client.retry_trials, self.id)

    # ---------- results

    def __await__(self) -> Generator[Any, None, list[Any]]:
        """Wait for the end of the sweep and return the results: ``await sweep``."""
        return self._results_later().__await__()

    async def _results_later(self) -> list[Any]:
        await self._ended()
        return await asyncio.to_thread(self.results)

    def results(self, timeout: Timeout = None, *, missing: Any = _LEFT_OUT, trust: bool = False) -> list[Any]:
        """Return the function's result in each trial, in their order; of a population in its last generation.

        Waits until the sweep has ended, for at most ``timeout``, as `wait` does. Trials that failed, were pruned
        or left no result have none: an error names them, or ``missing`` takes their place. The results of another
        person are pickles that run that person's code when they are loaded: say ``trust=True`` if you do.

        Raises `NotFinishedError`, `JobFailedError`, `JobCancelledError`, `NoResultError` or
        `UntrustedResultError`.
        """
        info = self.info
        if info.state not in FINAL:
            info = self.wait(timeout).info
        self._require_trust(info.user, trust=trust, call="sweep.results(trust=True)")
        population = self._counts.population
        rows = [row for row in self.trials() if population is None or row.generation == population.generations]
        without = [row for row in rows if row.state != SUCCEEDED]
        if without and isinstance(missing, _Given):
            raise self._lacking(without, len(rows))
        with ThreadPoolExecutor(AT_ONCE) as threads:
            found = list(threads.map(lambda row: self._file(row, RESULT), rows))
        without = [row for row, data in zip(rows, found, strict=True) if data is None]
        if without and isinstance(missing, _Given):
            raise self._lacking(without, len(rows))
        return [
            missing if data is None else loaded(data, row.job or self.id)
            for row, data in zip(rows, found, strict=True)
        ]

    def study(self) -> Any:
        """Return the trials as a study of Optuna in memory, for its plots and importances.

        Raises `MissingPackageError` without Optuna.
        """
        try:
            optuna = import_module("optuna")
        except ModuleNotFoundError:
            msg = f"A study needs Optuna, which is not installed here: {how_to_install('optuna')}"
            raise MissingPackageError(msg) from None
        info, rows = self.info, self.trials()
        with ThreadPoolExecutor(AT_ONCE) as threads:
            files = list(threads.map(lambda row: self._file(row, FILE), rows))
        choices = _choices(rows)
        study = optuna.create_study(study_name=info.name or None, direction=self._counts.goal or MINIMIZE)
        for row, data in zip(rows, files, strict=True):
            if row.job is None:
                study.add_trial(optuna.trial.create_trial(state=optuna.trial.TrialState.WAITING))
            else:
                study.add_trial(frozen_trial(optuna, _entry(optuna, row, data, choices)))
        return study

    def _lacking(self, without: Sequence[wire.TrialRow], number: int) -> SpringtideError:
        """Return the error that names the first trial without a result, and why it has none."""
        first = without[0]
        which = f"Trial {first.trial} has no result."
        if len(without) > 1:
            which = f"{len(without)} of {number} trials have no result, the first of them is trial {first.trial}."
        way = "sweep.results(missing=None) gives the others."
        if first.state == SUCCEEDED and first.job is not None:
            return NoResultError(f"{which} {phrases.why(Job(first.job, self._way).info)} {way}")
        if first.state != "failed" or first.job is None:
            kind = JobCancelledError if first.state == "cancelled" else NoResultError
            return kind(f"{which} It was {first.state}. {way}")
        why = f"It failed: {phrases.clean(first.error)} See sweep[{first.trial}].logs() for the rest;"
        return JobFailedError(f"{which} {why} {way}", Job(first.job, self._way).traceback)

    def _file(self, row: wire.TrialRow, name: str) -> bytes | None:
        """Return a file of a trial's output directory, None if it left none."""
        if row.job is None or (name == RESULT and row.state != SUCCEEDED):
            return None
        try:
            return self._connection.ask(Client.output, row.job, name)
        except PoolError as error:
            if error.status != 404:
                raise
            return None

    # ---------- display

    def _words(self, info: wire.Job) -> tuple[str, str]:
        return plain.sweep_text(info), plain.sweep_html(info)


def handle_of(info: wire.Job, way: Any, notes: Sequence[str] = ()) -> Job | Sweep:
    """Return the handle of a job or of a sweep from the pool's answer."""
    return Job(info.id, way, notes) if info.trials is None else Sweep(info.id, way, notes)


def _all_trials(client: Client, sweep: str, *, sort: str | None, state: str | None) -> list[wire.TrialRow]:
    return list(client.all_trials(sweep, sort=sort, state=state))


def _texts(row: wire.TrialRow) -> dict[str, Any]:
    """Return the parameters of a trial as JSON has them: Optuna takes no lists."""
    return {name: argument_of(value).value for name, value in (row.parameters or {}).items()}


def _choices(rows: Sequence[wire.TrialRow]) -> dict[str, list[Any]]:
    """Return the values of each parameter that occur, for trials whose parameters the sweep had beforehand."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        for name, value in _texts(row).items():
            found.setdefault(name, {})[json.dumps(value)] = value
    return {name: list(values.values()) for name, values in found.items()}


def _entry(optuna: Any, row: wire.TrialRow, data: bytes | None, choices: dict[str, list[Any]]) -> dict[str, Any]:
    """Return a trial as an entry of a history; the file that it kept itself has more than its row."""
    entry: dict[str, Any] = {
        "parameters": _texts(row),
        "value": row.value,
        "curve": row.curve,
        "memo": "",
    }
    if data is not None:
        entry.update({name: value for name, value in json.loads(data).items() if value or name == "value"})
    if not entry["memo"]:
        kinds = optuna.distributions
        entry["memo"] = json.dumps(
            {
                "distributions": {
                    name: kinds.distribution_to_json(kinds.CategoricalDistribution(choices[name]))
                    for name in entry["parameters"]
                }
            }
        )
    return {**entry, "state": STATES.get(row.state, "running")}

"""For Optuna: one trial of a study in a process of its own.

A study in memory is made again in each trial, from its content when the sweep was sent and from the earlier trials
of the sweep. A study with a storage is used as it is.
"""

from __future__ import annotations

import hashlib
import json
import pickle
from contextlib import suppress
from importlib import import_module
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional

from springtide.training.job import Job
from springtide.training.trials import Trial, points_of

MISSING = (
    "This trial belongs to a study of Optuna, and Optuna is not installed where the job runs. Install it there: "
    "pip install 'springtide[sweeps]'"
)
OURS = "springtide"
"""User attribute of a trial in a storage: its sweep and its number."""
UNNAMED = "no-name-"
KNOWN = (str, int, float, bool, type(None))
"""Types of parameters, which tables, filters and storages have."""
SAMPLERS = ("optuna.samplers", "optunahub", "__main__")
"""Modules whose objects may be parts of a sampler."""


class ObjectiveError(ValueError):
    """An objective gave no value."""


def run_trial(call: Mapping[str, Any], job: Job, record: Trial, history: List[Dict[str, Any]]) -> Any:
    """Call the objective with a trial of the pickled study, and return its result; None for a pruned trial.

    ``call`` has ``function``, ``kwargs``, ``study`` and ``seed``. The choices of Optuna's own samplers depend only
    on the sampler, the seed, the trial's number and the history. Raises `ObjectiveError` for an objective without
    a value.
    """
    optuna = _optuna()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = pickle.loads(call["study"])  # noqa: S301 - it runs with the rights of its sender
    opened = _Study(optuna, study, record, history, call["seed"])
    _seed(opened.study.sampler, call["seed"], record.number)
    trial = _trial_class(optuna)(opened.study, opened.trial_id)
    trial.follow(job, record)
    record.listener = trial.forward
    try:
        result = call["function"](trial, **call["kwargs"])
    except optuna.TrialPruned:
        trial.finish(state=optuna.trial.TrialState.PRUNED)
        record.end(record.last, pruned=True)
        return None
    except Exception:
        trial.finish(state=optuna.trial.TrialState.FAIL)
        raise
    value = record.value_of(result)
    if value is None or value != value:  # noqa: PLR0124 - NaN
        trial.finish(state=optuna.trial.TrialState.FAIL)
        raise ObjectiveError(_no_value(result, value, record.metric))
    trial.finish(value)
    record.end(value)
    return result


def _optuna() -> Any:
    try:
        return import_module("optuna")
    except ModuleNotFoundError as error:
        if error.name != "optuna":
            raise
        raise ModuleNotFoundError(MISSING, name="optuna") from None


def _no_value(result: Any, value: Optional[float], metric: str) -> str:
    came = f"{value}" if value is not None else f"{type(result).__name__} {result!r:.80}"
    reported = f"report it as `{metric}`" if metric else "name what it reports as metric=…"
    return f"The objective returned {came}, which is no value of a trial. Return a number, or {reported}."


class _Study:
    """The study and the trial in it that this process makes."""

    def __init__(self, optuna: Any, given: Any, record: Trial, history: List[Dict[str, Any]], seed: int) -> None:
        self._optuna = optuna
        self._record = record
        own = record.earlier or next((each for each in history if each.get("trial") == record.number), None)
        if isinstance(given._storage, optuna.storages.InMemoryStorage):  # noqa: SLF001 - no public name
            self.study = self._made_again(given, seed)
            waiting = given.get_trials(states=(optuna.trial.TrialState.WAITING,))
            self._add_history(history, range(record.number))
            queued = waiting[record.number].system_attrs if record.number < len(waiting) else {}
            self.trial_id = self._add_own(own, queued)
            self._add_history(history, range(record.number + 1, 1 + max(_numbers(history), default=-1)))
        else:
            self.study = given
            self.trial_id = self._in_storage(own)

    def _made_again(self, given: Any, seed: int) -> Any:
        name = given.study_name
        study = self._optuna.create_study(
            study_name=f"{OURS}-{seed}" if name.startswith(UNNAMED) else name,
            sampler=given.sampler,
            pruner=given.pruner,
            direction=given.direction,
        )
        for key, value in given.user_attrs.items():
            study.set_user_attr(key, value)
        for each in given.trials:
            if each.state.is_finished():
                study.add_trial(each)
        return study

    def _add_history(self, history: List[Dict[str, Any]], numbers: range) -> None:
        """Add earlier trials so that each keeps its number; unknown ones as failed."""
        by_number = {entry.get("trial"): entry for entry in history}
        for number in numbers:
            self.study.add_trial(frozen_trial(self._optuna, by_number.get(number, {})))

    def _add_own(self, own: Optional[Mapping[str, Any]], queued: Mapping[str, Any]) -> int:
        """Add the trial of this process: with its earlier parameters, or with those enqueued for it."""
        had = own or {}
        attributes = {**queued, **_memo_of(had).get("system", {})}
        if had.get("parameters"):
            attributes["fixed_params"] = had["parameters"]
        mark = {OURS: f"{self._record.sweep}/{self._record.number}"}
        running = self._optuna.trial.TrialState.RUNNING
        create = self._optuna.trial.create_trial
        self.study.add_trial(create(state=running, system_attrs=attributes, user_attrs=mark))
        return int(list(self._own())[-1]._trial_id)  # noqa: SLF001 - no public name

    def _own(self) -> Iterator[Any]:
        mark = f"{self._record.sweep}/{self._record.number}"
        running = self.study.get_trials(deepcopy=False, states=(self._optuna.trial.TrialState.RUNNING,))
        return (trial for trial in running if trial.user_attrs.get(OURS) == mark)

    def _in_storage(self, own: Optional[Mapping[str, Any]]) -> int:
        """Return the id of the trial in the storage: the one begun by an earlier attempt, or a new one."""
        for begun in self._own():
            return int(begun._trial_id)  # noqa: SLF001 - no public name
        if (own or {}).get("parameters"):
            return self._add_own(own, {})
        trial = self.study.ask()
        trial.set_user_attr(OURS, f"{self._record.sweep}/{self._record.number}")
        return int(trial._trial_id)  # noqa: SLF001 - no public name


def frozen_trial(optuna: Any, entry: Mapping[str, Any]) -> Any:
    """Return an entry of a history as a trial of Optuna's; as a failed one if it is broken or has no value."""
    create, states = optuna.trial.create_trial, optuna.trial.TrialState
    with suppress(ValueError, TypeError, KeyError, AttributeError):
        state = {"complete": states.COMPLETE, "pruned": states.PRUNED, "running": states.RUNNING}.get(
            entry["state"], states.FAIL
        )
        memo = _memo_of(entry)
        distributions = {
            name: optuna.distributions.json_to_distribution(text)
            for name, text in memo.get("distributions", {}).items()
            if name in entry["parameters"]
        }
        return create(
            state=state,
            params={name: entry["parameters"][name] for name in distributions},
            distributions=distributions,
            value=entry["value"] if state in (states.COMPLETE, states.PRUNED) else None,
            intermediate_values={int(step): value for step, value in points_of(entry) if step == int(step) >= 0},
            system_attrs=memo.get("system", {}),
            user_attrs=memo.get("user", {}),
        )
    return create(state=states.FAIL)


def _memo_of(entry: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the memo of an entry of a history; empty if it is broken."""
    with suppress(ValueError, TypeError):
        memo = json.loads(entry.get("memo") or "{}")
        return memo if isinstance(memo, dict) else {}
    return {}


def _numbers(history: List[Dict[str, Any]]) -> Iterator[int]:
    return (entry["trial"] for entry in history if isinstance(entry.get("trial"), int))


def _seed(sampler: Any, seed: int, number: int) -> None:
    """Seed the random numbers of a sampler for one trial."""
    for place, lazy in enumerate(_random_states(sampler, set())):
        made = lazy._rng  # noqa: SLF001 - no public way to see whether the user gave a seed
        own = b"" if made is None else made.get_state()[1].tobytes()
        text = f"{seed}/{number}/{place}/".encode() + own
        lazy.rng.seed(int.from_bytes(hashlib.sha256(text).digest()[:4], "big"))


def _random_states(thing: Any, seen: set[int]) -> Iterator[Any]:
    if id(thing) in seen or not hasattr(thing, "__dict__"):
        return
    seen.add(id(thing))
    for value in vars(thing).values():
        if type(value).__name__ == "LazyRandomState":
            if id(value) not in seen:
                seen.add(id(value))
                yield value
        elif type(value).__module__.startswith(SAMPLERS):
            yield from _random_states(value, seen)


def _trial_class(optuna: Any) -> Any:
    """Return a class of Optuna's trials that also report to the pool."""

    class PoolTrial(optuna.trial.Trial):  # type: ignore[misc]
        def follow(self, job: Job, record: Trial) -> None:
            """Forward reports to the job, and choices to ``record``."""
            self._job, self._record, self._earlier = job, record, points_of(record.earlier)
            if self.params:
                record.choose(self.params, _memo(optuna, self))

        def report(self, value: float, step: int) -> None:
            """Report a value to the pruner and to the pool."""
            self._job.report(step=step, **{self._record.metric: value})

        def forward(self, step: float, value: float) -> None:
            """Pass a report to the pruner, and before the first one the reports of an earlier attempt."""
            if step != int(step) or step < 0:
                return
            earlier, self._earlier = self._earlier, []
            for at, was in [*(point for point in earlier if point[0] < step), (step, value)]:
                if at == int(at) and int(at) not in self.storage.get_trial(self._trial_id).intermediate_values:
                    super().report(was, int(at))

        def suggest_float(self, name: str, *args: Any, **kwargs: Any) -> float:
            """Suggest a value."""
            return float(self._choose(name, super().suggest_float, *args, **kwargs))

        def suggest_int(self, name: str, *args: Any, **kwargs: Any) -> int:
            """Suggest a value."""
            return int(self._choose(name, super().suggest_int, *args, **kwargs))

        def suggest_categorical(self, name: str, choices: Any) -> Any:
            """Suggest one of the choices."""
            for choice in choices:
                if not isinstance(choice, KNOWN):
                    raise TypeError(
                        f"Parameter {name!r} has the choice {choice!r:.80} of type {type(choice).__name__}. "
                        "Choices of a sweep are text, numbers, bools and None: suggest a name or an index, and "
                        "look up its value."
                    )
            return self._choose(name, super().suggest_categorical, choices)

        def _choose(self, name: str, suggest: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            is_new = name not in self.params
            value = suggest(name, *args, **kwargs)
            if is_new:
                self._record.choose(self.params, _memo(optuna, self))
            return value

        def finish(self, value: Optional[float] = None, state: Any = None) -> None:
            """End the trial in the study."""
            try:
                self.study.tell(self, value, state=state)
            except RuntimeError:
                # A sampler wanted to end the study itself, which only a running `optimize` allows.
                if not self.storage.get_trial(self._trial_id).state.is_finished():
                    raise
            self._record.memo = _memo(optuna, self)

    return PoolTrial


def _memo(optuna: Any, trial: Any) -> str:
    """Return the data of this trial for later ones, besides its parameters and values."""
    frozen = trial.storage.get_trial(trial._trial_id)  # noqa: SLF001 - no public name
    to_json = optuna.distributions.distribution_to_json
    memo = {
        "distributions": {name: to_json(of) for name, of in frozen.distributions.items()},
        "system": _plain(frozen.system_attrs),
        "user": _plain(frozen.user_attrs),
    }
    return json.dumps(memo, separators=(",", ":"))


def _plain(attributes: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the attributes that JSON can express."""
    found = {}
    for name, value in attributes.items():
        with suppress(TypeError, ValueError):
            json.dumps(value)
            found[name] = value
    return found

"""Sweeps as they are sent: one payload for all trials, and the parameters of each if they are known."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec

from springtide.scheduler.arguments import Argument
from springtide.scheduler.capture.arguments import shown
from springtide.scheduler.population import Population, why_invalid
from springtide.scheduler.wire import MAX_PARAMETERS
from springtide.scheduler.wording import article, count, given, size
from springtide.widgets.errors import CaptureError, OptionError
from springtide.widgets.submission.explain import find_culprit, try_pickle
from springtide.widgets.submission.functions import (
    Payload,
    call_arguments,
    called,
    check_arguments,
    pickle_payload,
)
from springtide.widgets.submission.spaces import (
    LONG,
    LONGEST,
    Points,
    as_shown,
    listed,
    number_of_trials,
    parameter,
    points_of,
)

Goal: TypeAlias = Literal["minimize", "maximize", ""]
MINIMIZE: Final = "minimize"
MAXIMIZE: Final = "maximize"
DEFAULT_METRIC = "value"
COUNTS_IN_STORAGE = "QMCSampler"
"""Optuna's sampler that counts its points in the study itself."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The request for a sweep: the function, its arguments in all trials, and the compared value.

    ``goal`` is None if it was not given; ``workdir`` is the directory whose modules are sent along.
    """

    function: Callable[..., Any]
    kwargs: Mapping[str, Any]
    workdir: Path
    metric: str = ""
    goal: str | None = None
    trials: int | None = None
    seed: int = 0
    workers: int = 1

    def __post_init__(self) -> None:
        if not callable(self.function):
            kind = article(type(self.function).__name__)
            msg = f"A sweep calls a function; {given(self.function)} is {kind}."
            raise CaptureError(msg)
        if self.goal not in (None, MINIMIZE, MAXIMIZE):
            msg = f"goal is {given(self.goal, 40)}; expected {given(MINIMIZE)} or {given(MAXIMIZE)}."
            raise OptionError(msg)


@dataclass(frozen=True, slots=True)
class Plan:
    """The trials of a sweep, ready to be sent. ``history`` is true if each needs the earlier ones."""

    payload: Payload
    number: int
    parameters: Points | None
    metric: str
    goal: Goal
    history: bool = False
    population: Population | None = None


def plan_items(wanted: Wanted, items: Iterable[Any]) -> Plan:
    """Return a sweep that calls the function with one item in each trial.

    Without a metric and a goal none of the calls is the best. Raises `CaptureError` or `OptionError`.
    """
    found = listed(items)
    calls = [((item,), dict(wanted.kwargs)) for item in found]
    check_arguments(wanted.function, *calls[0])
    named = [(f"item {place}", item) for place, item in enumerate(found)]
    plan = _plan(wanted, calls, named, [{"item": as_shown(item)} for item in found], count(len(found), "item"))
    return plan if wanted.metric or wanted.goal else replace(plan, goal="")


def plan_space(wanted: Wanted, space: Any) -> Plan:
    """Return a sweep that calls the function with one point of a space in each trial.

    Raises `CaptureError` or `OptionError`.
    """
    points = points_of(space, wanted.trials, wanted.seed)
    for names in {tuple(point) for point in points}:
        both = next((name for name in names if name in wanted.kwargs), None)
        if both is not None:
            msg = f"`{both}` is a parameter of the space and also given for all trials. Leave one of them out."
            raise OptionError(msg)
        check_arguments(wanted.function, (), {**wanted.kwargs, **dict.fromkeys(names)})
    calls = [((), {**wanted.kwargs, **point}) for point in points]
    named = [
        (f"parameter `{name}` of trial {place}", value)
        for place, point in enumerate(points)
        for name, value in point.items()
    ]
    parameters = _shown(points, LONGEST)
    if len(msgspec.json.encode(parameters)) > MAX_PARAMETERS:
        parameters = _shown(points, LONG)
    words = f"each of {count(len(points), 'point')}, the first {shown(points[0])}"
    return _plan(wanted, calls, named, parameters, words)


def _shown(points: Points, most: int) -> Points:
    """Return the parameters of trials as tables have them, with a maximum of characters each."""
    return [{name: parameter(name, value, most) for name, value in point.items()} for point in points]


def plan_study(wanted: Wanted, study: Any) -> Plan:
    """Return a sweep whose parameters a study of Optuna chooses. Raises `CaptureError` or `OptionError`."""
    number = number_of_trials(wanted.trials, "A study has no end of its own: say how many trials, with trials=…")
    in_memory = type(study._storage).__name__ == "InMemoryStorage"  # noqa: SLF001 - no public name
    goal = _goal_of(study, wanted, in_memory=in_memory)
    check_arguments(wanted.function, (study,), wanted.kwargs)
    pickled = try_pickle(study)
    if not isinstance(pickled, bytes):
        culprit = find_culprit(study, "the study") or pickled
        msg = f"The study cannot be sent: {culprit}. Use Optuna's own samplers, pruners and storages."
        raise CaptureError(msg)
    metric = wanted.metric or DEFAULT_METRIC
    call = {"kwargs": dict(wanted.kwargs), "study": pickled, "seed": wanted.seed, "metric": metric}
    sampler, pruner = type(study.sampler).__name__, type(study.pruner).__name__
    words = f"\n\n# {called(wanted.function)} is called with trials of a study ({sampler}, {pruner})\n"
    payload = pickle_payload(wanted.function, call, _named(wanted.kwargs), words, wanted.workdir)
    payload = replace(payload, arguments=_common(wanted.function, (study,), wanted.kwargs))
    return Plan(payload, number, None, metric, goal, history=in_memory)


def plan_population(wanted: Wanted, population: Population) -> Plan:
    """Return a sweep whose members train a function, each generation with parameters that the pool chooses.

    Raises `CaptureError` or `OptionError`.
    """
    if not wanted.metric:
        msg = "A population needs a metric by which its members are compared: metric='loss', reported by the job."
        raise OptionError(msg)
    if why := why_invalid(population):
        raise OptionError(why)
    names = list(population.space)
    both = next((name for name in names if name in wanted.kwargs), None)
    if both is not None:
        msg = f"`{both}` is a parameter of the space and also given for all members. Leave one of them out."
        raise OptionError(msg)
    if wanted.workers > 1:
        msg = (
            f"workers is {wanted.workers}, and each member of a population trains in one process. Leave workers "
            "out; one process can use several GPUs: gpus=2."
        )
        raise OptionError(msg)
    kwargs = {**wanted.kwargs, **dict.fromkeys(names)}  # in their places come those of each trial
    check_arguments(wanted.function, (), kwargs)
    call = {"args": (), "kwargs": kwargs, "metric": wanted.metric}
    words = f"\n\n# {called(wanted.function)} is called with {', '.join(names)} of each member of a population\n"
    payload = pickle_payload(wanted.function, call, _named(wanted.kwargs), words, wanted.workdir)
    arguments = _common(wanted.function, (), kwargs, varied=names)
    return Plan(
        replace(payload, arguments=arguments),
        population.trials,
        None,
        wanted.metric,
        MAXIMIZE if wanted.goal == MAXIMIZE else MINIMIZE,
        population=population,
    )


def is_study(thing: object) -> bool:
    """Return whether something is a study of Optuna."""
    optuna = sys.modules.get("optuna")
    return optuna is not None and isinstance(thing, optuna.study.Study)


def _goal_of(study: Any, wanted: Wanted, *, in_memory: bool) -> Goal:
    """Return the direction of a study; raise `OptionError` if it cannot be a sweep."""
    directions = [direction.name.lower() for direction in study.directions]
    if len(directions) != 1:
        msg = (
            f"The study has {len(directions)} directions, and a sweep has one goal. Let the objective weigh them."
        )
        raise OptionError(msg)
    if wanted.goal not in (None, directions[0]):
        msg = f"goal is {given(wanted.goal)}, but the study's direction is to {directions[0]}. Leave goal out."
        raise OptionError(msg)
    if in_memory and type(study.sampler).__name__ == COUNTS_IN_STORAGE:
        msg = (
            f"{COUNTS_IN_STORAGE} counts its points in the study, which trials in processes of their own share "
            "only through a storage: create_study(storage='sqlite:///study.db', …)."
        )
        raise OptionError(msg)
    if not in_memory and wanted.workers > 1:
        msg = (
            "With several workers a trial belongs to several processes, which may not each ask the study's "
            "storage. Use a study in memory: create_study() without a storage."
        )
        raise OptionError(msg)
    return MAXIMIZE if directions[0] == MAXIMIZE else MINIMIZE


def _plan(
    wanted: Wanted,
    calls: Sequence[tuple[tuple[Any, ...], dict[str, Any]]],
    named: Sequence[tuple[str, Any]],
    parameters: Points,
    words: str,
) -> Plan:
    length = len(msgspec.json.encode(parameters))
    if length > MAX_PARAMETERS:
        msg = (
            f"The parameters of all trials together take {size(length)}, and a sweep takes "
            f"{size(MAX_PARAMETERS)}. Make fewer trials, or give parameters shorter names and values."
        )
        raise CaptureError(msg)
    text = f"\n\n# {called(wanted.function)} is called with {words}\n"
    call = {"calls": calls, "metric": wanted.metric}
    payload = pickle_payload(wanted.function, call, [*named, *_named(wanted.kwargs)], text, wanted.workdir)
    payload = replace(payload, arguments=_common(wanted.function, *calls[0], varied=parameters[0]))
    return Plan(payload, len(calls), parameters, wanted.metric, MAXIMIZE if wanted.goal == MAXIMIZE else MINIMIZE)


def _common(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], varied: Iterable[str] = ()
) -> dict[str, Argument]:
    """Return the arguments that all trials have in common: those given by place and ``varied`` ones differ."""
    found = call_arguments(function, args, kwargs)
    differ = {*list(found)[: len(args)], *varied}
    return {name: value for name, value in found.items() if name.partition(".")[0] not in differ}


def _named(kwargs: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(f"argument `{name}`", value) for name, value in kwargs.items()]

"""Validation of the trials that a sweep is submitted with."""

from __future__ import annotations

import msgspec

from springtide.scheduler import wire, wording
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.records import TrialsSpec

MAX_NAMES = 64
"""Maximum number of parameters of one trial."""


def validate_trials(trials: wire.Trials | None) -> tuple[TrialsSpec | None, bytes | None]:
    """Return what the store keeps of a sweep's trials, and their parameters as JSON if they are known beforehand.

    Of a job that is no sweep both are None. Raises `Refusal` for parameters that do not fit the number of trials,
    or are too many.
    """
    if trials is None:
        return None, None
    if not trials.metric.isprintable():
        raise _refused("The metric's name has control characters.", "Use the name of a reported value.")
    spec = TrialsSpec(
        number=trials.number,
        at_most=trials.at_most,
        at_least=trials.at_least,
        metric=trials.metric,
        goal=trials.goal,
        history=trials.history,
        known=trials.parameters is not None,
    )
    if trials.parameters is None:
        return spec, None
    if len(trials.parameters) < trials.number:
        raise _refused(
            f"There are {wording.count(trials.number, 'trial')}, but parameters of {len(trials.parameters)}.",
            "Send those of each trial, or leave them out.",
        )
    if any(len(each) > MAX_NAMES for each in trials.parameters):
        raise _refused(f"A trial has more than {MAX_NAMES} parameters.", "Put larger settings into a file.")
    body = msgspec.json.encode(trials.parameters)
    if len(body) > wire.MAX_PARAMETERS:
        raise Refusal(
            413,
            "too_large",
            f"The parameters have {len(body)} bytes together; at most {wire.MAX_PARAMETERS} are allowed.",
            field="trials",
            hint="Send the numbers that the trials differ in, and what they share as a file.",
        )
    return spec, body


def _refused(message: str, hint: str) -> Refusal:
    return Refusal(422, "invalid", message, field="trials", hint=hint)

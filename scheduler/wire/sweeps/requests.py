"""What a sweep is asked for."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta

from springtide.scheduler.wire.shapes import Request, Word

MAX_TRIALS: Final = 10_000
"""Maximum number of trials of a sweep."""
MAX_PARAMETERS: Final = 4 * 1024 * 1024
"""Maximum size of the parameters of all trials of a sweep together, as JSON, in bytes."""

ParameterName = Annotated[str, Meta(min_length=1, max_length=128)]
Parameter: TypeAlias = str | int | float | bool | None
"""A value of a parameter of a trial."""
Bound = Annotated[int, Meta(ge=1, le=MAX_TRIALS)]


class Trials(Request, frozen=True, kw_only=True):
    """The trials of a sweep: ``number`` runs of what is submitted, numbered from 0.

    At most ``at_most`` of them are unfinished at a time (None: as many as there are GPUs for), and at most
    ``at_least`` of them wait in line. ``metric`` names the reported value by which trials are compared, ``goal``
    says whether the smallest or the largest is the best. ``parameters`` are those of each trial, where they are
    known beforehand. With ``history`` each attempt of a trial gets the earlier trials as the file
    ``{code}/trials.json``.
    """

    number: Bound
    at_most: Bound | None = None
    at_least: Bound = 1
    metric: Word = ""
    goal: Literal["minimize", "maximize"] = "minimize"
    parameters: Annotated[list[dict[ParameterName, Parameter]], Meta(max_length=MAX_TRIALS)] | None = None
    history: bool = False


class TrialsEdit(Request, frozen=True, kw_only=True):
    """Changes to an unfinished sweep; what is left out stays. ``at_most`` 0 means no bound."""

    number: Bound | None = None
    at_most: Annotated[int, Meta(ge=0, le=MAX_TRIALS)] | None = None
    at_least: Bound | None = None

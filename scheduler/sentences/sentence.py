"""A sentence of a reason, and what it is good for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from springtide.scheduler.wording import count, quoted, sentence

Param: TypeAlias = str | int | float | tuple[str, ...] | None
Params: TypeAlias = Mapping[str, Param]


class Role(StrEnum):
    """What a sentence tells, so that a page can choose which ones it shows and in what order."""

    STATE = "state"
    """What is so now."""
    CAUSE = "cause"
    """What happened, and why."""
    DETAIL = "detail"
    """What others said about it, in their words."""
    CHANGE = "change"
    """What a person would have to change; nothing else lets the job start."""
    EASE = "ease"
    """What would let the job start, or start earlier, and comes about by itself: others end or ask for less."""
    NEXT = "next"
    """What happens next by itself."""
    PLACE = "place"
    """The place in line."""
    ADVICE = "advice"
    """What earlier runs say about other GPUs for it."""


class Sentence(NamedTuple):
    """A whole sentence with a capital and a full stop. It is shown as it is, or not at all."""

    role: Role
    text: str


Sentences: TypeAlias = Iterator[Sentence]
Table: TypeAlias = Mapping[str, Callable[[Params], Sentences]]
"""By the code of a reason, what makes its sentences from its parameters."""


def state(text: str) -> Sentence:
    """Make a sentence that tells what is so now."""
    return Sentence(Role.STATE, text)


def cause(text: str) -> Sentence:
    """Make a sentence that tells what happened."""
    return Sentence(Role.CAUSE, text)


def change(text: str) -> Sentence:
    """Make a sentence that tells what a person would have to change."""
    return Sentence(Role.CHANGE, text)


def ease(text: str) -> Sentence:
    """Make a sentence that tells what would let the job start and comes about by itself."""
    return Sentence(Role.EASE, text)


def follows(text: str) -> Sentence:
    """Make a sentence that tells what happens next."""
    return Sentence(Role.NEXT, text)


def advice(text: str) -> Sentence:
    """Make a sentence that tells how fast earlier runs were on other GPUs."""
    return Sentence(Role.ADVICE, text)


def detail(params: Params) -> Sentences:
    """Yield what others said, if they said anything."""
    said = sentence(str(params.get("detail") or ""))
    if said:
        yield Sentence(Role.DETAIL, said)


def number(params: Params, key: str) -> int:
    """Return a whole number among the parameters, 0 if there is none."""
    value = params.get(key)
    return int(value) if isinstance(value, int | float) else 0


def real(params: Params, key: str) -> float:
    """Return a number among the parameters, 0 if there is none."""
    value = params.get(key)
    return float(value) if isinstance(value, int | float) else 0.0


def typed_gpus(params: Params, number: int) -> str:
    """Return ``4 GPUs``, where the pool has several types ``4 t4 GPUs``: of the type that the reason is about."""
    return count(number, gpu_noun(params))


def gpu_noun(params: Params) -> str:
    """Return ``GPU``, where the pool has several types ``t4 GPU``: of the type that the reason is about."""
    of_type = params.get("of_type")
    return f"{quoted(str(of_type))} GPU" if of_type else "GPU"


def names(params: Params, key: str) -> tuple[str, ...]:
    """Return the names among the parameters."""
    value = params.get(key)
    return value if isinstance(value, tuple) else tuple(value) if isinstance(value, list) else ()

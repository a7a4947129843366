"""A sentence of a reason, and its role."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from springtide.scheduler.wording import count, labelled, sentence

Param: TypeAlias = str | int | float | tuple[str, ...] | None
Params: TypeAlias = Mapping[str, Param]


class Role(StrEnum):
    """The role of a sentence, by which a page chooses the sentences to show and their order."""

    STATE = "state"
    """The present state."""
    CAUSE = "cause"
    """An event and its reason."""
    DETAIL = "detail"
    """The original words of others, such as the cluster or an administrator."""
    CHANGE = "change"
    """A change that a person would have to make; nothing else lets the job start."""
    EASE = "ease"
    """An event that would let the job start, or start earlier, on its own: other jobs end or request less."""
    NEXT = "next"
    """The event that follows on its own."""
    PLACE = "place"
    """The position in the queue."""
    ADVICE = "advice"
    """The speed of earlier runs on other GPUs."""


class Sentence(NamedTuple):
    """A whole sentence with a capital and a full stop, shown unchanged or not at all."""

    role: Role
    text: str


Sentences: TypeAlias = Iterator[Sentence]
Table: TypeAlias = Mapping[str, Callable[[Params], Sentences]]
"""Functions by the code of a reason, which make its sentences from its parameters."""


def state(text: str) -> Sentence:
    """Return a sentence about the present state."""
    return Sentence(Role.STATE, text)


def cause(text: str) -> Sentence:
    """Return a sentence about an event and its reason."""
    return Sentence(Role.CAUSE, text)


def change(text: str) -> Sentence:
    """Return a sentence about a change that a person would have to make."""
    return Sentence(Role.CHANGE, text)


def ease(text: str) -> Sentence:
    """Return a sentence about an event that would let the job start on its own."""
    return Sentence(Role.EASE, text)


def follows(text: str) -> Sentence:
    """Return a sentence about the event that follows on its own."""
    return Sentence(Role.NEXT, text)


def advice(text: str) -> Sentence:
    """Return a sentence about the speed of earlier runs on other GPUs."""
    return Sentence(Role.ADVICE, text)


def detail(params: Params) -> Sentences:
    """Yield the original words of others, if there are any."""
    words = sentence(str(params.get("detail") or ""))
    if words:
        yield Sentence(Role.DETAIL, words)


def number(params: Params, key: str) -> int:
    """Return a whole number among the parameters, 0 if there is none."""
    value = params.get(key)
    return int(value) if isinstance(value, int | float) else 0


def real(params: Params, key: str) -> float:
    """Return a number among the parameters, 0 if there is none."""
    value = params.get(key)
    return float(value) if isinstance(value, int | float) else 0.0


def typed_gpus(params: Params, number: int) -> str:
    """Return ``4 GPUs``, or ``4 t4 GPUs`` with the reason's GPU type if the pool has several types."""
    return count(number, gpu_noun(params))


def gpu_noun(params: Params) -> str:
    """Return ``GPU``, or ``t4 GPU`` with the reason's GPU type if the pool has several types."""
    of_type = params.get("of_type")
    return f"{labelled(str(of_type))} GPU" if of_type else "GPU"


def names(params: Params, key: str) -> tuple[str, ...]:
    """Return the names among the parameters."""
    value = params.get(key)
    return value if isinstance(value, tuple) else tuple(value) if isinstance(value, list) else ()


class Drains(NamedTuple):
    """Drains that end first: ``the node n1 and 2 more``, how many, and the time of their end."""

    what: str
    number: int
    end: str


def first_drains(params: Params) -> Drains | None:
    """Return which of the drained nodes and GPUs among the parameters come back first; None if there are none."""
    ends = names(params, "drained_until")
    if not ends:
        return None
    first = [name for name, end in zip(names(params, "drained"), ends, strict=True) if end == ends[0]]
    more = f" and {len(first) - 1} more" if len(first) > 1 else ""
    return Drains(f"{first[0]}{more}", len(first), ends[0])

"""Population-based training: the parameters of each generation of a population; pure.

The terms are those of Jaderberg et al., "Population Based Training of Neural Networks" (2017). All members train
for an interval, a generation. Then those in the bottom quantile *exploit* one of the top quantile (truncation
selection): they continue from its checkpoint with its parameters, and *explore*: each parameter is perturbed or
resampled.

Every draw is a hash of the seed, the generation, the member and the value. Thus a decision depends on nothing
but these and the values that the members reached, whatever the order in which they reached them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct

from springtide.scheduler.arguments import Value
from springtide.scheduler.wording import given

MAX_MEMBERS: Final = 256
"""Maximum number of members of a population."""
MAX_GENERATIONS: Final = 1_000
"""Maximum number of generations of a population."""
MAX_CHOICES: Final = 256
"""Maximum number of choices of a parameter."""
MAX_SPACE: Final = 64
"""Maximum number of parameters of a population."""
MAX_BOUND: Final = 1e300
"""Maximum size of the bound of a range."""
MAX_SEED: Final = 1 << 53
"""Maximum size of a seed, which every reader of JSON keeps exactly."""
MAX_CHOICE: Final = 100
"""Maximum length of a choice that is a text, in characters."""
MAX_CHOSEN: Final = 2_048
"""Maximum number of parameters of all members of a generation together."""

Bound = Annotated[float, Meta(ge=-MAX_BOUND, le=MAX_BOUND)]
Fraction = Annotated[float, Meta(ge=0, le=1)]


class Range(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The numbers from ``low`` to ``high``, drawn uniformly, with ``log`` uniformly by their logarithm."""

    low: Bound
    high: Bound
    log: bool = False


Choices: TypeAlias = Annotated[tuple[Value, ...], Meta(min_length=1, max_length=MAX_CHOICES)]
ParameterName = Annotated[str, Meta(min_length=1, max_length=128)]
Values: TypeAlias = Mapping[str, Value]


class Population(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A population of ``members`` that train for ``generations`` of ``every`` steps each.

    ``space`` has the range or the choices of each parameter. After a generation the members in the bottom
    ``quantile`` continue as copies of members in the top ``quantile``. A copy draws a parameter anew with the
    probability ``resample``; otherwise it multiplies a number of a range by one of the ``factors``, and takes a
    neighbour among choices.
    """

    members: Annotated[int, Meta(ge=2, le=MAX_MEMBERS)]
    generations: Annotated[int, Meta(ge=1, le=MAX_GENERATIONS)]
    every: Annotated[float, Meta(gt=0, le=MAX_BOUND)]
    space: Annotated[dict[ParameterName, Range | Choices], Meta(min_length=1, max_length=MAX_SPACE)]
    quantile: Annotated[float, Meta(ge=0, le=0.5)] = 0.25
    resample: Fraction = 0.25
    factors: tuple[Annotated[float, Meta(gt=0, le=1000)], Annotated[float, Meta(gt=0, le=1000)]] = (0.8, 1.2)
    seed: Annotated[int, Meta(ge=-MAX_SEED, le=MAX_SEED)] = 0

    @property
    def trials(self) -> int:
        """Number of its trials: one for each member in each generation."""
        return self.members * self.generations

    def member_of(self, trial: int) -> int:
        """Return the member that a trial belongs to."""
        return trial % self.members

    def generation_of(self, trial: int) -> int:
        """Return the generation that a trial belongs to, from 1."""
        return trial // self.members + 1

    def until(self, generation: int) -> float:
        """Return the step at which a generation ends."""
        return self.every * generation


@dataclass(frozen=True, slots=True)
class Member:
    """A member in one generation: its parameters, and the member whose last checkpoint it continues from.

    ``source`` is None in the first generation. A member that exploits another has another ``source`` than itself.
    """

    parameters: Values
    source: int | None = None


class MemberRef(Struct, frozen=True, kw_only=True):
    """The member and the generation, from 1, of a trial; it trains up to the step ``until``.

    ``parent`` is the trial whose last checkpoint it continues from, None in the first generation; ``copied_from``
    is the member of that trial, None if it is the same one.
    """

    member: int
    generation: int
    generations: int
    until: float
    parent: int | None = None
    copied_from: int | None = None


def why_invalid(population: Population) -> str | None:
    """Return why a population cannot be trained, in a sentence, None if it can."""
    chosen = population.members * len(population.space)
    if chosen > MAX_CHOSEN:
        product = f"{population.members} members times {len(population.space)} parameters"
        return f"{product} are {chosen}; at most {MAX_CHOSEN} are allowed."
    for name, space in population.space.items():
        if not name.isidentifier():
            return f"The name {given(name)} is no name of a parameter of a function."
        if isinstance(space, Range):
            if not space.low < space.high:
                return f"The range of {name} goes from {space.low:g} to {space.high:g}, which has nothing in it."
            if space.log and space.low <= 0:
                return f"The range of {name} begins at {space.low:g}; one by logarithm begins above 0."
        elif len({_key(choice) for choice in space}) < len(space):
            return f"The choices of {name} have the same value twice."
        elif any(isinstance(choice, str) and len(choice) > MAX_CHOICE for choice in space):
            return f"A choice of {name} has more than {MAX_CHOICE} characters."
        elif any(isinstance(choice, float) and not math.isfinite(choice) for choice in space):
            return f"A choice of {name} is no finite number."
    return None


def first_generation(population: Population) -> tuple[Member, ...]:
    """Return the members of the first generation, with parameters drawn from the space."""
    return tuple(Member(_drawn(population, member)) for member in range(population.members))


def _drawn(population: Population, member: int) -> dict[str, Value]:
    return {
        name: _sample(space, _draw(population, 1, member, f"{name}:value"))
        for name, space in population.space.items()
    }


def next_generation(
    population: Population,
    generation: int,
    parameters: Sequence[Values],
    values: Sequence[float | None],
    goal: str,
) -> tuple[Member, ...]:
    """Return the members of ``generation``, which follows that with these parameters and values, by member.

    The value of a member that failed or reported no finite number is None: it is worse than all others. With no
    value at all there is no member to continue from, and the result is empty.
    """
    sign = -1.0 if goal == "maximize" else 1.0
    ranked = sorted(range(population.members), key=lambda member: _rank(values[member], sign, member))
    good = [member for member in ranked if values[member] is not None]
    if not good:
        return ()
    number = quantile_size(population)
    top = good[: max(1, number)]
    bottom = {*ranked[population.members - number :], *ranked[len(good) :]} - set(top)
    return tuple(
        _exploited(population, generation, member, top, parameters)
        if member in bottom
        else Member(parameters[member], member)
        for member in range(population.members)
    )


def quantile_size(population: Population) -> int:
    """Return the number of members in the top quantile, and in the bottom one: at most half of all."""
    return min(math.ceil(round(population.members * population.quantile, 9)), population.members // 2)


def _rank(value: float | None, sign: float, member: int) -> tuple[bool, float, int]:
    return (value is None, 0.0 if value is None else sign * value, member)


def _exploited(
    population: Population, generation: int, member: int, top: Sequence[int], parameters: Sequence[Values]
) -> Member:
    source = top[int(_draw(population, generation, member, "source") * len(top))]
    explored = {
        name: _explored(population, space, parameters[source].get(name), (generation, member, name))
        for name, space in population.space.items()
    }
    return Member(explored, source)


def _explored(population: Population, space: Range | Choices, value: Value, where: tuple[int, int, str]) -> Value:
    generation, member, name = where
    anew = _draw(population, generation, member, f"{name}:resample") < population.resample
    side = int(_draw(population, generation, member, f"{name}:side") * 2)
    if not anew and isinstance(space, Range) and isinstance(value, int | float):
        return min(space.high, max(space.low, value * population.factors[side]))
    if not anew and not isinstance(space, Range):
        keys = [_key(choice) for choice in space]
        if _key(value) in keys:
            return space[_neighbour(keys.index(_key(value)), len(space), side)]
    return _sample(space, _draw(population, generation, member, f"{name}:value"))


def _neighbour(place: int, length: int, side: int) -> int:
    """Return the place of the neighbour on a side, at an end that of the only one."""
    wanted = place + (1 if side else -1)
    if 0 <= wanted < length:
        return wanted
    return max(0, min(length - 1, place + (-1 if side else 1)))


def _sample(space: Range | Choices, draw: float) -> Value:
    if not isinstance(space, Range):
        return space[int(draw * len(space))]
    if space.log:
        low, high = math.log(space.low), math.log(space.high)
        return min(space.high, max(space.low, math.exp(low + (high - low) * draw)))
    return min(space.high, max(space.low, space.low + (space.high - space.low) * draw))


def _key(choice: Value) -> tuple[str, Value]:
    return type(choice).__name__, choice


def _draw(population: Population, generation: int, member: int, what: str) -> float:
    """Return a number from 0 to below 1 that follows from the arguments alone."""
    digest = hashlib.sha256(f"{population.seed}/{generation}/{member}/{what}".encode()).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / (1 << 53)

"""Population-based training: which member exploits which, and how it explores, as a rule without chance."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from springtide.scheduler.population import (
    Member,
    Population,
    Range,
    first_generation,
    next_generation,
    quantile_size,
    why_invalid,
)

SPACE: dict[str, Any] = {"rate": Range(low=0.001, high=0.1, log=True), "layers": (1, 2, 3, 4)}
VALUES = some.one_of(some.none(), some.floats(-1e6, 1e6))


def population(**changes: Any) -> Population:
    fields: dict[str, Any] = {"members": 8, "generations": 5, "every": 10.0, "space": SPACE, "seed": 7}
    return Population(**{**fields, **changes})


def following(of: Population, values: list[float | None], goal: str = "minimize", number: int = 2) -> Any:
    parameters = [member.parameters for member in first_generation(of)]
    return next_generation(of, number, parameters, values, goal)


def copies(members: tuple[Member, ...]) -> dict[int, int | None]:
    return {place: member.source for place, member in enumerate(members) if member.source != place}


def test_the_worst_quarter_continues_from_members_of_the_best_quarter():
    of = population()
    copied = copies(following(of, [3.0, 1.0, 9.0, 4.0, 2.0, 8.0, 5.0, 6.0]))
    assert set(copied) == {2, 5}
    assert set(copied.values()) <= {1, 4}
    copied = copies(following(of, [3.0, 1.0, 9.0, 4.0, 2.0, 8.0, 5.0, 6.0], "maximize"))
    assert set(copied) == {1, 4}
    assert set(copied.values()) <= {2, 5}


def test_a_member_that_goes_on_keeps_its_parameters_and_a_copy_explores_those_of_its_source():
    of = population(resample=0.0)
    before = [member.parameters for member in first_generation(of)]
    for place, member in enumerate(following(of, [float(n) for n in range(8)])):
        if member.source == place:
            assert member.parameters == before[place]
            continue
        source = before[member.source]
        assert member.parameters["rate"] in {
            min(0.1, source["rate"] * 1.2),
            max(0.001, source["rate"] * 0.8),
        }
        assert abs(member.parameters["layers"] - source["layers"]) == 1, "a neighbour among the choices"


def test_with_resampling_alone_all_parameters_of_a_copy_are_drawn_from_the_space():
    of = population(resample=1.0, members=64)
    after = following(of, [float(n) for n in range(64)])
    fresh = [after[place].parameters for place in copies(after)]
    assert len({each["rate"] for each in fresh}) == len(fresh)
    assert {each["layers"] for each in fresh} == {1, 2, 3, 4}


def test_failed_members_are_worse_than_all_others_and_are_all_replaced():
    copied = copies(following(population(), [None, 7.0, None, None, 5.0, 6.0, None, 4.0]))
    assert set(copied) == {0, 2, 3, 6}
    assert set(copied.values()) <= {7, 4}
    assert copies(following(population(), [None, None, None, 1.0, None, None, None, None])) == dict.fromkeys(
        [0, 1, 2, 4, 5, 6, 7], 3
    )


def test_without_any_value_no_generation_follows():
    assert following(population(), [None] * 8) == ()


def test_equal_values_are_ranked_by_the_number_of_the_member():
    assert set(copies(following(population(), [1.0] * 8))) == {6, 7}


@pytest.mark.parametrize(
    ("members", "quantile", "size"),
    [(2, 0.25, 1), (3, 0.5, 1), (8, 0.25, 2), (10, 0.25, 3), (100, 0.07, 7), (8, 0, 0)],
)
def test_the_quantile_is_rounded_up_to_whole_members_and_is_at_most_half(members, quantile, size):
    assert quantile_size(population(members=members, quantile=quantile)) == size


def test_with_a_quantile_of_0_only_failed_members_are_replaced():
    of = population(quantile=0.0)
    assert copies(following(of, [float(n) for n in range(8)])) == {}
    assert copies(following(of, [None, *map(float, range(7))])) == {0: 1}


def test_another_seed_or_generation_draws_otherwise_and_the_same_one_equally():
    of, values = population(), [float(n) for n in range(8)]
    assert following(of, values) == following(of, values)
    assert following(of, values) != following(of, values, number=3)
    assert first_generation(of) == first_generation(population())
    assert first_generation(of) != first_generation(population(seed=8))


def test_ranges_are_drawn_uniformly_and_by_logarithm():
    of = population(members=256, space={"a": Range(low=-1, high=3), "b": Range(low=0.001, high=1000, log=True)})
    drawn = [member.parameters for member in first_generation(of)]
    a, b = (sorted(float(each[name] or 0) for each in drawn) for name in ("a", "b"))
    assert -1 <= a[0] < -0.8 < 2.8 < a[-1] <= 3
    assert max(after - before for before, after in pairwise(a)) < 0.2
    assert 0.3 < b[128] < 3.5, "the middle of the logarithms is 1"
    assert all(0.001 <= value <= 1000 for value in b)


@given(values=some.lists(VALUES, min_size=8, max_size=8), goal=some.sampled_from(["minimize", "maximize"]))
@settings(deadline=None)
def test_decisions_follow_from_ranks_alone(values, goal):
    """Whatever keeps the order of values keeps the decision; each is made from the best ones that there are."""
    of = population()
    after = following(of, values, goal)
    moved = [None if value is None else math.atan(value / 1e3) for value in values]
    distinct = [value for value in moved if value is not None]
    if len(set(distinct)) == len({value for value in values if value is not None}):
        assert following(of, moved, goal) == after
    known = [place for place in range(8) if values[place] is not None]
    assert bool(after) == bool(known)
    sign = -1 if goal == "maximize" else 1
    best = sorted(known, key=lambda place: (sign * values[place], place))[:2]
    for place, source in copies(after).items():
        assert source in best
        assert place not in best
    for member in after:
        assert 0.001 <= member.parameters["rate"] <= 0.1
        assert member.parameters["layers"] in SPACE["layers"]


@given(values=some.lists(VALUES, min_size=8, max_size=8), arrival=some.permutations(range(8)))
@settings(deadline=None)
def test_the_order_in_which_members_reach_their_values_changes_nothing(values, arrival):
    reached: dict[int, float | None] = {}
    for member in arrival:
        reached[member] = values[member]
    of = population()
    assert following(of, [reached[member] for member in range(8)]) == following(of, values)


@pytest.mark.parametrize(
    ("space", "why"),
    [
        ({"rate": Range(low=1, high=1)}, "The range of rate goes from 1 to 1, which has nothing in it."),
        (
            {"rate": Range(low=0, high=1, log=True)},
            "The range of rate begins at 0; one by logarithm begins above 0.",
        ),
        ({"kind": ("a", "b", "a")}, "The choices of kind have the same value twice."),
        ({"kind": (1, True, 1.0)}, None),
        ({"a=b": (1, 2)}, "The name “a=b” is no name of a parameter of a function."),
        ({"kind": ("x" * 101,)}, "A choice of kind has more than 100 characters."),
    ],
)
def test_spaces_with_nothing_to_search_are_named(space, why):
    assert why_invalid(population(space=space)) == why


def test_the_parameters_of_all_members_together_are_bounded():
    wide = {f"p{number}": (1, 2) for number in range(9)}
    why = why_invalid(population(members=256, space=wide))
    assert why == "256 members times 9 parameters are 2304; at most 2048 are allowed."

"""Numbers of GPUs by type: what a plain number and a table mean for each type of a pool."""

from __future__ import annotations

import pytest

from springtide.scheduler.gpu_types import (
    NodesByType,
    accepted_types,
    amount_of,
    as_table,
    build_quota_of,
    gpus_words,
    pool_types,
    project_of_type,
    summed,
    total,
)
from springtide.scheduler.model import Amount, Node, Project, Standing

NODES = (Node("n2", 8, "t4"), Node("n1", 8, "v100"), Node("n3", 8, "t4"), Node("n0", 8, "a100"))


def test_the_types_of_a_pool_are_those_of_its_nodes_in_the_order_given() -> None:
    assert pool_types(NODES, ("t4", "h100", "a100")) == ("t4", "a100", "v100")


def test_types_without_order_follow_the_names_of_their_nodes() -> None:
    assert pool_types(NODES) == pool_types(tuple(reversed(NODES))) == ("a100", "v100", "t4")


def test_a_pool_without_nodes_has_one_type() -> None:
    assert pool_types(()) == ("",)


def test_a_job_accepts_the_types_that_it_names_in_its_order_or_all_in_that_of_the_pool() -> None:
    types = ("t4", "a100")
    assert accepted_types(("a100", "h100", "t4"), types) == ("a100", "t4")
    assert accepted_types((), types) == types
    assert accepted_types(("h100",), types) == ()


@pytest.mark.parametrize(
    ("amount", "numbers"),
    [
        (None, (None, None)),
        (0, (0, 0)),
        (4, (4, 0)),
        ({"a100": 2}, (0, 2)),
        ({"t4": None, "a100": 2}, (None, 2)),
    ],
)
def test_a_table_and_a_plain_number_say_what_counts_for_each_type(
    amount: Amount, numbers: tuple[int | None, ...]
) -> None:
    assert tuple(amount_of(amount, each, ("t4", "a100")) for each in ("t4", "a100")) == numbers


def test_a_type_left_out_has_no_quota_no_limit_and_no_build_quota() -> None:
    project = Project("p", quota={"t4": 8}, limit={"t4": 9}, build_quota={"t4": 1})
    assert project_of_type(project, "t4", ("t4", "a100")) == Project("p", quota=8, limit=9, build_quota=1)
    assert project_of_type(project, "a100", ("t4", "a100")) == Project("p", quota=0, limit=None, build_quota=0)
    assert build_quota_of(Project("p", build_quota=2), "t4", ("t4",)) == 2


def test_amounts_are_shown_as_tables_and_sums() -> None:
    assert as_table(3, ("t4", "a100")) == {"t4": 3, "a100": 0}
    assert as_table({"t4": 3}, ("t4", "a100"), None) == {"t4": 3, "a100": None}
    assert total({"t4": 3, "a100": 2}) == total(5) == 5
    assert total({"t4": 3, "a100": None}) is None


def test_what_is_borrowed_of_one_type_is_not_made_up_by_another() -> None:
    standing = summed(
        {
            "t4": Standing(quota=4, limit=None, fair_share=4, held=2, request=3),
            "a100": Standing(quota=1, limit=8, fair_share=2, held=2, request=2),
        }
    )
    assert (standing.quota, standing.limit, standing.fair_share, standing.held) == (5, None, 6, 4)
    assert (standing.borrowed, standing.waiting) == (1, 1)


def test_the_nodes_of_each_type_follow_a_change_of_nodes_and_of_their_order() -> None:
    by_type = NodesByType()
    first = by_type.of(NODES, ("t4",))
    assert list(first) == list(pool_types(NODES, ("t4",)))
    assert {name: [node.gpu_type for node in nodes] for name, nodes in first.items()} == {
        name: [node.gpu_type for node in NODES if node.gpu_type == name] for name in first
    }
    assert list(by_type.of(NODES, ())) == list(pool_types(NODES))
    fewer = tuple(node for node in NODES if node.gpu_type != "t4")
    assert "t4" not in by_type.of(fewer, ())
    assert by_type.of((), ()) == {}


@pytest.mark.parametrize(
    ("amount", "said"),
    [
        (1, "1 GPU"),
        (4, "4 GPUs"),
        ({"t4": 1}, "1 t4 GPU"),
        ({"t4": 1, "a100": 0}, "1 t4 GPU"),
        ({"t4": 1, "a100": 2}, "1 t4 GPU and 2 a100 GPUs"),
        ({"t4": 0}, "0 GPUs"),
    ],
)
def test_each_type_of_an_amount_has_the_noun_of_its_number(amount: Amount, said: str) -> None:
    assert gpus_words(amount) == said

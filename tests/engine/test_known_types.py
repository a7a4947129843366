"""The GPU types that a pool knows: what happens to quotas when a type joins, is renamed or leaves."""

from __future__ import annotations

from springtide.scheduler.engine.state.known_types import KnownTypes, Quantities, updated
from springtide.scheduler.gpu_types import DeclaredTypes
from springtide.scheduler.model import Environment, Node, Project
from springtide.scheduler.store.tables import PersonRecord, ProjectRecord

V100, A100 = Node("n1", 8, "v100"), Node("n2", 8, "a100")
T4 = Node("b1", 2, "t4", environment=Environment.BUILD)


def quantities(
    types: KnownTypes | None = None, people: tuple[PersonRecord, ...] = (), **projects: Project
) -> Quantities:
    records = {name: ProjectRecord(project) for name, project in projects.items()}
    return Quantities(types or KnownTypes(), records, {person.name: person for person in people})


def project(of: Quantities, name: str) -> Project:
    return of.projects[name].project


def test_numbers_of_a_pool_with_one_type_stay_plain() -> None:
    before = quantities(p=Project("p", quota=4, limit=6, build_quota=1))
    after = updated(before, (V100, T4))
    assert (after.types.train, after.types.build) == (("v100",), ("t4",))
    assert project(after, "p") == project(before, "p")
    assert updated(after, (V100, T4)) == after


def test_when_a_type_joins_numbers_stay_with_the_type_that_was_there() -> None:
    one = updated(
        quantities(p=Project("p", quota=4, limit=6, build_quota=1), q=Project("q", quota=None)), (V100, T4)
    )
    two = updated(one, (A100, V100, T4))
    assert two.types.train == ("v100", "a100")
    assert project(two, "p") == Project("p", quota={"v100": 4}, limit={"v100": 6}, build_quota=1)
    assert project(two, "q") == Project("q", quota={"v100": None}, limit=None)
    assert updated(two, (V100, A100, T4)) == two


def test_a_cheaper_type_that_joins_is_first_in_the_order_and_gets_nothing() -> None:
    declared = DeclaredTypes.of_setting({"a100": [], "v100": []})
    one = updated(quantities(KnownTypes(declared=declared), p=Project("p", quota=4, limit=0)), (V100,))
    two = updated(one, (A100, V100))
    assert two.types.train == ("a100", "v100")
    assert project(two, "p") == Project("p", quota={"v100": 4}, limit={"v100": 0})


def test_a_third_type_has_no_quota_either() -> None:
    two = quantities(KnownTypes(("v100", "a100")), p=Project("p", quota={"v100": 4}), q=Project("q", quota=None))
    three = updated(two, (A100, V100, Node("n3", 4, "h100")))
    assert three.types.train == ("v100", "a100", "h100")
    assert project(three, "p").quota == {"v100": 4}
    assert project(three, "q").quota == {"v100": None, "a100": None}


def test_numbers_from_before_types_were_told_apart_belong_to_the_type_with_most_gpus() -> None:
    after = updated(quantities(p=Project("p", quota=4)), (Node("n1", 2, "t4"), A100))
    assert after.types.train == ("t4", "a100")
    assert project(after, "p").quota == {"a100": 4}


def test_build_quotas_follow_the_types_of_build_gpus_alone() -> None:
    people = (PersonRecord("susan", 2),)
    one = updated(quantities(people=people, p=Project("p", quota=4, build_quota=1)), (V100, T4))
    two = updated(one, (V100, T4, Node("b2", 1, "l4", environment=Environment.BUILD)))
    assert two.types.build == ("t4", "l4")
    assert project(two, "p") == Project("p", quota=4, build_quota={"t4": 1})
    assert two.people["susan"].build_quota == {"t4": 2}


def test_a_type_is_known_while_it_has_gpus_or_anybody_has_a_number_of_it() -> None:
    two = quantities(KnownTypes(("v100", "a100")), p=Project("p", quota={"v100": 4}))
    without_quota = updated(two, (V100,))
    assert without_quota.types.train == ("v100",)
    assert updated(two, (A100,)).types.train == ("v100", "a100")
    limited = quantities(KnownTypes(("v100", "a100")), p=Project("p", limit={"v100": 0}))
    assert updated(limited, (A100,)).types.train == ("v100", "a100")
    assert updated(two, ()).types.train == ("v100",)


def test_nodes_that_are_all_away_do_not_change_what_a_plain_number_means() -> None:
    one = updated(quantities(p=Project("p", quota=4)), (V100,))
    assert updated(one, ()) == one


def test_a_type_that_is_declared_later_takes_the_numbers_of_its_models() -> None:
    declared = DeclaredTypes.of_setting({"big": ["a100", "h100"]})
    two = quantities(
        KnownTypes(("a100", "h100"), declared=declared), p=Project("p", quota={"a100": 4, "h100": 2}, limit=None)
    )
    after = updated(two, (Node("n1", 8, "big"),))
    assert after.types.train == ("big",)
    assert project(after, "p").quota == {"big": 6}

"""Numbers of GPUs by type, for pools with several GPU types; the tables of other pools are empty. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from springtide.scheduler import wire
from springtide.scheduler.engine.requests import quotas
from springtide.scheduler.engine.requests.workspaces import gpus_held_by
from springtide.scheduler.engine.state.observed import ObservedNodes
from springtide.scheduler.engine.state.state import State
from springtide.scheduler.gpu_types import amount_of, as_table, build_quota_of, limit_of, quota_of, total
from springtide.scheduler.model import Amount, Node, Project, Standing

NO_STANDING = Standing(quota=0, limit=None, fair_share=0, held=0, request=0)


def sum_of(amount: Amount, types: Sequence[str], missing: int | None = 0) -> int | None:
    """Return the sum of an amount over the pool's types, None if that of any type is None."""
    return total(as_table(amount, types or ("",), missing))


def quota_sums(state: State) -> dict[str, int | None]:
    """Return each project's quota over all types."""
    return {name: sum_of(project.quota, state.types.train) for name, project in state.policy_projects().items()}


def standing_of(standing: Standing, gpu_type: str, present: Sequence[str]) -> Standing:
    """Return the standing for one type; ``present`` are the types of the nodes that there are now."""
    if standing.by_type:
        return standing.by_type.get(gpu_type, NO_STANDING)
    return standing if gpu_type in present else NO_STANDING


def project_numbers(
    project: Project, standing: Standing, types: Sequence[str], present: Sequence[str]
) -> dict[str, wire.TypeNumbers]:
    """Return a project's train GPUs of each type."""
    if len(types) < 2:
        return {}
    found = {}
    for each in types:
        of_type = standing_of(standing, each, present)
        quota = quota_of(project, each, types)
        found[each] = wire.TypeNumbers(
            quota=quota,
            limit=limit_of(project, each, types),
            fair_share=of_type.fair_share,
            held=of_type.held,
            borrowed=0 if quota is None else max(0, of_type.held - quota),
            waiting=of_type.waiting,
        )
    return found


def build_quotas(project: Project, types: Sequence[str]) -> dict[str, int]:
    """Return a project's build quota of each type."""
    return {each: build_quota_of(project, each, types) for each in types} if len(types) > 1 else {}


def person_numbers(state: State, name: str, of: Sequence[str]) -> dict[str, wire.PersonNumbers]:
    """Return a person's build GPUs of each type; ``of`` are her projects."""
    types = state.types.build
    if len(types) < 2:
        return {}
    record, projects = state.people.get(name), state.policy_projects()
    own = None if record is None else record.build_quota
    return {
        each: wire.PersonNumbers(
            build_quota=quotas.build_quota(of, own, projects, each, types),
            own_build_quota=None if own is None else amount_of(own, each, types),
            build_held=gpus_held_by(name, state.workspaces, each),
        )
        for each in types
    }


def train_use(state: State, nodes: ObservedNodes, held: Mapping[str, int]) -> dict[str, wire.TypeUse]:
    """Return the train GPUs of each type; ``held`` are numbers of held GPUs by node."""
    types, train, projects = state.types.train, nodes.train(), state.policy_projects()
    if len(types) < 2:
        return {}
    return {
        each: wire.TypeUse(
            train_gpus=(gpus := quotas.total_gpus(train, each)),
            train_held=_held(train, each, held),
            quota_sum=quotas.quota_sum(projects, gpus, each, types),
        )
        for each in types
    }


def build_use(state: State, nodes: ObservedNodes) -> dict[str, wire.BuildUse]:
    """Return the build GPUs of each type."""
    types, build = state.types.build, nodes.build()
    if len(types) < 2:
        return {}
    held: dict[str, int] = {}
    for record in state.workspaces.values():
        held[record.node] = held.get(record.node, 0) + len(record.gpus)
    return {
        each: wire.BuildUse(build_gpus=quotas.total_gpus(build, each), build_held=_held(build, each, held))
        for each in types
    }


def _held(nodes: Sequence[Node], gpu_type: str, held: Mapping[str, int]) -> int:
    return sum(held.get(node.name, 0) for node in nodes if node.gpu_type == gpu_type)


def sums(state: State, nodes: ObservedNodes, members: Mapping[str, Sequence[str]]) -> wire.Sums:
    """Return the sums that an admin watches; ``members`` are the members by project. Nodes that may come count."""
    own = {record.name: record.build_quota for record in state.people.values()}
    projects, train, build = state.policy_projects(), nodes.possible(), nodes.build()
    given = quotas.BuildQuotas(members, own, projects)
    types, build_types = state.types.train or ("",), state.types.build or ("",)
    by_type = {
        each: wire.TrainSums(
            train_gpus=(gpus := quotas.total_gpus(train, each if len(types) > 1 else None)),
            quota_sum=quotas.quota_sum(projects, gpus, each, types),
        )
        for each in types
    }
    build_by_type = {
        each: wire.BuildSums(
            build_gpus=quotas.total_gpus(build, each if len(build_types) > 1 else None),
            build_quota_sum=given.sum(each, build_types),
        )
        for each in build_types
    }
    return wire.Sums(
        train_gpus=quotas.total_gpus(train),
        quota_sum=sum(each.quota_sum for each in by_type.values()),
        build_gpus=quotas.total_gpus(build),
        build_quota_sum=sum(each.build_quota_sum for each in build_by_type.values()),
        by_type=by_type if len(types) > 1 else {},
        build_by_type=build_by_type if len(build_types) > 1 else {},
    )

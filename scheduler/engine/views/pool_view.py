"""Views of the pool, its projects and its people; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType

from springtide.scheduler import sentences, wire
from springtide.scheduler.engine import messages
from springtide.scheduler.engine.requests import project_admin, quotas, ranges
from springtide.scheduler.engine.requests.validation import with_ancestors
from springtide.scheduler.engine.requests.workspaces import gpus_held_by
from springtide.scheduler.engine.settings import EngineSettings
from springtide.scheduler.engine.state.blocks import words_of
from springtide.scheduler.engine.state.known_types import KnownTypes
from springtide.scheduler.engine.state.lineage import lineage
from springtide.scheduler.engine.state.observed import ObservedNodes
from springtide.scheduler.engine.state.state import State
from springtide.scheduler.engine.views.unmatched import unmatched
from springtide.scheduler.gpu_types import amount_of, as_table, build_quota_of, limit_of, quota_of, total
from springtide.scheduler.model import Amount, BlockScope, Environment, Node, Project, Standing
from springtide.scheduler.store.tables import Ending, EndingKind, ProjectRecord

NO_ENDINGS: Mapping[str, wire.EndingView] = MappingProxyType({})
NO_STANDING = Standing(quota=0, limit=None, fair_share=0, held=0, request=0)


def sum_of(amount: Amount, types: Sequence[str], missing: int | None = 0) -> int | None:
    """Return the sum of an amount over the pool's types, None if that of any type is None."""
    return total(as_table(amount, types or ("",), missing))


def quota_sums(state: State) -> dict[str, int | None]:
    """Return each project's quota over all types."""
    return {name: sum_of(project.quota, state.types.train) for name, project in state.present_projects().items()}


def standing_of(standing: Standing, gpu_type: str, present: Sequence[str]) -> Standing:
    """Return the standing for one type; ``present`` are the types of the present nodes."""
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
    types, train, projects = state.types.train, nodes.train(), state.present_projects()
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
    projects, train, build = state.present_projects(), nodes.possible(), nodes.build()
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


def pool(
    state: State,
    nodes: ObservedNodes,
    standing: Mapping[str, Standing],
    views: Sequence[wire.NodeView],
    version: int,
    *,
    takes_sessions: bool,
) -> wire.PoolView:
    """Return every GPU of the pool with its holder, and every project.

    ``views`` are those of all nodes, ``version`` numbers the view of the pool; ``takes_sessions``: programs can be
    run inside jobs.
    """
    train, build, types = nodes.train(), nodes.build(), state.types.train
    held = {
        view.name: sum(cell.holder is not None and cell.holder.kind == "job" for cell in view.gpus)
        for view in views
        if view.environment == Environment.TRAIN
    }
    return wire.PoolView(
        seq=version,
        nodes=list(views),
        projects=project_views(state, nodes, standing),
        train_gpus=quotas.total_gpus(train),
        train_held=sum(held.values()),
        build_gpus=quotas.total_gpus(build),
        build_held=sum(len(record.gpus) for record in state.workspaces.values()),
        simulated=is_simulated(nodes.all),
        quota_sum=sums(state, nodes, {}).quota_sum,
        train_free=_free(views, Environment.TRAIN),
        build_free=_free(views, Environment.BUILD),
        gpu_types=[each for each in types if each],
        by_type=train_use(state, nodes, held),
        build_by_type=build_use(state, nodes),
        launch_stops=launch_stops(state),
        sessions=takes_sessions,
        unmatched=unmatched(state, nodes),
    )


def launch_stops(state: State) -> list[wire.LaunchStopView]:
    """Return because of what launching has stopped, and how many jobs that concerns."""
    return [
        wire.LaunchStopView(
            scope=block.scope.value,
            name="" if block.scope is BlockScope.POOL else block.name,
            kept=len(kept),
            withheld=len(withheld),
            jobs=len({*kept, *withheld}),
            detail=words_of([state.jobs[job_id] for job_id in kept if job_id in state.jobs]),
        )
        for block in sorted(state.blocks.stopped())
        for kept, withheld in ((state.blocks.kept(block), state.blocks.withheld(block)),)
    ]


def _free(views: Sequence[wire.NodeView], environment: Environment) -> dict[str, int]:
    """Return how many GPUs of an environment nothing holds, by what they are."""
    of = [view.free for view in views if view.environment == environment]
    sums = {what: sum(free.get(what, 0) for free in of) for what in wire.FREE}
    return {what: number for what, number in sums.items() if number}


def is_simulated(nodes: Sequence[Node]) -> bool:
    """Return whether any GPU of these nodes is simulated."""
    return any(gpu.simulated for node in nodes for gpu in node.devices)


def project_views(
    state: State,
    nodes: ObservedNodes,
    standing: Mapping[str, Standing],
    members: Mapping[str, Sequence[str]] | None = None,
) -> list[wire.ProjectView]:
    """Return the view of every project, oldest first; ``members`` are the members by project."""
    present = {node.gpu_type for node in nodes.train()}
    projects, running = state.present_projects(), {name: len(live) for name, live in state.live_by_project.items()}
    return [
        project_view(
            record,
            projects[record.name],
            standing.get(record.name, NO_STANDING),
            running=running.get(record.name, 0),
            waiting=len(state.waiting_by_project.get(record.name, ())),
            members=sorted((members or {}).get(record.name, ())),
            types=state.types,
            present=sorted(present),
            freeze=_freeze_view(state, record.name),
            endings=_endings(state, record.name),
            budget=_spent_budget(state, record.name),
        )
        for record in sorted(state.projects.values(), key=lambda record: record.project.age)
    ]


def project_view(
    record: ProjectRecord,
    project: Project,
    standing: Standing,
    *,
    running: int,
    waiting: int,
    members: list[str],
    types: KnownTypes,
    present: Sequence[str],
    freeze: wire.FreezeView | None = None,
    endings: Mapping[str, wire.EndingView] = NO_ENDINGS,
    budget: wire.SpentBudget | None = None,
) -> wire.ProjectView:
    """Return the view of a project with its numbers of running and waiting jobs.

    ``project`` has the quota of now; ``types`` are those that the pool knows, ``present`` those of the train nodes
    that there are now.
    """
    by_type = project_numbers(project, standing, types.train, present)
    return wire.ProjectView(
        name=project.name,
        parent=project.parent,
        quota=sum_of(project.quota, types.train),
        set_quota=sum_of(record.project.quota, types.train),
        limit=sum_of(project.limit, types.train, None),
        weight=project.weight,
        priority=project.priority,
        build_quota=sum_of(project.build_quota, types.build) or 0,
        fair_share=standing.fair_share,
        held=standing.held,
        borrowed=sum(each.borrowed for each in by_type.values()) if by_type else standing.borrowed,
        waiting=standing.waiting,
        running_jobs=running,
        waiting_jobs=waiting,
        colour=record.colour,
        members=members,
        version=record.version,
        ranges=ranges.shown(record.ranges),
        by_type=by_type,
        set_by_type={each: quota_of(record.project, each, types.train) for each in by_type},
        build_by_type=build_quotas(project, types.build),
        freeze=freeze,
        endings=dict(endings),
        spent_budget=budget,
    )


def _spent_budget(state: State, project: str) -> wire.SpentBudget | None:
    """Return what the spent budget of a project does; None if it has none, or has not spent it."""
    record = state.budgets.get(project)
    if record is None or not record.is_over:
        return None
    text = sentences.budget_spent(messages.budget_words(record, state.currency))
    return wire.SpentBudget(beyond=record.beyond.value, text=text)


def _freeze_view(state: State, project: str) -> wire.FreezeView | None:
    """Return the freeze of a project, or of the nearest one above it; None if none is frozen."""
    above = lineage(project, {name: record.project.parent for name, record in state.projects.items()})
    frozen = next((state.freezes[name] for name in above if name in state.freezes), None)
    return None if frozen is None else wire.FreezeView(**asdict(frozen))


def _endings(state: State, project: str) -> dict[str, wire.EndingView]:
    """Return the fields of a project that have another value for a time."""
    found = (state.endings.get((kind, project)) for kind in project_admin.FIELD_KINDS.values())
    return {each.kind.value: ending_view(each) for each in found if each is not None}


def ending_view(ending: Ending) -> wire.EndingView:
    """Return the view of the end of a change."""
    return wire.EndingView(until=ending.until, by=ending.by, before=ending.before, refused=ending.refused)


def people(state: State, members: Mapping[str, Sequence[str]]) -> list[wire.PersonView]:
    """Return everyone who is in a project or has a personal build quota, by name."""
    projects = state.policy_projects()
    of = quotas.projects_by_person({name: names for name, names in members.items() if name in projects})
    return [person(state, name, of.get(name, [])) for name in sorted({*of, *state.people})]


def person(state: State, name: str, of: list[str]) -> wire.PersonView:
    """Return a person's build quota and its use; ``of`` are her projects."""
    record, types = state.people.get(name), state.types.build or ("",)
    own = None if record is None else record.build_quota
    projects = state.policy_projects()
    ending = state.endings.get((EndingKind.PERSON, name))
    return wire.PersonView(
        name=name,
        build_quota=sum(quotas.build_quota(of, own, projects, each, types) for each in types),
        own_build_quota=None if own is None else sum_of(own, types),
        build_held=gpus_held_by(name, state.workspaces),
        projects=of,
        by_type=person_numbers(state, name, of),
        ending=None if ending is None else ending_view(ending),
    )


def admin(
    state: State, nodes: ObservedNodes, standing: Mapping[str, Standing], members: Mapping[str, Sequence[str]]
) -> wire.Admin:
    """Return all that the admin page shows."""
    inside = people(state, members)
    unfinished = {name for name, number in state.unfinished_by_user.items() if number}
    return wire.Admin(
        projects=project_views(state, nodes, standing, members),
        people=inside,
        sums=sums(state, nodes, members),
        outside=sorted(unfinished - {person.name for person in inside}),
        on_hold=[
            wire.JobOnHold(
                id=job.id,
                name=job.spec.name,
                user=job.spec.user,
                project=job.spec.project,
                state=job.state.value,
                hold=wire.Hold(**hold._asdict()),
            )
            for job in state.jobs.values()
            if (hold := job.standing.hold) is not None and not hold.project and job.rules.announced
        ],
        budgets=budget_views(state),
        currency=state.currency,
        has_prices=any(state.prices.values()),
    )


def budget_views(state: State) -> list[wire.BudgetView]:
    """Return the budgets of projects, by name of the project."""
    return [
        wire.BudgetView(
            project=each.project,
            amount=each.amount,
            unit=each.unit.value,
            beyond=each.beyond.value,
            by=each.by,
            since=each.since,
            month=each.month,
            spent=each.spent,
            over=each.is_over,
            currency=state.currency,
            text=sentences.text(messages.budget(each, state.currency)),
        )
        for _, each in sorted(state.budgets.items())
    ]


def choices(
    state: State,
    nodes: ObservedNodes,
    standing: Mapping[str, Standing],
    names: Sequence[str],
    settings: EngineSettings,
) -> list[wire.ProjectChoice]:
    """Return what a person may ask for in each of the projects ``names``, oldest project first."""
    train = nodes.train(state.drained)
    projects = state.present_projects()
    rooms = [_Room(each, state, train, nodes.possible()) for each in state.types.train or ("",)]
    found = []
    for record in sorted(state.projects.values(), key=lambda record: record.project.age):
        if record.name not in names:
            continue
        within = ranges.merged(ranges.lineage(record.name, state.projects), settings.images)
        per_job = [] if within.max_gpus is None else [within.max_gpus]
        above = with_ancestors(record.name, projects)
        offered = [room.offered(above, per_job, standing) for room in rooms]
        found.append(
            wire.ProjectChoice(
                name=record.name,
                quota=sum_of(projects[record.name].quota, state.types.train),
                limit=sum_of(record.project.limit, state.types.train, None),
                max_gpus=max(largest for largest, _, _ in offered),
                max_total=max(total for _, total, _ in offered),
                free_now=max(free for _, _, free in offered),
                colour=record.colour,
                ranges=ranges.shown(within),
            )
        )
    return found


class _Room:
    """The train GPUs of one type, on which a job can be; ``possible`` are the nodes that are there or may come."""

    def __init__(self, gpu_type: str, state: State, train: Sequence[Node], possible: Sequence[Node]) -> None:
        self._type = gpu_type
        self._types = state.types.train
        nodes = [node for node in train if node.gpu_type == gpu_type] if self._types else train
        of_type = [node for node in possible if node.gpu_type == gpu_type] if self._types else possible
        self._total = quotas.total_gpus(of_type)
        self._largest = max((node.gpus for node in of_type), default=0)
        self._free = _count_free(state, nodes)
        self._present = sorted({node.gpu_type for node in train}) if self._types else [""]

    def offered(
        self, lineage: Sequence[Project], per_job: Sequence[int], standing: Mapping[str, Standing]
    ) -> tuple[int, int, int]:
        """Return the most GPUs of a worker, of a job, and those free now; ``per_job`` are bounds of a job."""
        limited = [(project.name, limit_of(project, self._type, self._types)) for project in lineage]
        limits = [limit for _, limit in limited if limit is not None]
        left = [
            limit - standing_of(standing.get(name, NO_STANDING), self._type, self._present).held
            for name, limit in limited
            if limit is not None
        ]
        return (
            min([self._largest, *limits, *per_job]),
            min([self._total, *limits, *per_job]),
            max(0, min([self._free, *left])),
        )


def _count_free(state: State, train: Sequence[Node]) -> int:
    """Return the number of GPUs of these nodes, as far as they are available, that nothing occupies."""
    held = {
        (worker.node, index)
        for job in state.live_jobs()
        for worker in job.attempts[-1].placement
        for index in worker.gpus
    }
    return sum(
        1
        for node in train
        if node.available
        for index in range(node.gpus)
        if index not in node.taken and (node.name, index) not in held
    )

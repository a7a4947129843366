"""Validation of submissions, which are untrusted input: values, sizes, and whether the pool can ever run them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter
from typing import Any

from msgspec.structs import replace

from springtide.scheduler import wire, wording
from springtide.scheduler.engine.environments import environment_of
from springtide.scheduler.engine.requests import ranges
from springtide.scheduler.engine.requests.acceptance import (
    check_program,
    check_without_gpus,
    checked_requirements,
    declared_contents,
    default_name,
    no_test_run,
    nodes_with_enough,
)
from springtide.scheduler.engine.requests.datasets import checked_datasets
from springtide.scheduler.engine.settings import EngineSettings
from springtide.scheduler.engine.state.known_types import KnownTypes
from springtide.scheduler.engine.tags import checked_tags
from springtide.scheduler.gpu_types import NodesByType, limit_of, quota_of
from springtide.scheduler.model import PREEMPTIBLE_BELOW, PRIORITIES, WITHIN_NODES, Node, Project
from springtide.scheduler.refusal import Refusal, invalid_field
from springtide.scheduler.store.records import JobSpec, ProjectRecord


@dataclass(frozen=True, slots=True)
class ValidationContext:
    """What submissions are validated against: train nodes, records of projects, settings, and GPU types."""

    nodes: Sequence[Node]
    records: Mapping[str, ProjectRecord]
    settings: EngineSettings
    types: KnownTypes = KnownTypes()  # noqa: RUF009 - frozen
    by_type: NodesByType | None = None

    @property
    def projects(self) -> dict[str, Project]:
        """The projects as the planner sees them, by name."""
        return {name: record.project for name, record in self.records.items()}


def validate_submission(
    submission: wire.Submission, user: str, project: str, context: ValidationContext, *, job_id: str, now: float
) -> JobSpec:
    """Return the spec of a submission, without ``seq`` and ``bundle``.

    Raises `Refusal` with the field, what was expected and the way out.
    """
    spec = validate_resources(submission, user, project, context, job_id=job_id, now=now)
    check_program(submission, context.settings)
    image = ranges.choose_image(
        submission.image, ranges.lineage(project, context.records), context.settings.images
    )
    return replace(
        spec,
        name=spec.name or default_name(submission),
        kind=submission.kind,
        argv=tuple(submission.argv),
        env=dict(submission.env),
        cwd=submission.cwd,
        image=image,
        source=submission.source,
        key=submission.key,
        retries=_option("retries", submission.retries),
        tags=checked_tags(submission.tags),
        test_run=_test_run(submission),
        environment=environment_of(submission, image, declared_contents(image, context.settings.image_contents)),
    )


def validate_resources(
    wish: wire.Wish, user: str, project: str, context: ValidationContext, *, job_id: str, now: float
) -> JobSpec:
    """Return the spec of a job by what it asks for, without a command, and without an image where it names none.

    Raises `Refusal` with the field, what was expected and the way out.
    """
    _check_project(project, context)
    lineage = ranges.lineage(project, context.records)
    workers, gpus, min_workers = _sizes(wish)
    priority = _priority(wish.priority)
    _check_names(wish)
    spec = JobSpec(
        id=job_id,
        seq=0,
        user=user,
        project=project,
        submitted=now,
        name=wish.name.strip(),
        kind="command",
        argv=(),
        workers=workers,
        gpus=gpus,
        min_workers=min_workers,
        cpus=_option("cpus", wish.cpus) or 0.0,
        memory=_option("memory", wish.memory) or 0,
        priority=priority,
        preemptible=priority < PREEMPTIBLE_BELOW if wish.preemptible is None else wish.preemptible,
        gpu_types=tuple(dict.fromkeys(context.types.declared.of(each) for each in wish.gpu_types)),
        require=wish.require,
        prefer=wish.prefer,
        rdma=wish.rdma,
        rotate=wish.rotate,
        time_limit=_option("time_limit", wish.time_limit),
        grace=_grace(wish, context.settings),
        requirements=checked_requirements(wish.requirements, images=context.settings.images is not None),
        datasets=checked_datasets(wish.datasets, [name for name, _ in lineage], context.settings.datasets),
        image=wish.image and ranges.choose_image(wish.image, lineage, context.settings.images),
    )
    spec = ranges.within(spec, lineage)
    if spec.gpus:
        check_fit(spec, context)
    else:
        check_without_gpus(spec, context.records, context.settings.jobs_without_gpus)
    return spec


def _check_project(project: str, context: ValidationContext) -> None:
    if project not in context.records:
        known = ", ".join(sorted(context.records)) or "none yet"
        raise Refusal(
            422,
            "unknown_project",
            f"There is no project {wording.given(project)}.",
            field="project",
            hint=f"Projects: {known}.",
        )


def _option(name: str, value: object) -> Any:
    """Return the value of an option as the table of options takes it. Raise `Refusal` for any other."""
    try:
        return wire.OPTIONS[name].check(value)
    except wire.BadOption as error:
        raise invalid_field(name, error.message, error.hint) from None


def _sizes(wish: wire.Wish) -> tuple[int, int, int]:
    workers: int = _option("workers", wish.workers)
    gpus: int = _option("gpus", wish.gpus)
    least = workers if wish.min_workers is None else _option("min_workers", wish.min_workers)
    if least > workers:
        raise invalid_field(
            "min_workers",
            f"min_workers is {least}, but the job has {wording.count(workers, 'worker')}.",
            "Ask for more workers, or for fewer of them at least.",
        )
    return workers, gpus, least


def _priority(value: object) -> int:
    names = ", ".join(PRIORITIES)
    if isinstance(value, str):
        if value in PRIORITIES:
            return PRIORITIES[value]
        if not (value.isascii() and value.isdigit()):
            raise invalid_field(
                "priority", f"There is no priority {wording.given(value)}.", f"Use {names}, or a number."
            )
        value = int(value[:10])
    number: int = _option("priority", value)
    return number


def _check_names(wish: wire.Wish) -> None:
    if not wording.is_printable(wish.name) or len(wish.name) > wire.MAX_NAME:
        raise invalid_field(
            "name",
            f"The name is longer than {wire.MAX_NAME} or has control characters.",
            "Use letters, digits, spaces and signs.",
        )
    for field, words in (
        ("gpu_types", wish.gpu_types),
        ("require", [wish.require or "-"]),
        ("prefer", [wish.prefer or "-"]),
    ):
        if any(not word or not wording.is_printable(word) or len(word) > wire.MAX_NAME for word in words):
            raise invalid_field(field, f"{field} has a name that is empty, too long, or has control characters.")


def _grace(wish: wire.Wish, settings: EngineSettings) -> float | None:
    grace: float | None = _option("grace", wish.grace)
    if grace is not None and grace > settings.max_grace:
        most = f"{settings.max_grace:g} s"
        raise invalid_field("grace", f"The grace period is {grace:g} s; this pool allows at most {most}.")
    return grace


def _test_run(submission: wire.Submission) -> bool:
    if submission.test_run and submission.trials is not None:
        raise invalid_field(
            "test_run", "A sweep has no test run.", "Its first trials show whether the code runs: use at_most=1."
        )
    if submission.test_run and not submission.gpus:
        raise no_test_run()
    return submission.test_run


# ---------- fit


def check_fit(spec: JobSpec, context: ValidationContext) -> None:
    """Raise `Refusal` for a job that this pool can never start.

    The job has to fit on GPUs of one of the types that it accepts; the refusal is that of the type with most GPUs.
    """
    by_type = (context.by_type or NodesByType()).of(context.nodes, context.types.train)
    types = tuple(by_type)
    accepted = [each for each in types if not spec.gpu_types or each in spec.gpu_types]
    if types and not accepted:
        known = ", ".join(filter(None, types)) or "not told apart"
        raise invalid_field(
            "gpu_types", f"No train node has GPUs of type {', '.join(spec.gpu_types)}.", f"Types here: {known}."
        )
    if not accepted:
        raise Refusal(
            422, "no_gpus", "The pool has no train GPUs.", field="gpus", hint="An admin of this hub can tell why."
        )
    refusals: list[tuple[int, Refusal]] = []
    for gpu_type in accepted:
        try:
            _check_fit_on(spec, context, by_type[gpu_type], gpu_type, shown=gpu_type if len(types) > 1 else "")
        except Refusal as refusal:
            refusals.append((sum(node.gpus for node in by_type[gpu_type]), refusal))
        else:
            return
    raise max(refusals, key=itemgetter(0))[1]


def _check_fit_on(
    spec: JobSpec, context: ValidationContext, nodes: Sequence[Node], gpu_type: str, *, shown: str
) -> None:
    """Raise `Refusal` for a job that GPUs of this type can never hold; ``shown`` is empty for the only type."""
    of_type, with_rdma = f" {shown} GPUs" if shown else "", " with RDMA" if spec.rdma else ""
    nodes = nodes_with_enough(spec, nodes, of_type)
    if not _have_room(spec, nodes):
        raise _no_room(spec, nodes, of_type, with_rdma)
    _check_domain(spec, nodes)
    _check_limits(spec, context, gpu_type, shown)


def _have_room(spec: JobSpec, nodes: Iterable[Node]) -> bool:
    """Return whether the smallest number of workers fits; looks at no more nodes than these workers need."""
    slots = accumulate(node.gpus // spec.gpus for node in nodes)
    return any(so_far >= spec.min_workers for so_far in slots)


def _no_room(spec: JobSpec, nodes: Sequence[Node], of_type: str, with_rdma: str) -> Refusal:
    largest = max(node.gpus for node in nodes)
    if spec.gpus > largest:
        return invalid_field(
            "gpus",
            f"{spec.gpus} GPUs per worker were asked for; the largest train node{with_rdma} has "
            f"{largest}{of_type}.",
            f"Ask for at most {largest} per worker, and for more workers.",
        )
    worker_slots = sum(node.gpus // spec.gpus for node in nodes)
    return invalid_field(
        "workers" if spec.min_workers == spec.workers else "min_workers",
        f"{wording.workers(spec.min_workers, spec.gpus)} have to run together; the pool has room for "
        f"{worker_slots}{f' on{of_type}' if of_type else ''}{with_rdma}.",
        "Ask for fewer workers or fewer GPUs.",
    )


def _check_domain(spec: JobSpec, nodes: Sequence[Node]) -> None:
    if spec.require is None:
        return
    room: dict[tuple[str, str], int] = {}
    for node in nodes:
        for domain, gpus in _domains(node, spec.require):
            room[domain] = room.get(domain, 0) + gpus // spec.gpus
    levels = f"Levels here: {', '.join(_levels(nodes))}."
    if not room:
        raise invalid_field("require", f"No train node belongs to a {wording.given(spec.require)}.", levels)
    if max(room.values()) < spec.min_workers:
        raise invalid_field(
            "require",
            f"No single {spec.require} has room for {wording.workers(spec.min_workers, spec.gpus)}.",
            f"Use prefer instead of require, or ask for fewer workers. {levels}",
        )


def _levels(nodes: Sequence[Node]) -> list[str]:
    within = {level for level in WITHIN_NODES if any(node.groups(level) for node in nodes)}
    return sorted({"node", *within, *(level for node in nodes for level in node.labels)})


def _domains(node: Node, level: str) -> list[tuple[tuple[str, str], int]]:
    if level == "node":
        return [((node.name, ""), node.gpus)]
    if level in WITHIN_NODES:
        groups = node.groups(level) or (range(node.gpus),)
        return [((node.name, str(number)), len(group)) for number, group in enumerate(groups)]
    label = node.labels.get(level)
    return [] if label is None else [((level, label), node.gpus)]


def _check_limits(spec: JobSpec, context: ValidationContext, gpu_type: str, shown: str) -> None:
    least = spec.min_workers * spec.gpus
    of_type = f" {shown} GPUs" if shown else ""
    for project in with_ancestors(spec.project, context.projects):
        limit = limit_of(project, gpu_type, context.types.train)
        quota = quota_of(project, gpu_type, context.types.train)
        if limit is not None and least > limit:
            raise invalid_field(
                "gpus",
                f"The job needs {wording.gpus(least)}; the project {wording.given(project.name)} may never hold "
                f"more than {limit}{of_type}.",
                "Ask for fewer GPUs, or ask an admin of this hub for a higher limit.",
            )
        if not spec.preemptible and quota is not None and least > quota:
            raise invalid_field(
                "preemptible" if spec.priority < PREEMPTIBLE_BELOW else "priority",
                f"A job that cannot be paused has to fit in the quota: it needs {wording.gpus(least)}, and "
                f"the quota of {wording.given(project.name)} is {quota}{of_type}.",
                "Let it be paused (a priority below 100), or ask for fewer GPUs.",
            )


def with_ancestors(name: str, projects: Mapping[str, Project]) -> list[Project]:
    """Return the project and its ancestors, nearest first; nothing for an unknown project."""
    found: list[Project] = []
    current = projects.get(name)
    while current is not None and current not in found:
        found.append(current)
        current = projects.get(current.parent) if current.parent is not None else None
    return found

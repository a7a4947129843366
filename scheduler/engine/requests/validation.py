"""Validation of submissions, which are untrusted input: values, sizes, and whether the pool can ever run them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter

from msgspec.structs import replace

from springtide.scheduler import wire, wording
from springtide.scheduler.arguments import arguments_of
from springtide.scheduler.engine.environments import environment_of
from springtide.scheduler.engine.requests import ranges
from springtide.scheduler.engine.requests.acceptance import (
    check_program,
    check_without_gpus,
    checked_outputs,
    checked_requirements,
    declared_contents,
    default_name,
    no_test_run,
    nodes_with_enough,
)
from springtide.scheduler.engine.requests.grants import checked_names
from springtide.scheduler.engine.requests.trees import checked_tree
from springtide.scheduler.engine.settings import EngineSettings
from springtide.scheduler.engine.state.known_types import KnownTypes
from springtide.scheduler.engine.tags import checked_tags
from springtide.scheduler.gpu_types import NodesByType, limit_of, quota_of
from springtide.scheduler.model import PREEMPTIBLE_BELOW, WITHIN_NODES, Node, Project
from springtide.scheduler.refusal import Refusal, invalid_field, unknown_project
from springtide.scheduler.store.records import JobSpec
from springtide.scheduler.store.tables import ProjectRecord
from springtide.scheduler.wire.submission import checked
from springtide.scheduler.wording import exactly

OF_JOBS_ALONE = ("priority", "time_limit")
"""The options that an accepted job may have outside the ranges of its project, if who sets these has agreed."""


@dataclass(frozen=True, slots=True)
class ValidationContext:
    """The inputs of validation: train nodes, records of projects, settings, and GPU types."""

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

    Raises `Refusal` with the field, the expected value and a hint.
    """
    spec = validate_resources(submission, user, project, context, job_id=job_id, now=now)
    check_program(submission, context.settings)
    _check_test_run(submission)
    image = ranges.choose_image(
        submission.image, ranges.lineage(project, context.records), context.settings.images
    )
    return replace(
        spec.with_options(image=image, tags=checked_tags(submission.tags)),
        name=spec.name.strip() or default_name(submission),
        kind=submission.kind,
        argv=tuple(submission.argv),
        cwd=submission.cwd,
        source=submission.source,
        arguments=arguments_of(submission.kind, submission.argv, submission.arguments),
        key=submission.key,
        tree=checked_tree(submission),
        environment=environment_of(submission, image, declared_contents(image, context.settings.image_contents)),
    )


def validate_resources(
    wish: wire.Wish, user: str, project: str, context: ValidationContext, *, job_id: str, now: float
) -> JobSpec:
    """Return the spec of a job by its options, without a command, and without an image if they name none.

    Raises `Refusal` with the field, the expected value and a hint.
    """
    _check_project(project, context)
    lineage = ranges.lineage(project, context.records)
    settings = context.settings
    given = _checked(wish)
    _check_names(wish.name, given)
    _check_grace(given, settings)
    options = replace(
        given,
        gpu_types=tuple(dict.fromkeys(map(context.types.declared.of, given.gpu_types))),
        requirements=checked_requirements(given.requirements, images=settings.images is not None),
        outputs=checked_outputs(given.outputs),
    )
    spec = JobSpec(
        id=job_id,
        seq=0,
        user=user,
        project=project,
        submitted=now,
        name=wish.name.strip(),
        kind="command",
        argv=(),
        options=_allowed_in_project(options, lineage, settings),
    )
    return _within(spec, lineage, context)


def validate_edit(
    spec: JobSpec,
    project: str,
    changes: Mapping[str, object],
    context: ValidationContext,
    *,
    beyond_ranges: bool = False,
) -> JobSpec:
    """Return the spec of an accepted job with changed options in a project, as if it were submitted there.

    A priority and a time limit that stay may be outside the ranges of the project, ``beyond_ranges`` others too.
    Raises `Refusal` with the field, the expected value and a hint.
    """
    _check_project(project, context)
    lineage = ranges.lineage(project, context.records)
    try:
        options = replace(spec.options, **checked(changes))
    except wire.BadOption as error:
        raise invalid_field(error.name, error.message, error.hint) from None
    _check_workers(options)
    if project != spec.project:
        options = _allowed_in_project(options, lineage, context.settings)
    stays = project == spec.project
    kept = {name for name in OF_JOBS_ALONE if beyond_ranges or (stays and name not in changes)}
    return _within(replace(spec, project=project, options=options), lineage, context, kept)


def _allowed_in_project(
    options: wire.JobOptions, lineage: ranges.Lineage, settings: EngineSettings
) -> wire.JobOptions:
    """Return the options with the datasets, secrets and image that the project may use. Raises `Refusal`."""
    above = [name for name, _ in lineage]
    return replace(
        options,
        datasets=checked_names(options.datasets, above, settings.datasets, "dataset"),
        secrets=checked_names(options.secrets, above, settings.secrets, "secret"),
        image=options.image and ranges.choose_image(options.image, lineage, settings.images),
    )


def _within(
    spec: JobSpec, lineage: ranges.Lineage, context: ValidationContext, kept: Collection[str] = ()
) -> JobSpec:
    """Return the spec within the ranges of its projects, but for the options that are ``kept``.

    Raises `Refusal` for a job that could never start.
    """
    spec = ranges.within(spec, lineage, kept)
    if spec.options.gpus:
        check_fit(spec, context)
    else:
        check_without_gpus(spec, context.records, context.settings.jobs_without_gpus)
    return spec


def _check_project(project: str, context: ValidationContext) -> None:
    if project not in context.records:
        known = ", ".join(sorted(context.records)) or "none yet"
        raise unknown_project(project, "project", status=422, hint=f"Projects: {known}.")


def _checked(wish: wire.Wish) -> wire.JobOptions:
    """Return the options as the table of options takes them. Raises `Refusal` for one that it does not take."""
    try:
        given = {name: getattr(wish, name) for name in wire.JobOptions.__struct_fields__}
        options = wire.JobOptions(**checked(given))
    except wire.BadOption as error:
        raise invalid_field(error.name, error.message, error.hint) from None
    _check_workers(options)
    return options


def _check_workers(options: wire.JobOptions) -> None:
    if options.least_workers > options.workers:
        raise invalid_field(
            "min_workers",
            f"min_workers ({options.least_workers}) is larger than workers ({options.workers}).",
            f"Raise workers, or lower min_workers to {options.workers} or less.",
        )


def _check_names(name: str, options: wire.JobOptions) -> None:
    if len(name) > wire.MAX_NAME:
        most = f"The name has {len(name):,} characters, more than {wire.MAX_NAME}."
        raise invalid_field("name", most, "Use a shorter one.")
    if not wording.is_printable(name):
        message = f"The name {wording.given(name)} has control characters."
        raise invalid_field("name", message, "Use letters, digits, spaces and signs.")
    for field, words in (
        ("gpu_types", options.gpu_types),
        ("require", [options.require or "-"]),
        ("prefer", [options.prefer or "-"]),
    ):
        if any(not word or not wording.is_printable(word) or len(word) > wire.MAX_NAME for word in words):
            raise invalid_field(field, f"{field} has a name that is empty, too long, or has control characters.")


def _check_grace(options: wire.JobOptions, settings: EngineSettings) -> None:
    grace = options.grace
    if grace is not None and grace > settings.max_grace:
        most = exactly(settings.max_grace)
        raise invalid_field("grace", f"The grace period is {exactly(grace)}; this pool allows at most {most}.")


def _check_test_run(submission: wire.Submission) -> None:
    if submission.test_run and submission.trials is not None:
        raise invalid_field(
            "test_run", "A sweep has no test run.", "Its first trials show whether the code runs: use at_most=1."
        )
    if submission.test_run and not submission.gpus:
        raise no_test_run()


# ---------- fit


def check_fit(spec: JobSpec, context: ValidationContext) -> None:
    """Raise `Refusal` for a job that this pool can never start.

    The job has to fit on GPUs of one of the types that it accepts; the refusal is that of the type with most GPUs.
    """
    options = spec.options
    by_type = (context.by_type or NodesByType()).of(context.nodes, context.types.train)
    types = tuple(by_type)
    accepted = [each for each in types if not options.gpu_types or each in options.gpu_types]
    if types and not accepted:
        known = ", ".join(filter(None, types)) or "unnamed"
        raise invalid_field(
            "gpu_types",
            f"No train node has GPUs of type {', '.join(options.gpu_types)}.",
            f"Types here: {known}.",
        )
    if not accepted:
        raise Refusal(
            422,
            "no_gpus",
            "The pool has no train GPUs.",
            field="gpus",
            hint="Ask an admin of this hub for the reason.",
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
    of_type, with_rdma = f" {shown} GPUs" if shown else "", " with RDMA" if spec.options.rdma else ""
    nodes = nodes_with_enough(spec, nodes, of_type)
    if not _have_room(spec, nodes):
        raise _no_room(spec, nodes, of_type, with_rdma)
    _check_domain(spec, nodes)
    _check_limits(spec, context, gpu_type, shown)


def _have_room(spec: JobSpec, nodes: Iterable[Node]) -> bool:
    """Return whether the smallest number of workers fits; looks at no more nodes than these workers need."""
    slots = accumulate(node.gpus // spec.options.gpus for node in nodes)
    return any(so_far >= spec.options.least_workers for so_far in slots)


def _no_room(spec: JobSpec, nodes: Sequence[Node], of_type: str, with_rdma: str) -> Refusal:
    options = spec.options
    largest = max(node.gpus for node in nodes)
    if options.gpus > largest:
        together = sum(node.gpus for node in nodes)
        more = options.gpus * options.least_workers <= together
        return invalid_field(
            "gpus",
            f"You asked for {wording.gpus(options.gpus)} per worker, but the largest train node{with_rdma} has "
            f"{largest}{of_type}.",
            f"Ask for at most {largest} per worker, and for more workers."
            if more
            else f"Ask for at most {largest} per worker, and {together} in all.",
        )
    worker_slots = sum(node.gpus // options.gpus for node in nodes)
    return invalid_field(
        "workers" if options.least_workers == options.workers else "min_workers",
        f"{wording.workers(options.least_workers, options.gpus)} have to run together; the pool has room for "
        f"{worker_slots}{f' on{of_type}' if of_type else ''}{with_rdma}.",
        "Ask for fewer workers or fewer GPUs.",
    )


def _check_domain(spec: JobSpec, nodes: Sequence[Node]) -> None:
    options = spec.options
    if options.require is None:
        return
    room: dict[tuple[str, str], int] = {}
    for node in nodes:
        for domain, gpus in _domains(node, options.require):
            room[domain] = room.get(domain, 0) + gpus // options.gpus
    levels = f"Levels here: {', '.join(_levels(nodes))}."
    if not room:
        raise invalid_field("require", f"No train node belongs to a {wording.given(options.require)}.", levels)
    if max(room.values()) < options.least_workers:
        raise invalid_field(
            "require",
            f"No single {options.require} has room for {wording.workers(options.least_workers, options.gpus)}.",
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
    options = spec.options
    least = options.least_workers * options.gpus
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
        if not options.is_preemptible and quota is not None and least > quota:
            raise invalid_field(
                "preemptible" if options.priority < PREEMPTIBLE_BELOW else "priority",
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

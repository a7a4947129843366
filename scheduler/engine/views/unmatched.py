"""Views of what runs on GPUs that the pool cannot match, and so keeps these GPUs out of the pool; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from springtide.scheduler import wire
from springtide.scheduler.engine.state.observed import ObservedNodes, Unexpected
from springtide.scheduler.engine.state.places import GpuPlaces, identities, identities_of, is_unmatched
from springtide.scheduler.engine.state.state import State
from springtide.scheduler.executors.base import AttemptKey
from springtide.scheduler.model import Environment
from springtide.scheduler.store.records import JobRecord
from springtide.scheduler.store.tables import WorkspaceRecord
from springtide.scheduler.wording import count, listed, plural, quoted


def unmatched(state: State, nodes: ObservedNodes) -> list[wire.UnmatchedView]:
    """Return what keeps GPUs out of the pool until it ends, oldest first."""
    return sorted(_found(state, nodes), key=lambda each: (each.since, each.holder))


def _found(state: State, nodes: ObservedNodes) -> Iterator[wire.UnmatchedView]:
    for job in state.unmatched.values():
        yield _job(job, nodes.places)
    for workspace in state.workspaces.values():
        if is_unmatched(workspace.node):
            yield _notebook(workspace, nodes.places)
    for key, each in nodes.quarantine.items():
        yield _attempt(key, each, nodes.places)


def attempt_holder(job: str, attempt: int) -> str:
    """Return how an attempt is named as a holder."""
    return f"{job}.{attempt}"


def notebook_holder(user: str, server: str) -> str:
    """Return how a notebook is named as a holder; no job id has a slash."""
    return f"{user}/{server}"


def _job(job: JobRecord, places: GpuPlaces) -> wire.UnmatchedView:
    attempt = job.attempts[-1]
    gpus = identities_of(attempt.placement)
    said = f"The job {quoted(job.spec.name)} of {quoted(job.spec.user)} runs on {listed(gpus)}"
    return wire.UnmatchedView(
        holder=attempt_holder(job.id, attempt.number),
        kind="job",
        gpus=list(gpus),
        missing=_missing(gpus, places),
        since=attempt.created if attempt.started is None else attempt.started,
        why=f"{said}{_mismatch(gpus, places, Environment.TRAIN)}",
        change=(
            "Have it leave them: it saves its work, and resumes as soon as other GPUs are free."
            if attempt.asked is None
            else "It was asked to stop. Its GPUs are free once its processes have ended."
        ),
        job=job.id,
        user=job.spec.user,
        project=job.spec.project,
        name=job.spec.name,
    )


def _notebook(record: WorkspaceRecord, places: GpuPlaces) -> wire.UnmatchedView:
    gpus = identities(record.node, record.gpus, record.uuids)
    server = f" {quoted(record.server)}" if record.server else ""
    said = f"The notebook{server} of {quoted(record.user)} runs on {listed(gpus)}"
    return wire.UnmatchedView(
        holder=notebook_holder(record.user, record.server),
        kind="notebook",
        gpus=list(gpus),
        missing=_missing(gpus, places),
        since=record.since,
        why=f"{said}{_mismatch(gpus, places, Environment.BUILD)}",
        change="Stop it once its owner has saved: it gets other GPUs when it is started again.",
        user=record.user,
        name=record.server,
    )


def _attempt(key: AttemptKey, unexpected: Unexpected, places: GpuPlaces) -> wire.UnmatchedView:
    gpus = identities_of(unexpected.placement)
    on = f"runs on {listed(gpus)}" if gpus else "runs"
    return wire.UnmatchedView(
        holder=attempt_holder(key.job, key.attempt),
        kind="attempt",
        gpus=list(gpus),
        missing=_missing(gpus, places),
        since=unexpected.since,
        why=f"Attempt {key.attempt} of the job {key.job} {on}, but {unexpected.why}.",
        change="End it, unless the pool's newest store is still to be put back: that may know it.",
        job=key.job,
    )


def _missing(gpus: Sequence[str], places: GpuPlaces) -> list[str]:
    return [gpu for gpu in gpus if places.of(gpu) is None]


def _mismatch(gpus: Sequence[str], places: GpuPlaces, wanted: Environment) -> str:
    """Return the end of the sentence that names the mismatch of these GPUs with ``wanted``."""
    missing = _missing(gpus, places)
    if missing:
        return f"{_of_which(missing, gpus)} not among the GPUs of the pool any more."
    present = [(gpu, node) for gpu in gpus if (node := places.node(gpu)) is not None]
    others = [gpu for gpu, node in present if node.environment is not wanted]
    if others:
        other = Environment.TRAIN if wanted is Environment.BUILD else Environment.BUILD
        what = f"a {other} GPU" if len(others) == 1 else f"{other} GPUs"
        return f"{_of_which(others, gpus)} {what} now."
    types = {node.gpu_type for _, node in present}
    if len(types) > 1:
        return f", which are of {count(len(types), 'type')} now."
    return f", which {plural(len(gpus), 'is', 'are')} held by something else as well, or on several nodes now."


def _of_which(some: Sequence[str], gpus: Sequence[str]) -> str:
    verb = plural(len(some), "is", "are")
    return f", which {verb}" if len(some) == len(gpus) else f", of which {listed(some)} {verb}"

"""What a job without GPUs may ask for."""

from __future__ import annotations

from collections.abc import Mapping

from springtide.scheduler import wording
from springtide.scheduler.engine.state.line_without_gpus import most_at_a_time
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.records import JobSpec, ProjectRecord


def check_without_gpus(spec: JobSpec, projects: Mapping[str, ProjectRecord], default: int) -> None:
    """Raise `Refusal` for a job without GPUs that can never start, or that asks for what only GPUs have.

    ``default`` is the pool's number of such jobs of a project at a time.
    """
    if most_at_a_time(spec.project, projects.get, default) == 0:
        raise _refused(
            "gpus",
            f"Jobs of project {wording.given(spec.project)} have at least 1 GPU per worker: none without GPUs may "
            "run.",
            "Ask for a GPU, or ask an administrator of the project to allow jobs without GPUs.",
        )
    if spec.workers > 1:
        raise _refused(
            "workers",
            f"A job without GPUs has one worker; {spec.workers} were asked for.",
            "Send several jobs, or a sweep: they run beside each other.",
        )
    for field, asked in (
        ("gpu_types", ", ".join(spec.gpu_types)),
        ("require", spec.require),
        ("prefer", spec.prefer),
        ("rdma", "yes" if spec.rdma else ""),
    ):
        if asked:
            raise _refused(
                field,
                f"{field} is {wording.given(asked)}, which is about GPUs, and the job asks for none.",
                f"Leave out {field}, or ask for GPUs.",
            )


def no_test_run() -> Refusal:
    """Return the refusal of a test run of a job without GPUs."""
    return _refused(
        "test_run",
        "A job without GPUs has no test run: it waits for no GPU that a mistake could waste.",
        "Leave out test_run; try a part of the data first.",
    )


def _refused(field: str, message: str, hint: str) -> Refusal:
    return Refusal(422, "invalid", message, field=field, hint=hint)

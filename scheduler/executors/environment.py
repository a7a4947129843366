"""The environment of a job's processes; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from springtide.scheduler.datasets.dataset import variable
from springtide.scheduler.executors.base import AttemptSpec, ExecutorError
from springtide.scheduler.executors.files.layout import JobPlaces
from springtide.scheduler.executors.notebooks import VARIABLE
from springtide.scheduler.wording import LONG_GIVEN, given

THREADS: Final = (
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS", "NUMEXPR_NUM_THREADS"),
    *("NUMEXPR_MAX_THREADS", "NUMBA_NUM_THREADS", "RAYON_NUM_THREADS", "POLARS_MAX_THREADS"),
)
"""The variables by which libraries choose their number of threads; without one they take all cores of the node."""


def resolve(text: str, code: Path) -> str:
    """Return ``text`` with ``{code}`` replaced by the directory of the job's files."""
    return text.replace("{code}", str(code))


def command(spec: AttemptSpec, code: Path, program: str = "") -> list[str]:
    """Return the command line of the job. Raises `ExecutorError` if it cannot be run.

    ``program`` is the path of its program; if it is empty, the program is looked up when the job starts.
    """
    if not spec.argv or not spec.argv[0] or any("\0" in part for part in (*spec.argv, program)):
        raise ExecutorError("The job has no command that can be run: it is empty or contains a zero byte.")
    first, *rest = (resolve(part, code) for part in spec.argv)
    return [program or first, *rest]


def working_directory(spec: AttemptSpec, places: JobPlaces) -> str:
    """Return the directory that the job starts in. Raises `ExecutorError` if it is not an absolute path."""
    cwd = resolve(spec.cwd, places.code) if spec.cwd else str(places.work)
    if not cwd.startswith("/") or "\0" in cwd:
        raise ExecutorError(
            f"The working directory {given(cwd, LONG_GIVEN)} is not a path from the root, such as /home/me."
        )
    return cwd


def job_environment(
    spec: AttemptSpec, base: Mapping[str, str], code: Path, contract: Mapping[str, str], cores: float = 0.0
) -> dict[str, str]:
    """Return the variables of all workers: the base, overridden by the job's own, overridden by the contract.

    Libraries start as many threads as a worker has cores for each of its GPUs, since launchers such as torchrun
    start a process on each, unless the job sets a number. The cores are those that the job asks for, else
    ``cores`` (0: unknown). The mark of the submitting notebook is left out: the job is not one of
    its processes.

    Raises `ExecutorError` for a name or value that no environment can contain.
    """
    for key, value in spec.options.env.items():
        if not key or "=" in key or "\0" in key + value:
            raise ExecutorError(
                f"The environment variable {given(key)} cannot be set: no such name or value is possible."
            )
    number = (spec.options.cpus or cores) / max((len(worker.gpus) or 1 for worker in spec.placement), default=1)
    threads = dict.fromkeys(THREADS, str(max(1, int(number)))) if number else {}
    own = {key: resolve(value, code) for key, value in spec.options.env.items() if key != VARIABLE}
    return {**base, **threads, **own, **contract}


def contract(spec: AttemptSpec, places: JobPlaces, directory: Path) -> dict[str, str]:
    """Return the variables that `springtide.training` reads, with paths as seen by the job."""
    return {
        "SPRINGTIDE_JOB_ID": spec.key.job,
        "SPRINGTIDE_JOB_NAME": spec.name.replace("\0", ""),
        "SPRINGTIDE_PROJECT": spec.project.replace("\0", ""),
        "SPRINGTIDE_ATTEMPT": str(spec.key.attempt),
        "SPRINGTIDE_CHECKPOINT_DIR": str(places.checkpoints),
        "SPRINGTIDE_OUTPUT_DIR": str(places.output),
        "SPRINGTIDE_GRACE_SECONDS": f"{spec.grace:g}",
        "SPRINGTIDE_PAUSE_FILE": str(directory / "pause"),
        "SPRINGTIDE_REPORT": str(places.reports),
        **({} if spec.sweep is None else {"SPRINGTIDE_SWEEP": spec.sweep, "SPRINGTIDE_TRIAL": str(spec.trial)}),
        **({"SPRINGTIDE_TEST_RUN": "1"} if spec.test_run else {}),
        **variable(spec.datasets),
    }


def check_datasets(spec: AttemptSpec) -> None:
    """Raise `ExecutorError` if a dataset of the job was withdrawn since it was accepted."""
    gone = next((dataset for dataset in spec.datasets if not dataset.is_there), None)
    if gone is not None:
        raise ExecutorError(
            f"The dataset {given(gone.name)} is no longer there for project {given(spec.project)}. An admin of "
            "the pool declares datasets, and who may use them."
        )


def gpu_environment(uuids: Sequence[str]) -> dict[str, str]:
    """Return the variables that make only these GPUs visible to CUDA in a worker; they are not enforced."""
    shown = ",".join(uuids)
    return {"CUDA_VISIBLE_DEVICES": shown, "NVIDIA_VISIBLE_DEVICES": shown or "void"}

"""The environment of a job's processes; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, Final

from springtide.scheduler.datasets import variable
from springtide.scheduler.executors.base import AttemptSpec, ExecutorError
from springtide.scheduler.executors.files.layout import JobPlaces
from springtide.scheduler.executors.library import with_library
from springtide.scheduler.executors.notebooks import VARIABLE
from springtide.scheduler.executors.supervisor.tree import SEEDS
from springtide.scheduler.population import MemberRef
from springtide.scheduler.project_tree import PLACE, at_submission, outside_place
from springtide.scheduler.resuming import named_paths, takes_any
from springtide.scheduler.wire.trees import ProjectTree
from springtide.scheduler.wording import LONG_GIVEN, given

SEARCH_INTERVAL: Final = 60.0
"""Interval at which a running job's folders are searched for checkpoints, in seconds."""
THREADS: Final = (
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS", "NUMEXPR_NUM_THREADS"),
    *("NUMEXPR_MAX_THREADS", "NUMBA_NUM_THREADS", "RAYON_NUM_THREADS", "POLARS_MAX_THREADS"),
)
"""The variables by which libraries choose their number of threads; without one they take all cores of the node."""


def resolve(text: str, spec: AttemptSpec, places: JobPlaces) -> str:
    """Return ``text`` with ``{code}`` and ``{project_tree}`` replaced by the folders of files and project."""
    text = text.replace("{code}", str(places.code))
    if spec.tree is None:
        return text
    if not spec.copies_tree:
        return at_submission(text, spec.tree.root)
    return text.replace(PLACE, str(places.tree(spec.tree.root)))


def tree_step(spec: AttemptSpec, places: JobPlaces) -> dict[str, Any] | None:
    """Return what the supervisor needs to make the job's copy of its project, None for a job without one."""
    if spec.tree is None or not spec.copies_tree:
        return None
    return {
        "tree": str(places.tree(spec.tree.root)),
        "packed": str(places.packed),
        "root": spec.tree.root,
        "cwd": working_directory(spec, places),
        "linked": spec.tree.linked,
        "outside": outside_folders(spec.tree),
        "repositories": repositories(spec.tree),
        "seeds": str(places.checkpoints / SEEDS),
    }


def outside_folders(tree: ProjectTree) -> dict[str, str]:
    """Return the folders outside of the project that the tree has as well, by their places in it."""
    return {outside_place(folder): folder for folder in tree.outside}


def repositories(tree: ProjectTree) -> list[tuple[str, str, str]]:
    """Return folder in the tree, Git directory and commit of each repository."""
    own = [("", tree.git, tree.commit)] if tree.commit else []
    return [*own, *((each.path, each.git, each.commit) for each in tree.submodules)]


def command(spec: AttemptSpec, places: JobPlaces, program: str = "") -> list[str]:
    """Return the command line of the job. Raises `ExecutorError` if it cannot be run.

    ``program`` is the path of its program; if it is empty, the program is looked up when the job starts.
    """
    if not spec.argv or not spec.argv[0] or any("\0" in part for part in (*spec.argv, program)):
        raise ExecutorError("The job has no command that can be run: it is empty or contains a zero byte.")
    words = (program or spec.argv[0], *spec.argv[1:])
    return [*(resolve(part, spec, places) for part in words), *spec.resume]


def search(spec: AttemptSpec, places: JobPlaces) -> dict[str, Any]:
    """Return in which folders, and how often, the attempt's supervisor searches for checkpoints."""
    return {
        "roots": [working_directory(spec, places), str(places.checkpoints), str(places.output)],
        "named": named_paths(spec.options.resume or ""),
        "any": takes_any(spec.options.resume),
        "since": spec.since,
        "every": SEARCH_INTERVAL,
        "own": str(places.checkpoints),
        "reports": str(places.reports),
    }


def working_directory(spec: AttemptSpec, places: JobPlaces) -> str:
    """Return the directory that the job starts in. Raises `ExecutorError` if it is not an absolute path.

    One in the project of the submission becomes the same place in the job's copy.
    """
    cwd = resolve(spec.cwd, spec, places) if spec.cwd else str(places.work)
    if spec.tree is not None and spec.copies_tree and PurePosixPath(cwd).is_relative_to(spec.tree.root):
        cwd = str(places.tree(spec.tree.root) / PurePosixPath(cwd).relative_to(spec.tree.root))
    if not cwd.startswith("/") or "\0" in cwd:
        raise ExecutorError(
            f"The working directory {given(cwd, LONG_GIVEN)} is not a path from the root, such as /home/me."
        )
    return cwd


def job_environment(
    spec: AttemptSpec,
    base: Mapping[str, str],
    places: JobPlaces,
    contract: Mapping[str, str],
    library: PurePath,
    *,
    cores: float = 0.0,
) -> dict[str, str]:
    """Return the variables of all workers: the base, overridden by the job's own, overridden by the contract.

    ``library`` is the folder with the training library.

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
    own = {key: resolve(value, spec, places) for key, value in spec.options.env.items() if key != VARIABLE}
    return with_library({**base, **threads, **own, **contract}, str(library))


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
        **_generation(spec.member),
        **({"SPRINGTIDE_CONTINUES": "1"} if spec.continues else {}),
        **({"SPRINGTIDE_TEST_RUN": "1"} if spec.test_run else {}),
        **_kept(spec),
        **variable(spec.datasets),
    }


def _generation(member: MemberRef | None) -> dict[str, str]:
    """Return the variables of a trial of a population: its generation, and the step at which that ends."""
    if member is None:
        return {}
    return {
        "SPRINGTIDE_MEMBER": str(member.member),
        "SPRINGTIDE_GENERATION": str(member.generation),
        "SPRINGTIDE_GENERATIONS": str(member.generations),
        "SPRINGTIDE_UNTIL_STEP": str(member.until),
    }


def _kept(spec: AttemptSpec) -> dict[str, str]:
    """Return the variables that say which checkpoints stay."""
    options = spec.options
    given = {"LAST": options.keep_last, "EVERY": options.keep_every, "BEST": options.keep_best}
    return {f"SPRINGTIDE_KEEP_{name}": str(value) for name, value in given.items() if value is not None}


def check_declared(spec: AttemptSpec) -> None:
    """Raise `ExecutorError` if a dataset or secret of the job was withdrawn since it was accepted."""
    named = (("dataset", spec.datasets), ("secret", spec.secrets))
    gone = next(((kind, each.name) for kind, found in named for each in found if not each.is_there), None)
    if gone is not None:
        kind, name = gone
        raise ExecutorError(
            f"The {kind} {given(name)} is no longer there for project {given(spec.project)}. An admin of the pool "
            f"declares {kind}s, and who may use them."
        )


def gpu_environment(uuids: Sequence[str]) -> dict[str, str]:
    """Return the variables that make only these GPUs visible to CUDA in a worker; they are not enforced."""
    shown = ",".join(uuids)
    return {"CUDA_VISIBLE_DEVICES": shown, "NVIDIA_VISIBLE_DEVICES": shown or "void"}

"""What a job finds in its environment; pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from springtide.scheduler.executors.base import AttemptSpec, ExecutorError
from springtide.scheduler.executors.files.layout import JobPlaces

PLACE = "{place}"
"""What stands for a worker's place in its gang, in the values of `gang_template`."""


def resolve(text: str, code: Path) -> str:
    """``text`` with ``{code}`` replaced by the directory of the job's files."""
    return text.replace("{code}", str(code))


def command(spec: AttemptSpec, code: Path) -> list[str]:
    """What to run. Raises `ExecutorError` for what can be no command."""
    if not spec.argv or not spec.argv[0] or any("\0" in part for part in spec.argv):
        raise ExecutorError("The job has no command that could be run: it is empty or contains a zero byte.")
    return [resolve(part, code) for part in spec.argv]


def working_directory(spec: AttemptSpec, places: JobPlaces) -> str:
    """Where to run it. Raises `ExecutorError` for what can be no directory."""
    cwd = resolve(spec.cwd, places.code) if spec.cwd else str(places.work)
    if not cwd.startswith("/") or "\0" in cwd:
        raise ExecutorError(f"The working directory {cwd!r} is not a path from the root, such as /home/me.")
    return cwd


def job_environment(
    spec: AttemptSpec, base: Mapping[str, str], code: Path, contract: Mapping[str, str]
) -> dict[str, str]:
    """What all workers find: the base, over it what the job asked for, over that the contract.

    Raises `ExecutorError` for what cannot be in an environment.
    """
    for key, value in spec.env.items():
        if not key or "=" in key or "\0" in key + value:
            raise ExecutorError(
                f"The environment variable {key!r} cannot be set: no such name or value is possible."
            )
    return {**base, **{key: resolve(value, code) for key, value in spec.env.items()}, **contract}


def contract(spec: AttemptSpec, places: JobPlaces, directory: Path) -> dict[str, str]:
    """What `springtide.training` goes by; ``places`` and the attempt's ``directory`` are as the job sees them."""
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
    }


def gpu_environment(uuids: Sequence[str]) -> dict[str, str]:
    """Shows a worker its GPUs and no other. An advice that CUDA follows, not a wall."""
    shown = ",".join(uuids)
    return {"CUDA_VISIBLE_DEVICES": shown, "NVIDIA_VISIBLE_DEVICES": shown or "void"}


def gang_template(host: str, port: int, workers: Sequence[str]) -> dict[str, str]:
    """How the workers of a gang find each other, for each framework; `PLACE` stands for the worker's own place.

    They meet at ``host`` and ``port``; ``workers`` are their own addresses (``host:port``). Each worker sees only
    its own GPUs and so is a node of its own, on one machine as on a cluster: its local rank is 0.
    """
    world = str(len(workers))
    cluster = json.dumps({"worker": list(workers)})
    return {
        "RANK": PLACE,
        "LOCAL_RANK": "0",
        "WORLD_SIZE": world,
        "LOCAL_WORLD_SIZE": "1",
        "NODE_RANK": PLACE,
        "GROUP_RANK": PLACE,
        "MASTER_ADDR": host,
        "MASTER_PORT": str(port),
        "TF_CONFIG": f'{{"cluster": {cluster}, "task": {{"type": "worker", "index": {PLACE}}}}}',
        "JAX_COORDINATOR_ADDRESS": f"{host}:{port}",
        "JAX_NUM_PROCESSES": world,
        "JAX_PROCESS_COUNT": world,
        "JAX_PROCESS_ID": PLACE,
        "JAX_LOCAL_PROCESS_ID": "0",
        "HOROVOD_RANK": PLACE,
        "HOROVOD_SIZE": world,
        "HOROVOD_LOCAL_RANK": "0",
        "HOROVOD_LOCAL_SIZE": "1",
        "HOROVOD_CROSS_RANK": PLACE,
        "HOROVOD_CROSS_SIZE": world,
        "CROSS_RANK": PLACE,
        "CROSS_SIZE": world,
        "LOCAL_SIZE": "1",
    }


def gang_environment(template: Mapping[str, str], place: int) -> dict[str, str]:
    """What the worker at this place of the gang finds."""
    return {name: value.replace(PLACE, str(place)) for name, value in template.items()}

"""What a job finds in its environment; pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from springtide.scheduler.executors.base import AttemptSpec, ExecutorError

ADDRESS = "127.0.0.1"


def resolve(text: str, code: Path) -> str:
    """``text`` with ``{code}`` replaced by the directory of the job's files."""
    return text.replace("{code}", str(code))


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


def gpu_environment(uuids: Sequence[str]) -> dict[str, str]:
    """Shows a worker its GPUs and no other. An advice that CUDA follows, not a wall."""
    shown = ",".join(uuids)
    return {"CUDA_VISIBLE_DEVICES": shown, "NVIDIA_VISIBLE_DEVICES": shown or "void"}


def gang_environment(place: int, size: int, ports: Sequence[int]) -> dict[str, str]:
    """How worker ``place`` of ``size`` finds the others, for each framework; ``ports`` has ``size`` + 1.

    Each worker sees only its own GPUs and so is a node of its own, as it is on a cluster: its local rank is 0.
    """
    cluster = {"worker": [f"{ADDRESS}:{port}" for port in ports[1:]]}
    world, rank = str(size), str(place)
    return {
        "RANK": rank,
        "LOCAL_RANK": "0",
        "WORLD_SIZE": world,
        "LOCAL_WORLD_SIZE": "1",
        "NODE_RANK": rank,
        "GROUP_RANK": rank,
        "MASTER_ADDR": ADDRESS,
        "MASTER_PORT": str(ports[0]),
        "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": place}}),
        "JAX_COORDINATOR_ADDRESS": f"{ADDRESS}:{ports[0]}",
        "JAX_NUM_PROCESSES": world,
        "JAX_PROCESS_COUNT": world,
        "JAX_PROCESS_ID": rank,
        "JAX_LOCAL_PROCESS_ID": "0",
        "HOROVOD_RANK": rank,
        "HOROVOD_SIZE": world,
        "HOROVOD_LOCAL_RANK": "0",
        "HOROVOD_LOCAL_SIZE": "1",
        "HOROVOD_CROSS_RANK": rank,
        "HOROVOD_CROSS_SIZE": world,
        "CROSS_RANK": rank,
        "CROSS_SIZE": world,
        "LOCAL_SIZE": "1",
    }

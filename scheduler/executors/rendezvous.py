"""The variables by which the workers of a gang find each other, for all frameworks, in one table; pure.

A worker is one process with all its GPUs, as JAX and TensorFlow want it; it sees no others, so it is a node of its
own, on one machine too. Programs that want one process for each GPU are started by torchrun, whose variables say
how many.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

PLACE = "{place}"
"""Placeholder for a worker's index in its gang, in the values of templates."""


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """The meeting point of the workers of an attempt.

    ``host`` and ``port`` are those of the worker with index 0; ``workers`` are the workers' own addresses
    (``host:port``), ``gpus`` the number of GPUs of each.
    """

    host: str
    port: int
    workers: tuple[str, ...]
    gpus: int

    @property
    def size(self) -> str:
        """Number of workers."""
        return str(len(self.workers))

    @property
    def tensorflow(self) -> str:
        """The cluster as TensorFlow reads it."""
        cluster = json.dumps({"worker": list(self.workers)})
        return f'{{"cluster": {cluster}, "task": {{"type": "worker", "index": {PLACE}}}}}'


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of the environment, and who reads it."""

    name: str
    value: Callable[[Rendezvous], str]
    readers: str


def _place(_: Rendezvous) -> str:
    return PLACE


def _size(meeting: Rendezvous) -> str:
    return meeting.size


def _one(_: Rendezvous) -> str:
    return "1"


def _zero(_: Rendezvous) -> str:
    return "0"


def _host(meeting: Rendezvous) -> str:
    return meeting.host


def _port(meeting: Rendezvous) -> str:
    return str(meeting.port)


def _gpus(meeting: Rendezvous) -> str:
    return ",".join(str(index) for index in range(max(1, meeting.gpus)))


def _empty(_: Rendezvous) -> str:
    return ""


_TORCH = "PyTorch, Lightning, Accelerate, DeepSpeed"
_LAUNCHER = "torchrun"
_HOROVOD = "Horovod"
_JAX = "JAX"
_JAX_WITH_LIBRARY = "JAX, with `springtide.training`"

OPEN_MPI: Mapping[str, Callable[[Rendezvous], str]] = {
    "OMPI_MCA_orte_hnp_uri": _empty,
    "OMPI_COMM_WORLD_SIZE": _size,
    "OMPI_COMM_WORLD_RANK": _place,
    "OMPI_COMM_WORLD_LOCAL_RANK": _zero,
}
"""Variables by which JAX, no version of which reads ``JAX_PROCESS_ID``, finds its gang as one of Open MPI.

JAX only checks that the first one is there, because it has the address of the coordinator from a variable of its
own. To Open MPI an empty setting is none, and it reads none of the others: a program of MPI is alone unless
``mpirun`` starts it, which replaces all of them. Without ``JAX_LOCAL_DEVICE_IDS`` JAX would use one GPU for each
process of Open MPI.
"""

LAUNCHER: tuple[Variable, ...] = (
    Variable("PET_NNODES", _size, _LAUNCHER),
    Variable("PET_NODE_RANK", _place, _LAUNCHER),
    Variable("PET_NPROC_PER_NODE", lambda meeting: str(max(1, meeting.gpus)), _LAUNCHER),
    Variable("PET_MASTER_ADDR", _host, _LAUNCHER),
    Variable("PET_MASTER_PORT", _port, _LAUNCHER),
)
"""The variables of every job, also of one worker: with several GPUs torchrun starts several processes."""

GANG: tuple[Variable, ...] = (
    Variable("RANK", _place, _TORCH),
    Variable("WORLD_SIZE", _size, _TORCH),
    Variable("LOCAL_RANK", _zero, _TORCH),
    Variable("LOCAL_WORLD_SIZE", _one, _TORCH),
    Variable("NODE_RANK", _place, "Lightning"),
    Variable("GROUP_RANK", _place, "Lightning"),
    Variable("MASTER_ADDR", _host, _TORCH),
    Variable("MASTER_PORT", _port, _TORCH),
    Variable("PL_TRAINER_NUM_NODES", _size, "Lightning"),
    Variable("TF_CONFIG", lambda meeting: meeting.tensorflow, "TensorFlow, Keras"),
    Variable("JAX_COORDINATOR_ADDRESS", lambda meeting: f"{meeting.host}:{meeting.port}", _JAX),
    Variable("JAX_LOCAL_DEVICE_IDS", _gpus, _JAX),
    *(Variable(name, value, _JAX) for name, value in OPEN_MPI.items()),
    Variable("JAX_NUM_PROCESSES", _size, _JAX_WITH_LIBRARY),
    Variable("JAX_PROCESS_ID", _place, _JAX_WITH_LIBRARY),
    Variable("HOROVOD_RANK", _place, _HOROVOD),
    Variable("HOROVOD_SIZE", _size, _HOROVOD),
    Variable("HOROVOD_LOCAL_RANK", _zero, _HOROVOD),
    Variable("HOROVOD_LOCAL_SIZE", _one, _HOROVOD),
    Variable("HOROVOD_CROSS_RANK", _place, _HOROVOD),
    Variable("HOROVOD_CROSS_SIZE", _size, _HOROVOD),
    Variable("CROSS_RANK", _place, "DeepSpeed"),
    Variable("CROSS_SIZE", _size, "DeepSpeed"),
    Variable("LOCAL_SIZE", _one, "DeepSpeed"),
)
"""The variables of gangs only: a single process must not take itself for one of several."""


def template(meeting: Rendezvous, *, gang: bool) -> dict[str, str]:
    """Return the variables of all workers of an attempt, with `PLACE` in place of a worker's index.

    ``gang``: the job has several workers, however many of them the attempt has.
    """
    return _values(LAUNCHER + GANG if gang else LAUNCHER, meeting)


def worker_environment(variables: Mapping[str, str], place: int) -> dict[str, str]:
    """Return the variables of the worker with this index in the gang."""
    return {name: value.replace(PLACE, str(place)) for name, value in variables.items()}


def _values(variables: Iterable[Variable], meeting: Rendezvous) -> dict[str, str]:
    return {variable.name: variable.value(meeting) for variable in variables}

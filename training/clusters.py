"""The gang in the terms of frameworks that do not read it from the environment."""

from __future__ import annotations

import sys
from typing import Any, Callable, Mapping, Optional

_NAME = "springtide"


def register_with_jax(environment: Mapping[str, str], reached: Callable[[int], bool]) -> None:
    """Make ``jax.distributed.initialize()`` find the gang of this process, if JAX is imported and there is a gang.

    JAX asks its known kinds of clusters one by one; the pool's is asked first, because in pods the one for
    Kubernetes would ask the cluster's API, which jobs may not. ``reached`` gives the answers of
    ``multihost_utils.reached_preemption_sync_point``, JAX's own question whether to pause at a step.
    """
    clusters = sys.modules.get("jax._src.clusters")
    kinds = getattr(getattr(clusters, "ClusterEnv", None), "_cluster_types", None)
    if clusters is None or kinds is None or "JAX_NUM_PROCESSES" not in environment:
        return
    if any(kind.name == _NAME for kind in kinds):
        return
    base: Any = clusters.ClusterEnv

    class Springtide(base):  # type: ignore[misc]
        """One process for each worker, with all its GPUs."""

        name = _NAME

        @classmethod
        def is_env_present(cls) -> bool:
            return "JAX_PROCESS_ID" in environment

        @classmethod
        def get_coordinator_address(cls, **_: Any) -> str:
            return environment["JAX_COORDINATOR_ADDRESS"]

        @classmethod
        def get_process_count(cls) -> int:
            return int(environment["JAX_NUM_PROCESSES"])

        @classmethod
        def get_process_id(cls) -> int:
            return int(environment["JAX_PROCESS_ID"])

        @classmethod
        def get_local_process_id(cls) -> Optional[int]:
            return None

    kinds.remove(Springtide)
    kinds.insert(0, Springtide)
    _answer_for_jax(reached)


class _SyncManager:
    """The agreement of the pool in place of JAX's own on the step of a pause.

    JAX's own takes SIGTERM away from the job. A process that has noticed the signal, which takes up to a second,
    waits up to three minutes for all others to notice it, also where one of these has ended its training
    meanwhile and waits for it in turn: such a gang would be killed at the end of its grace period.
    """

    def __init__(self, reached: Callable[[int], bool]) -> None:
        self.reached_sync_point = reached

    def shutdown(self) -> None:
        """Do nothing: the agreement ends with the process."""


def _answer_for_jax(reached: Callable[[int], bool]) -> None:
    state: Any = getattr(sys.modules.get("jax._src.distributed"), "State", None)
    if hasattr(state, "initialize_preemption_sync_manager"):

        def initialize(self: Any) -> None:
            self.preemption_sync_manager = _SyncManager(reached)

        state.initialize_preemption_sync_manager = initialize

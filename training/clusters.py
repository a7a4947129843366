"""The gang in the terms of frameworks that do not read it from the environment."""

from __future__ import annotations

import sys
from typing import Any, Mapping, Optional

_NAME = "springtide"


def tell_jax(environment: Mapping[str, str]) -> None:
    """Make ``jax.distributed.initialize()`` find the gang of this process, if JAX is imported and there is a gang.

    JAX asks its known kinds of clusters one by one; the pool's is asked first, because in pods the one for
    Kubernetes would ask the cluster's API, which jobs may not.
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

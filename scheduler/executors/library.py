"""The training library on the search path of each job, so that no environment has to have it installed.

``springtide`` is a namespace package: where other parts of it are installed, these stay importable beside it, and
the library is the one that knows this pool.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from springtide.scheduler.wire.environments import SEARCH_PATH

PROGRAMS: Final = "programs"
"""Directory below the state directory with what the pool brings to jobs: a directory for each version."""
LIBRARY: Final = "library"
"""Folder of a version that is on the search path for modules."""


def with_library(environment: Mapping[str, str], library: str) -> dict[str, str]:
    """Return the variables of a job with the library at the end of its search path for modules."""
    own = environment.get(SEARCH_PATH)
    return {**environment, SEARCH_PATH: f"{own}:{library}" if own else library}

"""What a job runs with, as part of the job's record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentRecord:
    """The Python where a job was submitted, the packages of what its code imports, and its first files.

    ``packages`` are versions by name, ``imports`` the modules that the code cannot do without, ``missing`` those
    of them that are not there where the job runs.
    """

    python: str = ""
    path: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    file_count: int = 0
    file_bytes: int = 0

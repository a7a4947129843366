"""What the API tells of the environment of a job."""

from __future__ import annotations

from springtide.scheduler.wire.shapes import Answer


class JobEnvironment(Answer, frozen=True, kw_only=True):
    """What a job runs with, as it was when it was submitted. The container image is that of the job.

    ``python`` is the version, ``path`` that of the interpreter: on one machine the one that runs the job, on a
    cluster the one of the notebook. Both are empty where neither is known. ``packages`` are versions of what
    the code imports, by the name of the distribution; ``missing`` are modules that the code imports and the
    Python that runs the job does not have. ``files`` are the paths of the first files that were sent,
    ``file_count`` the number and ``file_bytes`` the size of all. ``variables`` are names alone: values may be
    secrets.
    """

    python: str = ""
    path: str = ""
    packages: dict[str, str] = {}
    missing: list[str] = []
    files: list[str] = []
    file_count: int = 0
    file_bytes: int = 0
    variables: list[str] = []
    requirements: list[str] = []
    """Packages that are installed for the job."""

"""The files of a state directory that belong to a backup."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

DATABASE = "springtide.sqlite"
DUMP = "springtide.pgdump"
HUB_DATABASE = "hub/jupyterhub.sqlite"
DATABASES = (DATABASE, HUB_DATABASE)
"""Copied by SQLite, because they are written to meanwhile."""
ACCOUNTS = "accounts.json"
SECRETS = ("service-token", "cookie-secret", "password", "hub/cookie-secret")
BUNDLES = "bundles"
JOBS = "jobs"

_BUNDLE = re.compile(r"[0-9a-f]{64}")
_JOB = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_TRANSIENT = re.compile(r"(?:attempts|launches)/(?:.*/)?(?:lock(?:\.\d+)?|\d*\.?pause|\d*\.?kill|.*\.new)")
"""Files of a job's directory that matter only while an attempt runs."""


def small_files(state: Path, *, secrets: bool) -> Iterator[str]:
    """Yield the names of the files outside the databases and jobs, as far as they are there."""
    for name in (ACCOUNTS, *(SECRETS if secrets else ())):
        if (state / name).is_file():
            yield name
    if (state / BUNDLES).is_dir():
        yield from sorted(f"{BUNDLES}/{path.name}" for path in (state / BUNDLES).iterdir() if is_bundle(path.name))


def jobs_in(state: Path) -> list[str]:
    """Return the ids of jobs with files."""
    if not (state / JOBS).is_dir():
        return []
    return sorted(path.name for path in (state / JOBS).iterdir() if is_job(path.name))


def is_bundle(name: str) -> bool:
    """Return whether a file has the name of a bundle, its digest."""
    return _BUNDLE.fullmatch(name) is not None


def is_job(name: str) -> bool:
    """Return whether a directory has the name of a job, its id."""
    return _JOB.fullmatch(name) is not None


def is_kept(path: str) -> bool:
    """Return whether a file of a job's directory, by its path in there, belongs to a backup."""
    return _TRANSIENT.fullmatch(path) is None


def belongs(name: str) -> bool:
    """Return whether a backup may hold a file of this name."""
    if name in (*DATABASES, DUMP, ACCOUNTS, *SECRETS):
        return True
    top, _, rest = name.partition("/")
    if top == BUNDLES:
        return is_bundle(rest)
    job, _, path = rest.partition("/")
    return top == JOBS and is_job(job) and not {"", ".", ".."} & set(path.split("/"))

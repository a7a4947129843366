"""The declared datasets of the setting ``datasets``, checked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec

from springtide.scheduler.datasets.dataset import Dataset
from springtide.scheduler.settings import SettingError
from springtide.scheduler.wording import LONG_GIVEN, given

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
_CLAIM: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)


class Declaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The value of a dataset in the setting."""

    path: str = ""
    claim: str = ""
    sub_path: str = ""
    projects: tuple[str, ...] | None = None


def declared_datasets(values: Mapping[str, Mapping[str, Any]], *, cluster: bool) -> Mapping[str, Dataset]:
    """Return the declared datasets by name. Raises `SettingError` for one that cannot be used.

    With ``cluster`` jobs run as pods.
    """
    return {name: _dataset(name, value, cluster=cluster) for name, value in values.items()}


def _dataset(name: str, value: Mapping[str, Any], *, cluster: bool) -> Dataset:
    try:
        declaration = msgspec.convert(value, Declaration)
    except msgspec.ValidationError as error:
        raise _invalid(name, str(error)) from None
    for problem in _problems(name, declaration, cluster=cluster):
        raise _invalid(name, problem)
    return Dataset(name, declaration.path, declaration.claim, declaration.sub_path, declaration.projects)


def _problems(name: str, declaration: Declaration, *, cluster: bool) -> Iterator[str]:
    """Yield the problems of a declaration."""
    if not _NAME.fullmatch(name):
        yield "expected a name of at most 63 letters, digits, dots, dashes and underscores"
    if declaration.projects is not None and not all(declaration.projects):
        yield "projects has an empty name; leave projects out where all may use it"
    if cluster:
        yield from _problems_of_claim(declaration)
    elif declaration.claim or declaration.sub_path:
        yield "claim and sub_path are for jobs on a cluster; on one machine name the directory: path"
    elif not declaration.path.startswith("/") or ".." in PurePosixPath(declaration.path).parts:
        yield f"path is {given(declaration.path, LONG_GIVEN)}; expected a directory of this machine, from /"


def _problems_of_claim(declaration: Declaration) -> Iterator[str]:
    if declaration.path:
        yield "path is for jobs on one machine; on a cluster name the volume claim: claim"
    if not _CLAIM.fullmatch(declaration.claim):
        yield f"claim is {given(declaration.claim)}; expected the name of a volume claim in the namespace of jobs"
    inside = PurePosixPath(declaration.sub_path)
    if inside.is_absolute() or ".." in inside.parts:
        yield f"sub_path is {given(declaration.sub_path, LONG_GIVEN)}; expected a path within the volume"


def _invalid(name: str, problem: str) -> SettingError:
    return SettingError(f"Springtide.datasets: {given(name)}: {problem}.")

"""Settings of the service for datasets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec
from traitlets import Dict, HasTraits, Unicode

from springtide.hub_extension.service.runtime import BAD_INPUT, StartError
from springtide.scheduler.datasets.dataset import Dataset
from springtide.scheduler.wording import LONG_GIVEN, given

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
_CLAIM: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)


class Declaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The value of a dataset in the setting."""

    path: str = ""
    claim: str = ""
    sub_path: str = ""
    projects: tuple[str, ...] | None = None


class DatasetTraits(HasTraits):
    """The settings, as a part of those of the service."""

    datasets = Dict(
        key_trait=Unicode(),
        value_trait=Dict(),
        help="Datasets that jobs may name and workspaces see, by name. On one machine {'imagenet': {'path': "
        "'/srv/imagenet'}} names a directory, on a cluster {'imagenet': {'claim': 'datasets', 'sub_path': "
        "'imagenet'}} a directory of a volume claim. 'projects' are those that may use it, with the projects "
        "inside them; without it all may.",
    ).tag(config=True)

    def declared_datasets(self, *, cluster: bool) -> Mapping[str, Dataset]:
        """Return the declared datasets by name. Raise `StartError` for one that cannot be used.

        ``cluster`` says that jobs run as pods.
        """
        return {name: _dataset(name, value, cluster=cluster) for name, value in self.datasets.items()}


def _dataset(name: str, value: Mapping[str, Any], *, cluster: bool) -> Dataset:
    try:
        found = msgspec.convert(value, Declaration)
    except msgspec.ValidationError as error:
        raise _wrong(name, str(error)) from None
    for problem in _problems(name, found, cluster=cluster):
        raise _wrong(name, problem)
    return Dataset(name, found.path, found.claim, found.sub_path, found.projects)


def _problems(name: str, found: Declaration, *, cluster: bool) -> Iterator[str]:
    """Yield what is wrong with a declaration."""
    if not _NAME.fullmatch(name):
        yield "expected a name of at most 63 letters, digits, dots, dashes and underscores"
    if found.projects is not None and not all(found.projects):
        yield "projects has an empty name; leave projects out where all may use it"
    if cluster:
        yield from _problems_of_claim(found)
    elif found.claim or found.sub_path:
        yield "claim and sub_path are for jobs on a cluster; on one machine name the directory: path"
    elif not found.path.startswith("/") or ".." in PurePosixPath(found.path).parts:
        yield f"path is {given(found.path, LONG_GIVEN)}; expected a directory of this machine, from /"


def _problems_of_claim(found: Declaration) -> Iterator[str]:
    if found.path:
        yield "path is for jobs on one machine; on a cluster name the volume claim: claim"
    if not _CLAIM.fullmatch(found.claim):
        yield f"claim is {given(found.claim)}; expected the name of a volume claim in the namespace of jobs"
    inside = PurePosixPath(found.sub_path)
    if inside.is_absolute() or ".." in inside.parts:
        yield f"sub_path is {given(found.sub_path, LONG_GIVEN)}; expected a path within the volume"


def _wrong(name: str, problem: str) -> StartError:
    return StartError(f"Springtide.datasets: {given(name)}: {problem}.", BAD_INPUT)

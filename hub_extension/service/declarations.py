"""The declared datasets and secrets of the settings ``datasets`` and ``secrets``, checked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final, TypeVar

import msgspec

from springtide.scheduler.datasets import Dataset
from springtide.scheduler.declared import NamedSecret
from springtide.scheduler.settings import SettingError
from springtide.scheduler.wire.wrong_values import wrong
from springtide.scheduler.wording import LONG_GIVEN, given

T = TypeVar("T", bound=msgspec.Struct)

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
_OBJECT: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)


class DatasetDeclaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The value of a dataset in the setting."""

    path: str = ""
    claim: str = ""
    sub_path: str = ""
    projects: tuple[str, ...] | None = None


class SecretDeclaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The value of a secret in the setting."""

    file: str = ""
    secret: str = ""
    projects: tuple[str, ...] | None = None


def declared_datasets(values: Mapping[str, Mapping[str, Any]], *, cluster: bool) -> Mapping[str, Dataset]:
    """Return the declared datasets by name. Raises `SettingError` for one that cannot be used.

    With ``cluster`` jobs run as pods.
    """
    found = {}
    for name, value in values.items():
        given_as = _converted("datasets", name, value, DatasetDeclaration)
        problems = _problems_of_claim(given_as) if cluster else _problems_of_path(given_as)
        _refuse_first("datasets", name, (*_problems(name, given_as.projects), *problems))
        found[name] = Dataset(name, given_as.path, given_as.claim, given_as.sub_path, given_as.projects)
    return found


def declared_secrets(
    values: Mapping[str, Mapping[str, Any]], *, cluster: bool, own_accounts: bool
) -> Mapping[str, NamedSecret]:
    """Return the declared secrets by name. Raises `SettingError` for one that cannot be used.

    With ``cluster`` jobs run as pods. Without ``own_accounts`` all jobs of one machine run as one account, and
    read the environment of each other.
    """
    found = {}
    for name, value in values.items():
        given_as = _converted("secrets", name, value, SecretDeclaration)
        problems = (
            _problems_of_secret(given_as) if cluster else _problems_of_file(given_as, own_accounts=own_accounts)
        )
        _refuse_first("secrets", name, (*_problems(name, given_as.projects), *problems))
        found[name] = NamedSecret(name, given_as.file, given_as.secret, given_as.projects)
    return found


def _converted(setting: str, name: str, value: Mapping[str, Any], kind: type[T]) -> T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        refusal = wrong(str(error), kind, value)
        raise _invalid(setting, name, f"{refusal.message} {refusal.hint}".strip()) from None


def _refuse_first(setting: str, name: str, problems: Sequence[str]) -> None:
    for problem in problems:
        raise _invalid(setting, name, problem)


def _problems(name: str, projects: tuple[str, ...] | None) -> Iterator[str]:
    """Yield the problems of a declaration's name and projects."""
    if not _NAME.fullmatch(name):
        yield "expected a name of at most 63 letters, digits, dots, dashes and underscores"
    if projects is not None and not all(projects):
        yield "projects has an empty name; leave projects out where all may use it"


def _problems_of_path(declaration: DatasetDeclaration) -> Iterator[str]:
    if declaration.claim or declaration.sub_path:
        yield "claim and sub_path are for jobs on a cluster; on one machine name the directory: path"
    elif not declaration.path.startswith("/") or ".." in PurePosixPath(declaration.path).parts:
        yield f"path is {given(declaration.path, LONG_GIVEN)}; expected a directory of this machine, from /"


def _problems_of_claim(declaration: DatasetDeclaration) -> Iterator[str]:
    if declaration.path:
        yield "path is for jobs on one machine; on a cluster name the volume claim: claim"
    if not _OBJECT.fullmatch(declaration.claim):
        yield f"claim is {given(declaration.claim)}; expected the name of a volume claim in the namespace of jobs"
    inside = PurePosixPath(declaration.sub_path)
    if inside.is_absolute() or ".." in inside.parts:
        yield f"sub_path is {given(declaration.sub_path, LONG_GIVEN)}; expected a path within the volume"


def _problems_of_file(declaration: SecretDeclaration, *, own_accounts: bool) -> Iterator[str]:
    if declaration.secret:
        yield "secret is for jobs on a cluster; on one machine name the file with its variables: file"
    elif not declaration.file.startswith("/") or ".." in PurePosixPath(declaration.file).parts:
        yield f"file is {given(declaration.file, LONG_GIVEN)}; expected a file of this machine, from /"
    if declaration.projects is not None and not own_accounts:
        yield (
            "projects keeps it from jobs of others, and here all jobs run as one account, which reads the "
            "variables of each; leave projects out, or set Springtide.accounts = 'own'"
        )


def _problems_of_secret(declaration: SecretDeclaration) -> Iterator[str]:
    if declaration.file:
        yield "file is for jobs on one machine; on a cluster name the Secret: secret"
    if not _OBJECT.fullmatch(declaration.secret):
        yield f"secret is {given(declaration.secret)}; expected the name of a Secret in the namespace of jobs"


def _invalid(setting: str, name: str, problem: str) -> SettingError:
    end = "" if problem.endswith((".", "?")) else "."
    return SettingError(f"Springtide.{setting}: {given(name)}: {problem}{end}")

"""Checks of a pool by its service and state: notebooks, datasets, secrets, database."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeVar

from springtide.hub_extension.doctor.findings import Finding, note, ok, problem
from springtide.hub_extension.doctor.network import answer_of_service
from springtide.scheduler.datasets import Dataset
from springtide.scheduler.declared import Declared, NamedSecret
from springtide.scheduler.executors import notebooks
from springtide.scheduler.executors.accounts import Accounts
from springtide.scheduler.executors.supervisor.secret_files import read_secret
from springtide.scheduler.store import StoreError, StoreTooNewError
from springtide.scheduler.store.opening import check_schema, connect, parse_url
from springtide.scheduler.wire import WorkspaceList
from springtide.scheduler.wording import count, given

D = TypeVar("D", bound=Declared)
CHECK: Final = "datasets"
SECRETS: Final = "secrets"


def running_notebooks(state: Path, accounts: Accounts | None) -> Iterator[Finding]:
    """Check that the hub knows all notebook servers that run."""
    try:
        running = notebooks.running(state, (lambda _: ()) if accounts is None else accounts.uids_of)
    except notebooks.NotebooksUnknownError as error:
        yield problem("notebooks", str(error), "Run this as the account that runs the hub.")
        return
    listed = answer_of_service(state, "workspaces?everybody=1", WorkspaceList)
    if listed is None:
        if running:
            yield note(
                "notebooks",
                f"{count(len(running), 'notebook server')} of this pool run, and the service does not answer.",
                "springtide up finds them.",
            )
        return
    unknown = [workspace for workspace in listed.items if workspace.state == "unknown"]
    for workspace in unknown:
        yield problem(
            "notebooks",
            f"The notebook server {given(workspace.server)} of {workspace.user} is not known to the hub and keeps "
            f"{count(workspace.gpus, 'GPU')} until it ends: {workspace.place}.",
            "Stop it on the page Workspaces, or with kill.",
        )
    if not unknown:
        yield ok("notebooks", f"The hub knows all notebook servers that run ({len(running)}).")


def datasets(declared: Mapping[str, Dataset]) -> Iterator[Finding]:
    """Check that each directory exists, and that not every account may change it."""
    return _checked(CHECK, "dataset", declared, _directory, "each directory is there")


def secrets(declared: Mapping[str, NamedSecret]) -> Iterator[Finding]:
    """Check that each file of a secret can be read, by the service alone, and has variables."""
    return _checked(SECRETS, "secret", declared, _secret_file, "each file is there, and closed to others")


def _checked(
    check: str, noun: str, declared: Mapping[str, D], look: Callable[[D], Iterator[Finding]], sound: str
) -> Iterator[Finding]:
    """Yield the findings about each declared thing, or that all are ``sound``."""
    findings = [finding for each in declared.values() for finding in look(each)]
    yield from findings
    if declared and not findings:
        yield ok(check, f"{count(len(declared), f'declared {noun}')}: {sound}.")


def _directory(dataset: Dataset) -> Iterator[Finding]:
    path = Path(dataset.path)
    try:
        mode = path.stat().st_mode
    except OSError as error:
        yield problem(
            CHECK,
            f"The dataset {dataset.name} is not found at {path}: {error.strerror}.",
            "Mount it, or correct c.Springtide.datasets.",
        )
        return
    if not stat.S_ISDIR(mode):
        yield problem(
            CHECK,
            f"The dataset {dataset.name} is no directory: {path}.",
            "Correct c.Springtide.datasets.",
        )
    elif mode & stat.S_IWOTH:
        yield problem(
            CHECK, f"Every account may change the dataset {dataset.name} in {path}.", f"chmod o-w {path}"
        )


def _secret_file(secret: NamedSecret) -> Iterator[Finding]:
    path = Path(secret.file)
    try:
        mode = path.stat().st_mode
        found = read_secret(secret.file)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        yield problem(
            SECRETS,
            f"The secret {secret.name} cannot be read from {path}: {why}.",
            "Correct the file, or c.Springtide.secrets. Each line is NAME=value.",
        )
        return
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        yield problem(
            SECRETS,
            f"Other accounts may open the file of the secret {secret.name}: {path}.",
            f"chmod 600 {path}",
        )
    if not found:
        yield note(SECRETS, f"The secret {secret.name} has no variables: {path}.", "Each line is NAME=value.")


def check(url: str) -> Iterator[Finding]:
    """Check that the server answers, and that the schema is this version's."""
    parsed = parse_url(url)
    shown = parsed.render_as_string(hide_password=True)
    try:
        writer, reader = connect(parsed)
    except ModuleNotFoundError as error:
        yield problem("store", f"{error.name} is not installed.", "pip install 'springtide[hub,postgres]'")
        return
    try:
        check_schema(reader)
    except StoreTooNewError as error:
        yield problem("store", str(error), "pip install the newer version, or restore an older dump")
    except StoreError as error:
        yield problem("store", str(error), "Check address, account and rights; then start the service once.")
    else:
        yield ok("store", f"{shown} answers, with the schema of this version.")
    finally:
        reader.dispose()
        writer.dispose()

"""Checks of a pool by its service and state: GPUs, launches, leavers, notebooks, datasets, secrets, database."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeVar

from springtide.hub_extension.doctor.findings import Finding, note, ok, problem
from springtide.hub_extension.doctor.network import answer_of_service
from springtide.scheduler.datasets.dataset import Dataset
from springtide.scheduler.declared import Declared, NamedSecret
from springtide.scheduler.executors import notebooks
from springtide.scheduler.executors.accounts import Accounts
from springtide.scheduler.executors.supervisor.secret_files import read_secret
from springtide.scheduler.store import StoreError, StoreTooNewError, read_left_jobs, read_withheld
from springtide.scheduler.store.opening import check_schema, connect, parse_url
from springtide.scheduler.wire import PoolUsage, PoolView, WorkspaceList
from springtide.scheduler.wording import count, given, gpus, plural

D = TypeVar("D", bound=Declared)
CHECK: Final = "datasets"
SECRETS: Final = "secrets"


def unmatched_gpus(state: Path) -> Iterator[Finding]:
    """Check that all running work is on GPUs of the pool; no finding if the service does not answer."""
    pool = answer_of_service(state, "pool", PoolView)
    if pool is None:
        return
    for holder in pool.unmatched:
        out = f" It keeps {gpus(len(holder.gpus))} out of the pool until it has ended." if holder.gpus else ""
        yield problem(
            "GPUs in use",
            f"{holder.why}{out}",
            f"{holder.change} On the page of the pool, or: springtide free {holder.holder} --end",
        )
    if not pool.unmatched:
        yield ok("GPUs in use", "All running jobs and notebooks are on GPUs that have a place in the pool.")


def usage_records(state: Path) -> Iterator[Finding]:
    """Check that the use of GPUs is recorded; no finding if the service does not answer."""
    usage = answer_of_service(state, "pool/gpus", PoolUsage)
    if usage is None or not usage.measured:
        return
    if usage.unrecorded:
        yield problem(
            "usage records",
            f"The use of GPUs is not recorded: {usage.unrecorded}",
            "Correct the cause. Jobs are not affected; reports lack the use that was not recorded.",
        )
    else:
        yield ok("usage records", "The use of GPUs is recorded.")


def launches(database_url: str) -> Iterator[Finding]:
    """Check that launching has not stopped; no finding if the store cannot be read."""
    try:
        withheld = read_withheld(database_url)
    except (StoreError, ModuleNotFoundError):
        return
    for words, jobs in withheld.most_common():
        yield problem(
            "launches",
            f"{count(jobs, 'job')} {plural(jobs, 'is', 'are')} not started, because several could not be: {words}",
            "Allow the refused action there. Jobs start by themselves once a start works.",
        )
    if not withheld:
        yield ok("launches", "Jobs can be launched.")


def leavers(database_url: str) -> Iterator[Finding]:
    """Report unfinished jobs of people who have left; no finding if the store cannot be read."""
    try:
        left = read_left_jobs(database_url)
    except (StoreError, ModuleNotFoundError):
        return
    for name, jobs in sorted(left.items()):
        yield note(
            "leavers",
            f"{name} is no longer a user of JupyterHub and has {count(jobs, 'unfinished job')}. "
            "Waiting jobs are on hold; running jobs continue to their end or their next pause.",
            f"On the page Quotas, under Jobs on hold, release or cancel {plural(jobs, 'it', 'them')}, or "
            "`springtide release JOB --to USER` to give one to another member of its project.",
        )
    if not left:
        yield ok("leavers", "Every unfinished job has an owner in JupyterHub.")


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
    """Yield what is found of each declared thing, or that all are ``sound``."""
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

"""Checks of the notebook servers on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from springtide.hub_extension.doctor.findings import Finding, note, ok, problem
from springtide.hub_extension.doctor.network import answer_of_service
from springtide.scheduler.executors import notebooks
from springtide.scheduler.executors.accounts import Accounts
from springtide.scheduler.wire import WorkspaceList
from springtide.scheduler.wording import count, given


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
    unknown = [each for each in listed.items if each.state == "unknown"]
    for each in unknown:
        yield problem(
            "notebooks",
            f"The notebook server {given(each.server)} of {each.user} is not known to the hub and keeps "
            f"{count(each.gpus, 'GPU')} until it ends: {each.place}.",
            "Stop it on the page Workspaces, or with kill.",
        )
    if not unknown:
        yield ok("notebooks", f"The hub knows all notebook servers that run ({len(running)}).")

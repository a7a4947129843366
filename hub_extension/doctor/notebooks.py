"""Checks of the notebook servers on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec

from springtide.hub_extension.doctor.findings import Finding, note, ok, problem
from springtide.hub_extension.doctor.network import TIMEOUT
from springtide.hub_extension.local_hub.state_dir import LOOPBACK
from springtide.hub_extension.web.auth import SERVICE
from springtide.scheduler.executors import notebooks
from springtide.scheduler.executors.accounts import Accounts
from springtide.scheduler.wire import WorkspaceList
from springtide.scheduler.wording import count, given

PATH = "/services/springtide/api/v1/workspaces?everybody=1"


def running_notebooks(state: Path, accounts: Accounts | None) -> Iterator[Finding]:
    """Check that the hub knows all notebook servers that run."""
    try:
        running = notebooks.running(state, (lambda _: None) if accounts is None else accounts.known)
    except notebooks.NotebooksUnknownError as error:
        yield problem("notebooks", str(error), "Run this as the account that runs the hub.")
        return
    listed = _listed(state)
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


def _listed(state: Path) -> WorkspaceList | None:
    """Return the workspaces of the pool, None if its service does not answer."""
    try:
        port = int(json.loads((state / "ports.json").read_text())[SERVICE])
        token = (state / "service-token").read_text().strip()
        headers = {"Authorization": f"token {token}"}
        answer = httpx.get(f"http://{LOOPBACK}:{port}{PATH}", headers=headers, timeout=TIMEOUT, trust_env=False)
        answer.raise_for_status()
        return msgspec.json.decode(answer.content, type=WorkspaceList)
    except (OSError, ValueError, KeyError, TypeError, httpx.HTTPError, msgspec.DecodeError):
        return None

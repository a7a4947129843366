"""Checks of ports and of the hub's addresses."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import httpx
import msgspec

from springtide.hub_extension.doctor.findings import Finding, note, ok, problem
from springtide.hub_extension.local_hub.state_dir import StateDir, StateError, port_is_free
from springtide.hub_extension.web.auth import SERVICE

T = TypeVar("T")
TIMEOUT = 5.0
"""Time-out of a request, in seconds."""
API = "/api/v1/"
PATHS = {SERVICE: f"{API}health", "hub": "/", "proxy": "/api/routes"}


def ports(state: Path) -> Iterator[Finding]:
    """Check the ports of `springtide up`, whether it runs or not."""
    addresses = _addresses(state)
    if not addresses:
        yield note("ports", f"`springtide up` has not run in {state} yet.", "Its first start chooses ports.")
        return
    running = _hub_runs(state)
    for name, url in sorted(addresses.items()):
        port = urlsplit(url).port
        if running:
            yield from _answers(name, f"{url.rstrip('/')}{PATHS[name]}")
        elif port is not None and not port_is_free(port):
            yield problem(
                "ports",
                f"The hub does not run, and another program uses port {port}, which is that of its {name}.",
                f"Stop that program (ss -ltnp 'sport = :{port}'); or give the {name} another port, in the "
                f"configuration or by removing {state / 'ports.json'}, and restart the notebooks.",
            )
    if not running:
        yield note("hub", f"No hub runs on {state}.", "springtide up")


def _addresses(state: Path) -> dict[str, str]:
    """Return the addresses of the hub of a state directory; none if it has not run."""
    return StateDir(state).addresses() if (state / "hub").is_dir() else {}


def _hub_runs(state: Path) -> bool:
    if not (state / "hub").is_dir():
        return False
    try:
        with StateDir(state).locked():
            return False
    except StateError:
        return True


def answer_of_service(state: Path, path: str, of: type[T]) -> T | None:
    """Return the answer of the service of `springtide up` below its API, None if there is none."""
    try:
        token = (state / "service-token").read_text().strip()
        headers = {"Authorization": f"token {token}"}
        url = f"{_addresses(state)[SERVICE]}{API}{path}"
        answer = httpx.get(url, headers=headers, timeout=TIMEOUT, trust_env=False)
        answer.raise_for_status()
        return msgspec.json.decode(answer.content, type=of)
    except (OSError, ValueError, KeyError, TypeError, httpx.HTTPError, msgspec.DecodeError):
        return None


def _answers(name: str, url: str) -> Iterator[Finding]:
    """Check that something answers; whether it asks for a token does not matter."""
    try:
        status = httpx.get(url, timeout=TIMEOUT, trust_env=False).status_code
    except httpx.HTTPError as error:
        yield problem(
            name,
            f"{url} does not answer: {error or type(error).__name__}.",
            "See hub/hub.log; restart `springtide up`.",
        )
        return
    if status >= 500:
        yield problem(name, f"{url} answers with status {status}.", "See hub/hub.log.")
    else:
        yield ok(name, f"The {name} answers at {url}.")


def service(url: str) -> Iterator[Finding]:
    """Check the pool's service at its address, without ``/api/v1``."""
    yield from _answers(SERVICE, f"{url.rstrip('/')}/api/v1/health")


def subdomains(host: str) -> Iterator[Finding]:
    """Check the hub's ``subdomain_host``: a URL, or empty."""
    if not host:
        yield note(
            "subdomains",
            "All users' notebooks and the hub share one origin, so scripts of one can reach the others' pages.",
            "Set c.JupyterHub.subdomain_host if users do not trust each other (docs/admin.md).",
        )
        return
    name = urlsplit(host if "//" in host else f"//{host}").hostname or ""
    probe = f"check-{secrets.token_hex(4)}.{name}"
    lacking = [host_name for host_name in (name, probe) if not _resolves(host_name)]
    if lacking:
        yield problem(
            "subdomains",
            f"{lacking[0]} has no address, so notebooks under subdomains of {name} cannot be reached.",
            f"Make DNS entries for {name} and *.{name}.",
        )
    else:
        yield ok("subdomains", f"{name} and its subdomains have an address.")


def _resolves(name: str) -> bool:
    try:
        return bool(socket.getaddrinfo(name, None))
    except OSError:
        return name == "localhost" or name.endswith(".localhost")

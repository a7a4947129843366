"""Pods as the chart renders them, run as local processes with their own commands, environments and files."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from clusters.chart import of_kind, pods_of, write_config
from hubs.hub_people import until
from hubs.hub_process import processes_of
from servers.ports import free_port

PATIENCE_S = 200
ENDS_WITHIN_S = 20
PASSWORD = "a user's password"
PEOPLE = {"vision": {"users": ["susan"]}}
PROJECTS = [{"name": "vision", "quota": 2, "build_quota": 1}]


@dataclass(frozen=True)
class Ports:
    """The ports of the components of one installation on this machine."""

    hub: int = field(default_factory=free_port)
    service: int = field(default_factory=free_port)
    proxy: int = field(default_factory=free_port)
    api: int = field(default_factory=free_port)

    @staticmethod
    def url(port: int) -> str:
        return f"http://127.0.0.1:{port}"


class Machine:
    """Runs programs in a directory of its own; ends all programs that it started, and their child processes."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._started: list[subprocess.Popen[bytes]] = []

    def run(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start a program; its output is in ``<name>.log``."""
        mine = {**os.environ, "HOME": str(self.directory), "SPRINGTIDE_TEST": str(self.directory), **environment}
        with (self.directory / f"{name}.log").open("wb") as log:
            started = subprocess.Popen(command, cwd=self.directory, env=mine, stdout=log, stderr=subprocess.STDOUT)
        self._started.append(started)

    def stop(self) -> None:
        """End all programs."""
        for process in reversed(self._started):
            process.send_signal(signal.SIGTERM)
        for process in self._started:
            try:
                process.wait(ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pid in processes_of(self.directory):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def words(self) -> str:
        """Return the ends of all logs."""
        return "\n".join(f"{log}:\n{log.read_text()[-3000:]}" for log in self.directory.glob("*.log"))

    def until_service_answers(self, hub_url: str) -> None:
        """Wait until the pool's service answers through the hub's proxy; raise with the ends of all logs."""
        health = f"{hub_url}/services/springtide/api/v1/health"
        try:
            until("the service", lambda: answers(health), seconds=PATIENCE_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.words()}") from None


def run_part(
    machine: Machine,
    objects: Sequence[Mapping[str, Any]],
    part: str,
    secrets: Mapping[str, Mapping[str, str]],
    *,
    instead: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run the container of a component; ``instead`` replaces its command, ``environment`` extends its own."""
    [container] = pods_of(objects)[part]["spec"]["containers"]
    init, end, python, *command = container["command"]
    assert (init, end, python) == ("tini", "--", "python3")
    config = "springtide" if part == "service" else f"springtide-{part}"
    if config in of_kind(objects, "ConfigMap"):
        write_config(objects, config, machine.directory / part)
    for old, new in {**(instead or {}), "/etc/springtide": str(machine.directory / part)}.items():
        command = [word.replace(old, new) for word in command]
    own = {entry["name"]: _value(entry, secrets) for entry in container["env"] if entry["name"] != "HOME"}
    machine.run(part, [sys.executable, *command], {**own, **(environment or {})})


def _value(entry: Mapping[str, Any], secrets: Mapping[str, Mapping[str, str]]) -> str:
    if "value" in entry:
        return str(entry["value"])
    reference = entry["valueFrom"]["secretKeyRef"]
    return secrets[reference["name"]][reference["key"]]


def made_secrets(objects: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return the Secret that the chart creates, with a known password."""
    data = of_kind(objects, "Secret")["springtide"]["data"]
    return {
        "springtide": {**{key: base64.b64decode(data[key]).decode() for key in data}, "user-password": PASSWORD}
    }


def own_hub_values(machine: Machine, ports: Ports, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of an installation with its own hub on this machine; its service has ``settings``."""
    return {
        "service": {
            "port": ports.service,
            "url": Ports.url(ports.service),
            "projects": PROJECTS,
            "settings": {**on_this_machine(machine), **settings},
        },
        "hub": {"url": Ports.url(ports.hub), "config": hub_config(machine, ports)},
        "proxy": {"apiUrl": Ports.url(ports.api)},
    }


def run_own_hub(machine: Machine, objects: Sequence[Mapping[str, Any]], ports: Ports) -> str:
    """Run proxy and hub as rendered; return the URL for users."""
    secrets = made_secrets(objects)
    listens = {"=0.0.0.0": "=127.0.0.1", "=8000": f"={ports.proxy}", "=8001": f"={ports.api}"}
    run_part(machine, objects, "proxy", secrets, instead=listens)
    run_part(machine, objects, "hub", secrets)
    return Ports.url(ports.proxy)


def on_this_machine(machine: Machine) -> dict[str, Any]:
    """Return the settings of a service as a process here."""
    return {
        "ip": "127.0.0.1",
        "state_dir": str(machine.directory / "state"),
        "database_url": f"sqlite:///{machine.directory / 'springtide.sqlite'}",
    }


def hub_config(machine: Machine, ports: Ports) -> dict[str, Any]:
    """Return the settings of a hub and notebooks that run as processes here; susan is in the project vision."""
    return {
        "JupyterHub": {
            "load_groups": PEOPLE,
            "spawner_class": "simple",
            "db_url": f"sqlite:///{machine.directory / 'hub.sqlite'}",
            "cookie_secret_file": str(machine.directory / "cookie_secret"),
            "hub_bind_url": Ports.url(ports.hub),
        },
        "Authenticator": {"allowed_users": ["susan"], "admin_users": ["admin"]},
        "Spawner": {"cmd": [sys.executable, "-m", "jupyterhub.singleuser"], "args": ["--allow-root"]},
        "SimpleLocalProcessSpawner": {"home_dir_template": str(machine.directory / "homes/{username}")},
    }


@dataclass(frozen=True)
class Person:
    """A logged-in user: a browser, the headers that scripts send, and an API token."""

    browser: httpx.Client
    headers: Mapping[str, str]
    token: str


@contextlib.contextmanager
def logged_in(hub_url: str, user: str, password: str = PASSWORD) -> Iterator[Person]:
    """Log in through the login page, and create a token on the hub's token page."""
    with httpx.Client(base_url=hub_url, follow_redirects=True, timeout=PATIENCE_S, verify=False) as browser:
        form = {"username": user, "password": password, "_xsrf": _xsrf(browser.get("/hub/login").text)}
        browser.post("/hub/login", data=form).raise_for_status()
        headers = {"X-XSRFToken": _xsrf(browser.get("/hub/token").text), "Referer": f"{hub_url}/hub/token"}
        made = browser.post(f"/hub/api/users/{user}/tokens", json={"note": "test"}, headers=headers)
        yield Person(browser, headers, str(made.raise_for_status().json()["token"]))


def answers(url: str) -> bool:
    """Return whether the URL answers with status 200."""
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(url, timeout=PATIENCE_S, verify=False).status_code == 200
    return False


def _xsrf(page: str) -> str:
    found = re.search(r'name="_xsrf" value="([^"]+)"', page) or re.search(r'xsrf_token: "([^"]+)"', page)
    assert found, page
    return found.group(1)

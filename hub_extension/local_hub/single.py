"""Configuration of the hub on one machine: all users' files in the state directory, all servers on loopback."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from jupyterhub.auth import DummyAuthenticator
from traitlets.config import Config
from traitlets.config.loader import LazyConfigValue

from springtide.hub_extension.local_hub import demo
from springtide.hub_extension.local_hub.examples import EXAMPLES, FIRST_NOTEBOOK, give_examples
from springtide.hub_extension.local_hub.orphans import PROXY
from springtide.hub_extension.local_hub.state_dir import LOOPBACK, StateDir, write_for_all
from springtide.hub_extension.web.hosts import LOOPBACK_NAMES
from springtide.scheduler.gpu_types import declared_types, total
from springtide.scheduler.model import Environment
from springtide.scheduler.own_files import make_own_directory
from springtide.scheduler.settings import SettingError
from springtide.scheduler.telemetry import GpuCount, TelemetryError, count_gpus, discover

HUB_HOST = "localhost"
"""Host name of a hub on this machine; those of services and notebook servers end with it."""
HERE = Path(__file__).resolve().parent
TEMPLATES = (str(HERE / "templates"), str(HERE.parent / "branding"))
"""Directories with templates of the hub's own pages, and of parts shared with the pages of the service."""
QUIET = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False}}
"""Default settings of JupyterLab, without the question whether to fetch news."""
SERVER = """
import os, shutil

c.ServerApp.terminado_settings = {"shell_command": [os.environ.get("SHELL") or shutil.which("bash") or "sh"]}
"""
"""Configuration of notebook servers: terminals keep the PATH of the server.

A login shell, which terminals would have without it, takes that of ``/etc/profile``, which lacks `springtide`.
"""
AS_INSTALLED = {"buildCheck": False}
"""Settings of JupyterLab that skip the check whether it must be rebuilt, which takes seconds at each start."""
LOG_OUT_AFTER_S = 60
"""Maximum time for which a notebook server still answers a user who has logged out at the hub, in seconds.

The hub ends the tokens of a session at once; a notebook server under a host name of its own caches them for that
time.
"""
NOTEBOOKS_CHECKED_S = 1
"""Time for the check of the notebook servers before a starting hub answers, in seconds: the least of JupyterHub.

It checks the rest while it answers. A notebook server that was starting when the former hub ended waits for the
hub, and the GPUs of one that has ended are released by the service, which starts after the check.
"""


class SharedOut(TypedDict):
    """Train GPUs by type, and the number of build GPUs or a number for each type."""

    train_gpus: Mapping[str, int]
    build_gpus: GpuCount


def prepare(
    c: Config,
    *,
    state_dir: str,
    port: int,
    hub_port: int,
    proxy_port: int,
    train_gpus: Mapping[str, int],
    build_gpus: GpuCount,
    allowed_hosts: Sequence[str] = (),
) -> None:
    """Configure the hub and the demonstration: its users and, on the first start, the members of its projects.

    The demonstration shares out the ``train_gpus`` of each type, and ``build_gpus`` for build notebooks.
    ``allowed_hosts`` are names of this machine in addition to those of the loopback address.
    """
    state = StateDir(Path(state_dir))
    c.JupyterHub.bind_url = f"http://{LOOPBACK}:{port}"
    c.JupyterHub.hub_ip, c.JupyterHub.hub_port = LOOPBACK, hub_port
    c.JupyterHub.db_url = f"sqlite:///{state.hub / 'jupyterhub.sqlite'}"
    c.JupyterHub.cookie_secret_file = str(state.hub / "cookie-secret")
    c.JupyterHub.cleanup_servers = False
    c.JupyterHub.init_spawners_timeout = NOTEBOOKS_CHECKED_S
    c.JupyterHub.spawner_class = "springtide-simple"
    c.JupyterHub.template_paths = list(TEMPLATES)
    c.ConfigurableHTTPProxy.api_url = f"http://{LOOPBACK}:{proxy_port}"
    c.ConfigurableHTTPProxy.pid_file = str(state.hub / "proxy.pid")
    c.ConfigurableHTTPProxy.command = [sys.executable, "-m", PROXY]
    _prepare_notebooks(c, state)
    c.Springtide.allowed_hosts = [*LOOPBACK_NAMES, *allowed_hosts]
    _prepare_story(c, state, train_gpus, build_gpus)


def share_out(c: Config, settings: Mapping[str, Any], *, prepared: SharedOut) -> None:
    """Share out the GPUs again if the configuration names other numbers than were ``prepared``.

    ``settings`` take precedence over it. Projects and build GPUs that it names itself stay as they are. Of the
    demonstration's people only those have projects whom the configuration still names.
    """
    people = _people(c)
    named = {name: c.Springtide[name] for name in ("simulated_gpus", "gpu_types") if name in c.Springtide}
    keeps_build = c.Springtide.build_gpus == prepared["build_gpus"]
    if not keeps_build:
        named["build_gpus"] = c.Springtide.build_gpus
    shared = shared_out({**named, **settings})
    if c.Springtide.projects == _projects(prepared):
        c.Springtide.projects = [each for each in _projects(shared) if each["name"] in people]
    if c.JupyterHub.get("load_groups") == demo.groups():
        c.JupyterHub.load_groups = {name: group for name, group in demo.groups().items() if name in people}
    if keeps_build:
        c.Springtide.build_gpus = shared["build_gpus"]


def _people(c: Config) -> tuple[str, ...]:
    """Return the demonstration's people whom the configuration names.

    People of another authenticator may be called like them: their names let no one in and make no one an admin.
    """
    if not _shares_password(c.JupyterHub.authenticator_class):
        for name, people in (("allowed_users", set(demo.NAMES)), ("admin_users", {demo.ADMIN})):
            if c.Authenticator.get(name) == people:
                del c.Authenticator[name]
    allowed = c.Authenticator.get("allowed_users", set())
    if isinstance(allowed, LazyConfigValue):
        allowed = allowed.get_value(set(demo.NAMES))
    return tuple(name for name in demo.NAMES if name in allowed)


def _shares_password(authenticator: object) -> bool:
    """Return whether a value of ``c.JupyterHub.authenticator_class`` is the demonstration's, or made of it."""
    if isinstance(authenticator, type):
        return issubclass(authenticator, DummyAuthenticator)
    return authenticator in {"dummy", "jupyterhub.auth.DummyAuthenticator"}


def shared_out(settings: Mapping[str, Any]) -> SharedOut:
    """Return which train GPUs the demonstration shares out, and how many GPUs are for build notebooks.

    No train GPUs if the machine cannot be divided like that: the service says why.
    """
    simulated, build = settings.get("simulated_gpus"), settings.get("build_gpus")
    if build is None:
        build = demo.build_gpus(
            (count_gpus() or demo.SIMULATED_GPUS) if simulated is None else total(simulated) or 0
        )
    try:
        nodes = discover(simulated, build, declared_types(settings.get("gpu_types", ()))).nodes
    except (TelemetryError, SettingError):
        nodes = ()
    train = {node.gpu_type: node.gpus for node in nodes if node.environment is Environment.TRAIN and node.gpus}
    return {"train_gpus": train, "build_gpus": build}


def _projects(shared: SharedOut) -> list[dict[str, object]]:
    return demo.projects(demo.people(shared["train_gpus"], total(shared["build_gpus"]) or 0))


def give_hosts(c: Config, *, port: int, state_dir: str) -> None:
    """Give the hub, the service and each notebook server a host name below ``localhost``, which needs no DNS.

    Browsers then treat the page of a notebook server as cross-origin to the hub. Names chosen by the configuration
    stay, and so does a single host name if people reach the hub under another name, by TLS or at another port.
    """
    chosen = any(name in c.JupyterHub for name in ("subdomain_host", "public_url", "ip", "port", "ssl_cert"))
    as_prepared = c.JupyterHub.bind_url == f"http://{LOOPBACK}:{port}"
    if not chosen and as_prepared and set(c.Springtide.allowed_hosts) <= set(LOOPBACK_NAMES):
        c.JupyterHub.subdomain_host = f"http://{HUB_HOST}:{port}"
    host_file(Path(state_dir)).write_text(str(c.JupyterHub.get("subdomain_host", "")))


def host_file(state_dir: Path) -> Path:
    """Return the file in which `springtide up` notes the ``subdomain_host`` of its hub, for the doctor."""
    return state_dir / "hub" / "subdomain-host"


def _prepare_notebooks(c: Config, state: StateDir) -> None:
    logs = state.hub / "notebooks"
    make_own_directory(logs, 0o700)
    c.LocalNotebook.log_dir = str(logs)
    c.SimpleLocalProcessSpawner.home_dir_template = str(state.homes / "{username}")
    c.Spawner.cmd = [sys.executable, "-m", "jupyterhub.singleuser"]
    c.Spawner.args = [f"--HubOAuth.cache_max_age={LOG_OUT_AFTER_S}"]
    if os.geteuid() == 0:
        c.Spawner.args.append("--allow-root")
    else:
        c.Springtide.accounts = "shared"
    settings = _for_all(state.path / "jupyter") / "labconfig"
    _for_all(settings)
    for name, content in (("default_setting_overrides.json", QUIET), ("page_config.json", AS_INSTALLED)):
        write_for_all(settings / name, json.dumps(content))
    write_for_all(settings.parent / "jupyter_server_config.py", SERVER)
    c.Spawner.environment = {
        "PATH": _first(str(Path(sys.executable).parent), "PATH"),
        "JUPYTER_CONFIG_PATH": _first(str(settings.parent), "JUPYTER_CONFIG_PATH"),
    }
    if (EXAMPLES.parent / FIRST_NOTEBOOK).exists():
        c.Spawner.default_url = f"/lab/tree/{FIRST_NOTEBOOK}"
    c.Spawner.pre_spawn_hook = give_examples


def _for_all(directory: Path) -> Path:
    """Create a directory that all accounts may read, and return it."""
    make_own_directory(directory, 0o755)
    return directory


def _first(place: str, variable: str) -> str:
    return os.pathsep.join(filter(None, [place, os.environ.get(variable)]))


def _prepare_story(c: Config, state: StateDir, train_gpus: Mapping[str, int], build_gpus: GpuCount) -> None:
    c.JupyterHub.authenticator_class = "dummy"
    c.DummyAuthenticator.password = state.password()
    c.Authenticator.allowed_users = set(demo.NAMES)
    c.Authenticator.admin_users = {demo.ADMIN}
    if not (state.hub / "jupyterhub.sqlite").exists():
        c.JupyterHub.load_groups = demo.groups()
    c.Springtide.projects = _projects({"train_gpus": train_gpus, "build_gpus": build_gpus})
    c.Springtide.build_gpus = build_gpus

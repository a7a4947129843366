"""The hub of one machine, as configuration: everybody's files in the state directory, everything on loopback."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from traitlets.config import Config

from springtide.hub_extension import story
from springtide.hub_extension.state_dir import LOOPBACK, StateDir

PROXY = "springtide.hub_extension.proxy"
EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
"""Beside this package both in a checkout and where the wheel is installed."""
TEMPLATES = Path(__file__).resolve().parent / "hub_templates"
"""The hub's own pages, with the way to the pool's."""
FIRST_NOTEBOOK = "examples/digits/digits.ipynb"
QUIET = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False}}
"""JupyterLab's settings unless somebody chooses others: it asks nobody whether to fetch news."""
AS_INSTALLED = {"buildCheck": False}
"""JupyterLab need not look, for seconds of each start, whether it is to be built anew."""
LEFT_OUT = ("__pycache__", ".ipynb_checkpoints", "output", "*.pyc")


def prepare(c: Config, *, state_dir: str, port: int, hub_port: int, proxy_port: int, password: str) -> None:
    """Set up the hub and the story: who can log in, and on the first start who is in which project."""
    state = StateDir(Path(state_dir))
    c.JupyterHub.bind_url = f"http://{LOOPBACK}:{port}"
    c.JupyterHub.hub_bind_url = f"http://{LOOPBACK}:{hub_port}"
    c.JupyterHub.db_url = f"sqlite:///{state.hub / 'jupyterhub.sqlite'}"
    c.JupyterHub.cookie_secret_file = str(state.hub / "cookie-secret")
    c.JupyterHub.cleanup_servers = False
    c.JupyterHub.spawner_class = "springtide-simple"
    c.JupyterHub.template_paths = [str(TEMPLATES)]
    c.ConfigurableHTTPProxy.api_url = f"http://{LOOPBACK}:{proxy_port}"
    c.ConfigurableHTTPProxy.pid_file = str(state.hub / "proxy.pid")
    c.ConfigurableHTTPProxy.command = [sys.executable, "-m", PROXY]
    _prepare_notebooks(c, state)
    _prepare_story(c, state, password)


def _prepare_notebooks(c: Config, state: StateDir) -> None:
    logs = state.hub / "notebooks"
    logs.mkdir(mode=0o700, exist_ok=True)
    c.LocalNotebook.log_dir = str(logs)
    c.SimpleLocalProcessSpawner.home_dir_template = str(state.homes / "{username}")
    c.Spawner.cmd = [sys.executable, "-m", "jupyterhub.singleuser"]
    if os.geteuid() == 0:
        c.Spawner.args = ["--allow-root"]
    settings = state.hub / "jupyter" / "labconfig"
    settings.mkdir(mode=0o700, parents=True, exist_ok=True)
    (settings / "default_setting_overrides.json").write_text(json.dumps(QUIET))
    (settings / "page_config.json").write_text(json.dumps(AS_INSTALLED))
    c.Spawner.environment = {
        "PATH": _first(str(Path(sys.executable).parent), "PATH"),
        "JUPYTER_CONFIG_PATH": _first(str(settings.parent), "JUPYTER_CONFIG_PATH"),
    }
    if (EXAMPLES.parent / FIRST_NOTEBOOK).exists():
        c.Spawner.default_url = f"/lab/tree/{FIRST_NOTEBOOK}"
    c.Spawner.pre_spawn_hook = give_examples


def _first(place: str, variable: str) -> str:
    return os.pathsep.join(filter(None, [place, os.environ.get(variable)]))


def _prepare_story(c: Config, state: StateDir, password: str) -> None:
    c.JupyterHub.authenticator_class = "dummy"
    c.DummyAuthenticator.password = password
    c.Authenticator.allowed_users = {person.name for person in story.PEOPLE}
    c.Authenticator.admin_users = {story.ADMIN}
    if not (state.hub / "jupyterhub.sqlite").exists():
        c.JupyterHub.load_groups = story.groups()
    c.Springtide.projects = story.projects()
    c.Springtide.build_gpus = story.BUILD_GPUS


def give_examples(spawner: Any) -> None:
    """Put the examples into a home directory that has none yet."""
    place = Path(spawner.home_dir) / "examples"
    if place.exists() or not EXAMPLES.is_dir():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".examples-") as made:
        copy = shutil.copytree(EXAMPLES, Path(made) / "examples", ignore=shutil.ignore_patterns(*LEFT_OUT))
        copy.rename(place)

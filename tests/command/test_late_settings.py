"""Settings that come after `configure(c)` in a hub's file do not undo it in silence."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest
from patience import PATIENCE_S
from servers.ports import free_port
from traitlets.config import Config

from springtide.hub_extension import configure
from springtide.hub_extension.late_settings import late_settings


@pytest.fixture
def c(tmp_path: Path) -> Config:
    c = Config()
    c.Springtide.state_dir = str(tmp_path / "state")
    c.Springtide.accounts = "shared"
    c.Springtide.build_gpus = 2
    configure(c)
    return c


def late(configured: Config, change: Callable[[Config], object]) -> list[str]:
    """The settings that undo `configure`, of those that `change` makes after it."""
    final = deepcopy(configured)
    change(final)
    return late_settings(configured, final, configure)


CULLER = {"name": "cull", "scopes": ["list:users"]}
LATE: dict[str, Callable[[Config], object]] = {
    "c.JupyterHub.spawner_class": lambda c: c.JupyterHub.update(spawner_class="simple"),
    "c.JupyterHub.base_url": lambda c: c.JupyterHub.update(base_url="/jupyter/"),
    "c.JupyterHub.load_roles": lambda c: c.JupyterHub.update(load_roles=[CULLER]),
    "c.JupyterHub.services": lambda c: c.JupyterHub.update(services=[{"name": "cull"}]),
    "c.JupyterHub.subdomain_host": lambda c: c.JupyterHub.update(subdomain_host="https://hub.example.org"),
    "c.JupyterHub.tornado_settings": lambda c: c.JupyterHub.update(tornado_settings={"headers": {}}),
    "c.Spawner.environment": lambda c: c.Spawner.update(environment={"MINE": "1"}),
    "c.Spawner.server_token_scopes": lambda c: c.Spawner.update(server_token_scopes=["users:activity!user"]),
    "c.Springtide.build_gpus": lambda c: c.Springtide.update(build_gpus=4),
    "c.Authenticator.admin_users": lambda c: c.Authenticator.update(admin_users={"jemma"}),
}


@pytest.mark.parametrize("setting", LATE)
def test_a_setting_that_undoes_configure_is_named(c: Config, setting: str) -> None:
    assert late(c, LATE[setting]) == [setting]


def test_all_of_them_are_named_at_once(c: Config) -> None:
    def change(c: Config) -> None:
        for each in LATE.values():
            each(c)

    assert late(c, change) == sorted(LATE)


@pytest.mark.parametrize(
    "change",
    [
        lambda _: None,
        lambda c: c.JupyterHub.update(bind_url="http://127.0.0.1:9000"),
        lambda c: c.JupyterHub.services.append({"name": "cull"}),
        lambda c: c.JupyterHub.load_roles.append(CULLER),
        lambda c: c.Spawner.environment.update({"MINE": "1"}),
        lambda c: c.Spawner.update(default_url="/lab"),
        lambda c: c.Authenticator.allowed_users.add("joe"),
    ],
)
def test_a_setting_that_adds_to_configure_or_is_none_of_its_business_may_come_later(
    c: Config, change: Callable[[Config], object]
) -> None:
    assert late(c, change) == []


def test_scopes_that_a_function_chooses_may_come_before(tmp_path: Path) -> None:
    c = Config()
    c.Springtide.state_dir = str(tmp_path / "state")
    c.Springtide.accounts = "shared"
    c.Spawner.server_token_scopes = lambda _spawner: ["users:activity!user"]
    configure(c)
    assert late(c, lambda c: c.JupyterHub.update(base_url="/jupyter/")) == ["c.JupyterHub.base_url"]
    assert late(c, lambda _: None) == []


@pytest.mark.hub
def test_a_hub_whose_file_undoes_configure_ends_with_the_names_and_starts_nothing(tmp_path: Path) -> None:
    config = tmp_path / "jupyterhub_config.py"
    config.write_text(f"""
from springtide.hub_extension import configure
c.Springtide.state_dir = {str(tmp_path / "state")!r}
c.Springtide.accounts = "shared"
configure(c)
c.JupyterHub.bind_url = "http://127.0.0.1:{free_port()}"
c.JupyterHub.hub_bind_url = "http://127.0.0.1:{free_port()}"
c.JupyterHub.db_url = "sqlite://"
c.JupyterHub.authenticator_class = "dummy"
c.JupyterHub.spawner_class = "simple"
c.JupyterHub.load_roles = []
c.ConfigurableHTTPProxy.command = [{sys.executable!r}, "-c", "open('proxy-started', 'w')"]
""")
    hub = subprocess.run(
        [sys.executable, "-m", "jupyterhub", "-f", config],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert hub.returncode == 1, hub.stderr
    assert hub.stderr.splitlines()[-1] == (
        "springtide: configure(c) comes before c.JupyterHub.load_roles, c.JupyterHub.spawner_class in the hub's "
        "configuration, so Springtide would not have its quotas, roles or settings. Move configure(c) to the end "
        "of the file."
    )
    assert not (tmp_path / "proxy-started").exists()

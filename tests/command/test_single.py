"""The notebooks of a hub on one machine, as JupyterLab itself understands what they are given."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from servers.ports import free_port
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from springtide.hub_extension.local_hub import demo, single, up
from springtide.hub_extension.local_hub.state_dir import StateDir
from springtide.scheduler.gpu_types import total

ASK = """
import json
from jupyterlab_server.config import get_static_page_config
from jupyterlab.labapp import LabApp
from jupyterlab_server.settings_utils import _get_overrides
print(json.dumps([get_static_page_config(level="all"), _get_overrides(LabApp().app_settings_dir)[0]]))
"""


def test_jupyterlab_neither_asks_for_news_nor_looks_whether_it_is_to_be_built(tmp_path: Path) -> None:
    c = Config()
    single.prepare(c, state_dir=str(tmp_path), port=1, hub_port=2, proxy_port=3, train_gpus={"": 8}, build_gpus=3)
    environment = {**os.environ, **c.Spawner.environment}
    page, settings = json.loads(subprocess.check_output([sys.executable, "-c", ASK], env=environment, text=True))
    assert page["buildCheck"] is False
    assert settings == single.QUIET


SHELL = """
from jupyter_server.serverapp import ServerApp
app = ServerApp()
app.initialize(["--port=0", "--allow-root"], find_extensions=True, new_httpserver=False)
print(app.web_app.settings["terminal_manager"].shell_command)
"""


def test_terminals_keep_the_path_of_the_notebook_server(tmp_path: Path) -> None:
    c = Config()
    single.prepare(c, state_dir=str(tmp_path), port=1, hub_port=2, proxy_port=3, train_gpus={"": 8}, build_gpus=3)
    environment = {**os.environ, **c.Spawner.environment, "SHELL": "/bin/bash"}
    shell = subprocess.check_output([sys.executable, "-c", SHELL], env=environment, text=True, cwd=tmp_path)
    assert shell.splitlines()[-1] == "['/bin/bash']"  # a login shell would forget it


@pytest.mark.parametrize("gpus", range(1, 40))
def test_the_demonstration_fits_a_machine_with_any_number_of_gpus(gpus: int) -> None:
    build = demo.build_gpus(gpus)
    people = demo.people({"": gpus - build}, build)
    assert sum(person.build_quota for person in people) == build
    quotas = [total(person.quota) or 0 for person in people]
    assert 1 <= sum(quotas) <= gpus - build
    assert quotas[0] >= 1  # somebody can begin


def test_on_a_machine_without_gpus_each_person_of_the_demonstration_has_two_train_gpus_and_one_for_building() -> (
    None
):
    build = demo.build_gpus(demo.SIMULATED_GPUS)
    people = demo.people({"": demo.SIMULATED_GPUS - build}, build)
    assert [(person.quota, person.build_quota) for person in people] == [(2, 1)] * 3


@pytest.mark.parametrize(
    ("config", "settings", "gpus", "build", "quotas"),
    [
        ("", {"simulated_gpus": 8}, 8, 2, [(2, 1), (2, 1), (2, 0)]),
        ("c.Springtide.simulated_gpus = 2", {}, 2, 1, [(1, 1), (0, 0), (0, 0)]),
        ("c.Springtide.simulated_gpus = 1", {}, 1, 0, [(1, 0), (0, 0), (0, 0)]),
        ("c.Springtide.simulated_gpus = 2", {"simulated_gpus": 8}, 8, 2, [(2, 1), (2, 1), (2, 0)]),
        (
            "c.Springtide.simulated_gpus = 4; c.Springtide.build_gpus = 0",
            {},
            4,
            0,
            [(1, 0), (1, 0), (1, 0)],
        ),
        (
            "c.Springtide.simulated_gpus = 2; c.Springtide.projects = [dict(name='a', quota=1, build_quota=0)]",
            {},
            2,
            1,
            [(1, 0)],
        ),
    ],
)
def test_the_gpus_of_the_configuration_are_shared_out(
    tmp_path: Path,
    config: str,
    settings: dict[str, int],
    gpus: int,
    build: int,
    quotas: list[tuple[int, int]],
) -> None:
    c = configured(tmp_path, config, settings)
    assert (c.Springtide.simulated_gpus, c.Springtide.build_gpus) == (gpus, build)
    assert [(project["quota"], project["build_quota"]) for project in c.Springtide.projects] == quotas


def test_the_port_of_the_configuration_is_the_services(tmp_path: Path) -> None:
    port = free_port()
    c = configured(tmp_path, f"c.Springtide.port = {port}", {})
    assert c.BuildQuota.service_url == f"http://127.0.0.1:{port}/services/springtide"
    again = configured(tmp_path, "", {})
    assert again.Springtide.port not in {None, port}
    assert f":{again.Springtide.port}/" in again.BuildQuota.service_url


@pytest.mark.parametrize(
    ("config", "settings", "build", "quotas"),
    [
        (
            "",
            {"simulated_gpus": {"t4": 8, "a100": 4}, "build_gpus": {"t4": 2}},
            {"t4": 2},
            [({"t4": 2, "a100": 1}, 1), ({"t4": 2, "a100": 1}, 1), ({"t4": 2, "a100": 1}, 0)],
        ),
        (
            "c.Springtide.simulated_gpus = {'t4': 4, 'V': 2}; c.Springtide.gpu_types = {'t4': [], 'v100': ['V']}",
            {"build_gpus": 1},
            1,
            [({"t4": 1, "v100": 1}, 1), ({"t4": 1, "v100": 0}, 0), ({"t4": 1, "v100": 0}, 0)],
        ),
        ("", {"simulated_gpus": {"t4": 3}, "build_gpus": {"t4": 0}}, {"t4": 0}, [(1, 0), (1, 0), (1, 0)]),
        ("", {"simulated_gpus": {"t4": 3}, "build_gpus": {"a100": 1}}, {"a100": 1}, [(0, 1), (0, 0), (0, 0)]),
    ],
)
def test_gpus_of_several_types_are_shared_out_type_by_type(
    tmp_path: Path, config: str, settings: dict[str, Any], build: object, quotas: list[tuple[object, int]]
) -> None:
    c = configured(tmp_path, config, settings)
    assert c.Springtide.build_gpus == build
    assert [(project["quota"], project["build_quota"]) for project in c.Springtide.projects] == quotas


def configured(tmp_path: Path, config: str, settings: dict[str, Any]) -> Config:
    """Return the configuration with which `springtide up` starts the hub."""
    (tmp_path / "config.py").write_text(config)
    state = StateDir(tmp_path / "state")
    options = up.Options(state.path, free_port(), tmp_path / "config.py", settings=settings)
    file = up.prepare(state, options)
    return PyFileConfigLoader(file.name, str(file.parent)).load_config()

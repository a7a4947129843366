"""The notebooks of a hub on one machine, as JupyterLab itself understands what they are given."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from traitlets.config import Config

from springtide.hub_extension.local_hub import demo, single

ASK = """
import json
from jupyterlab_server.config import get_static_page_config
from jupyterlab.labapp import LabApp
from jupyterlab_server.settings_utils import _get_overrides
print(json.dumps([get_static_page_config(level="all"), _get_overrides(LabApp().app_settings_dir)[0]]))
"""


def test_jupyterlab_neither_asks_for_news_nor_looks_whether_it_is_to_be_built(tmp_path: Path) -> None:
    c = Config()
    single.prepare(c, state_dir=str(tmp_path), port=1, hub_port=2, proxy_port=3, gpus=11, build_gpus=3)
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
    single.prepare(c, state_dir=str(tmp_path), port=1, hub_port=2, proxy_port=3, gpus=11, build_gpus=3)
    environment = {**os.environ, **c.Spawner.environment, "SHELL": "/bin/bash"}
    shell = subprocess.check_output([sys.executable, "-c", SHELL], env=environment, text=True, cwd=tmp_path)
    assert shell.splitlines()[-1] == "['/bin/bash']"  # a login shell would forget it


@pytest.mark.parametrize("gpus", range(1, 40))
def test_the_demonstration_fits_a_machine_with_any_number_of_gpus(gpus: int) -> None:
    build = demo.build_gpus(gpus)
    people = demo.people(gpus, build)
    assert sum(person.build_quota for person in people) == build
    assert 1 <= sum(person.quota for person in people) <= gpus - build
    assert people[0].quota >= 1  # somebody can begin


def test_on_a_machine_without_gpus_each_person_of_the_demonstration_has_two_train_gpus_and_one_for_building() -> (
    None
):
    people = demo.people(demo.SIMULATED_GPUS, demo.build_gpus(demo.SIMULATED_GPUS))
    assert [(person.quota, person.build_quota) for person in people] == [(2, 1)] * 3

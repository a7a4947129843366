"""The notebooks of a hub on one machine, as JupyterLab itself understands what they are given."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from traitlets.config import Config

from springtide.hub_extension.local_hub import single

ASK = """
import json
from jupyterlab_server.config import get_static_page_config
from jupyterlab.labapp import LabApp
from jupyterlab_server.settings_utils import _get_overrides
print(json.dumps([get_static_page_config(level="all"), _get_overrides(LabApp().app_settings_dir)[0]]))
"""


def test_jupyterlab_neither_asks_for_news_nor_looks_whether_it_is_to_be_built(tmp_path: Path) -> None:
    c = Config()
    single.prepare(c, state_dir=str(tmp_path), port=1, hub_port=2, proxy_port=3)
    environment = {**os.environ, **c.Spawner.environment}
    page, settings = json.loads(subprocess.check_output([sys.executable, "-c", ASK], env=environment, text=True))
    assert page["buildCheck"] is False
    assert settings == single.QUIET

"""The hub's configuration: what the chart's values say, then hub.config and hub.extraConfig, then Springtide."""

import json
import os
from pathlib import Path

from traitlets.config import Config

from springtide.hub_extension import configure
from springtide.hub_extension.local_hub.single import TEMPLATES

c = get_config()  # noqa: F821
chart = json.loads(Path(__file__).with_name("hub.json").read_text())

c.merge(Config(chart["defaults"]))
c.JupyterHub.template_paths = list(TEMPLATES)
c.JupyterHub.services = [{**chart["service"], "api_token": os.environ["SPRINGTIDE_SERVICE_TOKEN"]}]
c.SharedPasswordAuthenticator.user_password = os.environ["SPRINGTIDE_USER_PASSWORD"]
c.SharedPasswordAuthenticator.admin_password = os.environ["SPRINGTIDE_ADMIN_PASSWORD"]
if "SPRINGTIDE_HUB_DATABASE_URL" in os.environ:
    c.JupyterHub.db_url = os.environ["SPRINGTIDE_HUB_DATABASE_URL"]

c.merge(Config(chart["config"]))
for name, lines in sorted(chart["extraConfig"].items()):
    exec(compile(lines, f"hub.extraConfig.{name}", "exec"))  # noqa: S102

configure(c)

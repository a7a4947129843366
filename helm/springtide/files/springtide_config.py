"""The service's settings: the people of hub.config, what the chart's values say, then service.extraConfig."""

import json
import os
from pathlib import Path

from traitlets.config import Config

from springtide.hub_extension.configured_people import people_settings

c = get_config()  # noqa: F821
chart = json.loads(Path(__file__).with_name("service.json").read_text())

c.Springtide.update(people_settings(Config(chart["hub"])))
c.Springtide.update(chart["settings"])
if "SPRINGTIDE_DATABASE_URL" in os.environ:
    c.Springtide.database_url = os.environ["SPRINGTIDE_DATABASE_URL"]

for name, lines in sorted(chart["extraConfig"].items()):
    exec(compile(lines, f"service.extraConfig.{name}", "exec"))  # noqa: S102

"""The service's settings: what the chart's values say, then service.extraConfig."""

import json
import os
from pathlib import Path

c = get_config()  # noqa: F821
chart = json.loads(Path(__file__).with_name("service.json").read_text())

c.Springtide.update(chart["settings"])
if "SPRINGTIDE_DATABASE_URL" in os.environ:
    c.Springtide.database_url = os.environ["SPRINGTIDE_DATABASE_URL"]

for name, lines in sorted(chart["extraConfig"].items()):
    exec(compile(lines, f"service.extraConfig.{name}", "exec"))  # noqa: S102

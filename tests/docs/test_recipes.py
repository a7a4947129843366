"""The recipes of CONTRIBUTING.md for a setting and a channel, carried out in a copy of the product."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
CHANNEL = """
from dataclasses import dataclass
from pathlib import Path

from springtide.hub_extension.notifications.channel import Channel
from springtide.scheduler.settings import setting


@dataclass(frozen=True, slots=True)
class Pigeon(Channel):
    name = "pigeon"
    title = "By pigeon"
    about = "Slow, but sure."

    loft: str = setting("", "The directory from which pigeons fly.")

    def target(self, user, address):
        return f"the loft of {user}"

    async def send(self, message, user, address):
        (Path(self.loft) / user).write_text(message.title)
"""


class Copy:
    """A copy of the product in which a recipe is carried out."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for part in ("scheduler", "hub_extension"):
            shutil.copytree(
                ROOT / part, folder / "springtide" / part, ignore=shutil.ignore_patterns("__pycache__")
            )

    def edit(self, file: str, before: str, after: str) -> None:
        path = self.folder / "springtide" / file
        text = path.read_text()
        assert before in text
        path.write_text(text.replace(before, after, 1))

    def prints(self, code: str, *arguments: str) -> str:
        ran = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            env={**os.environ, "PYTHONPATH": str(self.folder)},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


SETTING = """
from springtide.hub_extension.service.service import Springtide
from springtide.scheduler.settings import SettingError

service = Springtide(accounts="shared")
service.configure_from("", ["--Springtide.nap=90"])
print(service.setup().engine.nap)
print(Springtide.class_get_trait_help(Springtide.nap))
try:
    service.configure_from('{"nap": 900}', [])
except SettingError as error:
    print(error)
"""


def test_a_setting_needs_its_declaration_alone(copy: Copy) -> None:
    declaration = '    nap: float = setting(5.0, "A nap.", unit="seconds", ge=1, le=600)\n'
    copy.edit("scheduler/engine/settings.py", "    max_files:", f"{declaration}    max_files:")
    printed = copy.prints(SETTING)
    assert printed.startswith("90.0\n--Springtide.nap=<Float>")
    assert "A nap. A number of seconds from 1 up to 600." in printed
    assert "Springtide.nap is 900; expected a number of seconds from 1 up to 600." in printed


SENT = """
import asyncio, sys
from springtide.hub_extension.notifications.channels import Channels, MessageSettings
from springtide.hub_extension.notifications.message import trial_notification
from springtide.hub_extension.service.service import Springtide
from springtide.scheduler.notifications import NotificationChoice

channels = Channels.of(MessageSettings(), Springtide(loft=sys.argv[1]).values())
print(*channels.settings.channels)
asyncio.run(channels.send("pigeon", NotificationChoice("susan"), [trial_notification("susan", "pigeon")]))
"""


def test_a_channel_needs_its_module_and_an_entry(copy: Copy, tmp_path: Path) -> None:
    (copy.folder / "springtide/hub_extension/notifications/pigeon.py").write_text(CHANNEL)
    entry = "from springtide.hub_extension.notifications.pigeon import Pigeon\n"
    first = "from springtide.hub_extension.notifications.webhook"
    copy.edit("hub_extension/notifications/channels.py", first, entry + first)
    copy.edit("hub_extension/notifications/channels.py", "(Mail, Webhook)", "(Mail, Webhook, Pigeon)")
    assert copy.prints(SENT, str(tmp_path)) == "browser webhook pigeon\n"
    assert (tmp_path / "susan").read_text() == "This is a test message of the pool."

"""Application of the service: one process with store, engine, executor, API and pages, set up by configuration."""

from __future__ import annotations

import asyncio
import difflib
import json
import logging
import os
import signal
import sys
import time
from contextlib import AsyncExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NoReturn

from traitlets import TraitError, Unicode, default
from traitlets.config import Application, Config

from springtide.hub_extension.notifications.channels import KINDS, Channels
from springtide.hub_extension.service.logs import log_to_stderr
from springtide.hub_extension.service.parent import hub_pid, when_hub_ends
from springtide.hub_extension.service.runtime import BAD_INPUT, Runtime, StartError
from springtide.hub_extension.service.settings import ServiceSettings
from springtide.hub_extension.service.setup import Setup, setup_of
from springtide.hub_extension.service.traits import traits_of
from springtide.scheduler.settings import SettingError, declared, read

CONFIG_ENV: Final = "SPRINGTIDE_CONFIG"


class Springtide(traits_of(declared(ServiceSettings, *KINDS)), Application):  # type: ignore[misc] # generated
    """The pool's service. The hub starts it; `configure` passes its settings in ``SPRINGTIDE_CONFIG``."""

    name = "springtide-service"
    version = version("springtide")
    description = "The service of a pool of GPUs: scheduler, API and pages of Springtide."
    aliases = {  # noqa: RUF012 - traitlets reads it from the class
        "config": "Springtide.config_file",
        "state-dir": "Springtide.state_dir",
        "port": "Springtide.port",
        "log-level": "Springtide.log_level",
    }
    flags = {}  # noqa: RUF012 - traitlets reads it from the class

    config_file = Unicode(
        "", help="A configuration file in Python, with lines such as c.Springtide.port = 8090."
    ).tag(config=True)

    @default("raise_config_file_errors")
    def _default_raise_config_file_errors(self) -> bool:
        return True

    @default("log_level")
    def _default_log_level(self) -> int:
        return logging.INFO

    def configure_from(self, environment: str, arguments: list[str]) -> None:
        """Load the settings: the file's, then the environment's, then the command line's; later ones win.

        Raises `SettingError` for invalid settings.
        """
        try:
            self._configure_from(environment, arguments)
        except TraitError as error:
            raise SettingError(str(error)) from error
        names = self.trait_names(config=True)
        for name in sorted(set(self.config.Springtide) - set(names)):
            close = difflib.get_close_matches(name, names, n=1)
            hint = f"Did you mean {close[0]}?" if close else "--help-all lists all."
            raise SettingError(f"There is no setting Springtide.{name}. {hint}")

    def _configure_from(self, environment: str, arguments: list[str]) -> None:
        self.parse_command_line(arguments)
        from_command_line = Config(self.config)
        self.update_config(Config({"Springtide": _from_environment(environment)}))
        self.update_config(from_command_line)
        if self.config_file:
            before = Config(self.config)
            self._load(Path(self.config_file))
            self.update_config(before)

    def _load(self, file: Path) -> None:
        if not file.is_file():
            raise SettingError(f"There is no configuration file {file}.")
        try:
            self.load_config_file(str(file), path=None)
        except Exception as error:
            raise SettingError(f"The configuration file {file} cannot be read: {error}.") from error

    def exit(self, exit_status: int | str | None = 0) -> NoReturn:
        """Exit the process, as an option of the command line requires."""
        sys.exit(BAD_INPUT if exit_status else 0)

    def values(self) -> dict[str, Any]:
        """Return the values of all settings, by name."""
        return {setting.name: getattr(self, setting.name) for setting in declared(ServiceSettings, *KINDS)}

    def settings(self) -> ServiceSettings:
        """Return the settings of the service, except those of channels."""
        return read(ServiceSettings, self.values())

    def setup(self) -> Setup:
        """Return the set-up of the service. Raises `SettingError` for settings that contradict each other."""
        settings = self.settings()
        return setup_of(settings, Channels.of(settings.messages, self.values()))


def _from_environment(text: str) -> dict[str, Any]:
    """Return the settings of section ``Springtide`` from the text that the hub passes in the environment.

    Raises `SettingError` for text that is no JSON object.
    """
    if not text:
        return {}
    try:
        settings = json.loads(text)
    except ValueError as error:
        raise SettingError(f"{CONFIG_ENV} is not JSON: {error}.") from error
    if not isinstance(settings, dict):
        raise SettingError(f"{CONFIG_ENV} must be a JSON object of settings.")
    return settings


async def _run(setup: Setup) -> None:
    """Serve until a signal to stop, which is obeyed during the start too, or until the hub has ended."""
    leave = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, leave.set)
    async with AsyncExitStack() as stack:
        hub = hub_pid(os.environ)
        if hub is not None:
            stack.callback(when_hub_ends(hub, leave.set))
        starting = asyncio.ensure_future(stack.enter_async_context(Runtime(setup, clock=time.time)))
        left = asyncio.ensure_future(leave.wait())
        await asyncio.wait({starting, left}, return_when=asyncio.FIRST_COMPLETED)
        left.cancel()
        if not starting.done():
            starting.cancel()
            await asyncio.wait({starting})
            return
        await starting.result().serve_until(leave)


def main(arguments: list[str] | None = None) -> int:
    """Run the service and return the exit code: 0 for success, 1 for a failure, 2 for bad input."""
    try:
        app = Springtide()
        app.log.setLevel(logging.ERROR)
        app.configure_from(os.environ.get(CONFIG_ENV, ""), sys.argv[1:] if arguments is None else arguments)
        level: Any = app.log_level
        log_to_stderr(level, app.settings().log_lines)
        asyncio.run(_run(app.setup()))
    except SettingError as error:
        sys.stderr.write(f"springtide: {error}\n")
        return BAD_INPUT
    except StartError as error:
        sys.stderr.write(f"springtide: {error}\n")
        return error.code
    return 0

"""Processes that have imported the pool's service when they begin: this takes two seconds of a processor."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Mapping
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(
    ["springtide.hub_extension.service.service", "springtide.hub_extension.notifications.channels"]
)

pipe = _PROCESSES.Pipe


def begin(
    program: Callable[..., object], *arguments: Any, printed: Path, environment: Mapping[str, str] | None = None
) -> BaseProcess:
    """Start a process that calls the program; what it prints is added to the file.

    It has the environment of this process, unless there is another.
    """
    variables = dict(os.environ if environment is None else environment)
    process = _PROCESSES.Process(target=_call, args=(variables, printed, program, arguments), daemon=True)
    process.start()
    return process


def _call(
    environment: Mapping[str, str], printed: Path, program: Callable[..., object], arguments: tuple[Any, ...]
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    with printed.open("ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    program(*arguments)

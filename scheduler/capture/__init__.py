"""Capture of the program of a job at the moment of submission: for notebooks and for the command line."""

from __future__ import annotations

from springtide.scheduler.capture.command import (
    RUNNER,
    SOURCE_CAP,
    Captured,
    Here,
    capture_command,
    capture_notebook,
    split_command,
)
from springtide.scheduler.capture.errors import CaptureError
from springtide.scheduler.capture.notebook import (
    capture_words,
    check_kernel,
    known_parameters,
    names_notebook,
    with_parameters,
)
from springtide.scheduler.capture.request import environment_shown, submission

__all__ = [
    "RUNNER",
    "SOURCE_CAP",
    "CaptureError",
    "Captured",
    "Here",
    "capture_command",
    "capture_notebook",
    "capture_words",
    "check_kernel",
    "environment_shown",
    "known_parameters",
    "names_notebook",
    "split_command",
    "submission",
    "with_parameters",
]

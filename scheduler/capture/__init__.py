"""Capture of the program of a job at the moment of submission: for notebooks and for the command line."""

from __future__ import annotations

from springtide.scheduler.capture.command import (
    RUNNER,
    SOURCE_CAP,
    Captured,
    Here,
    capture_command,
    capture_notebook,
    capture_words,
    split_command,
)
from springtide.scheduler.capture.errors import CaptureError
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
    "environment_shown",
    "split_command",
    "submission",
]

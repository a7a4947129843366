"""Capture of the program of a job at the moment of submission: for notebooks and for the command line."""

from __future__ import annotations

from springtide.scheduler.capture.command import (
    RUNNER,
    SOURCE_CAP,
    Captured,
    capture_command,
    capture_notebook,
)
from springtide.scheduler.capture.errors import CaptureError
from springtide.scheduler.capture.notebook import (
    capture_words,
    check_kernel,
    names_notebook,
    with_parameters,
)
from springtide.scheduler.capture.parameter_cells import known_parameters
from springtide.scheduler.capture.pauses import pause_words
from springtide.scheduler.capture.place import (
    elsewhere,
    kernel_place,
    terminal_place,
    with_training,
    working_directory,
)
from springtide.scheduler.capture.program import Here, split_command
from springtide.scheduler.capture.request import environment_shown, notes_of, submission, unsent, with_carried
from springtide.scheduler.capture.shell_words import passed_as_they_are
from springtide.scheduler.capture.variables import uncarried_words

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
    "elsewhere",
    "environment_shown",
    "kernel_place",
    "known_parameters",
    "names_notebook",
    "notes_of",
    "passed_as_they_are",
    "pause_words",
    "split_command",
    "submission",
    "terminal_place",
    "uncarried_words",
    "unsent",
    "with_carried",
    "with_parameters",
    "with_training",
    "working_directory",
]

"""The error of a capture."""

from __future__ import annotations


class CaptureError(Exception):
    """A part of the program cannot be sent, so nothing was submitted. The message names it and gives a hint."""

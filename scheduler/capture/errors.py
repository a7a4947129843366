"""What cannot be sent."""

from __future__ import annotations


class CaptureError(Exception):
    """Something cannot be sent, so nothing has been submitted. The message names it and the way out."""

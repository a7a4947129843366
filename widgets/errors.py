"""Errors of a notebook.

IPython shows each as its message alone: a user's mistake is answered with a sentence, not with a traceback through
this package.
"""

from __future__ import annotations

from springtide.scheduler import capture


class SpringtideError(Exception):
    """An error that the user can correct. The message names its cause and has a hint."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


class CaptureError(SpringtideError, capture.CaptureError):
    """The work cannot be sent: nothing has been submitted."""


class OptionError(SpringtideError, ValueError):
    """An option of ``submit`` is invalid: nothing has been submitted."""


class NotOnHubError(SpringtideError):
    """There is no pool: this notebook does not run on a hub with Springtide."""


class NotFinishedError(SpringtideError, TimeoutError):
    """The job has not ended in the time given, so there is no result yet."""


class NoResultError(SpringtideError):
    """The job ended without the requested result."""


class DownloadError(SpringtideError, OSError):
    """A file of a job could not be saved here."""


class MissingPackageError(SpringtideError, ImportError):
    """A package that is not needed otherwise is not installed here."""


class NotInstalledError(SpringtideError):
    """Packages cannot be installed into the environment of this kernel."""


class UntrustedResultError(SpringtideError):
    """The result was written by the job of another person; loading it would run that person's code here."""


class JobCancelledError(SpringtideError):
    """The job was cancelled, so it has no result."""


class JobFailedError(SpringtideError):
    """The job failed. ``traceback`` is the traceback that its process printed, if it was Python that failed."""

    def __init__(self, message: str, traceback: str = "") -> None:
        super().__init__(message)
        self.traceback = traceback

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message}\n\nIn the job:\n{self.traceback.rstrip()}" if self.traceback else message

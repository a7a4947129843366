"""Jobs sent from a page: a script or a notebook that lies below the notebook server's own directory."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from springtide.scheduler.capture import CaptureError, Here
from springtide.scheduler.client import PoolError, Unreachable
from springtide.scheduler.wire import Problem
from springtide.scheduler.wording import quoted
from springtide.widgets.errors import OptionError, SpringtideError
from springtide.widgets.job import Job
from springtide.widgets.server_extension.pool_gate import GateError
from springtide.widgets.shared_pool import Pool
from springtide.widgets.submission.capture import capture

SUFFIXES: Final = (".ipynb", ".py")


class Sending(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a page sends: a file by its path below the server's directory, with options of a job."""

    path: str
    options: dict[str, Any] = {}


class Sent(msgspec.Struct, frozen=True):
    """The job that was accepted, and what its user should know."""

    id: str
    notes: list[str]


def read(body: bytes) -> Sending:
    """Return the request. Raise `GateError`."""
    try:
        return msgspec.json.decode(body, type=Sending)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        message = f"The request is not readable: {error}."
        raise GateError(Problem(status=422, code="invalid", message=message)) from None


def send(request: Sending, root: Path, pool: Pool) -> Sent:
    """Send the file as it was last saved, and return when the job is on disk. Raise `GateError`."""
    file = locate(request.path, root)
    try:
        job: Job = pool.send(capture(Path(file.name), (), {}, Here(file.parent, sys.executable)), request.options)
    except PoolError as error:
        raise GateError(error.problem) from None
    except Unreachable as error:
        raise GateError(Problem(status=503, code="unreachable", message=str(error))) from None
    except (CaptureError, OptionError) as error:
        raise GateError(Problem(status=422, code="not_sent", message=str(error))) from None
    except SpringtideError as error:
        raise GateError(Problem(status=503, code="no_pool", message=str(error))) from None
    return Sent(job.id, list(job.notes))


def locate(path: str, root: Path) -> Path:
    """Return the script or notebook that the path names below ``root``. Raise `GateError` for any other."""
    try:
        top = root.expanduser().resolve()
        file = (top / path.lstrip("/")).resolve()
        is_there = file.is_relative_to(top) and file.is_file()
    except (OSError, ValueError):
        is_there = False
    if not is_there:
        message = f"There is no file {quoted(path[:200])} below the directory of this notebook server."
        raise GateError(Problem(status=404, code="not_found", message=message))
    if file.suffix not in SUFFIXES:
        message = f"{quoted(file.name)} is neither a Python script nor a notebook."
        hint = "Send it by a command, with pool.submit or `springtide submit`."
        raise GateError(Problem(status=422, code="not_sent", message=message, hint=hint))
    return file

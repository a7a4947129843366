"""The supervisor's tasks as process 1 of a pod."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Any

REFUSED = 126
"""Exit code for a worker that could not be started."""
RAN_ALREADY = 70
"""Exit code of a supervisor whose worker has run before."""
SIGNALLED = 128
"""Base of the exit codes of workers that a signal killed; the number of the signal is added."""
LONGEST_MESSAGE = 3500
"""Maximum size of a termination message, in bytes; the cluster keeps 4096."""


def in_pod(spec: dict[str, Any], worker: dict[str, Any]) -> dict[str, str]:
    """Return a worker's environment: that of its image, overridden by the job's and by its index in the gang.

    GPUs that a device plugin allocated by name are made visible to CUDA under these names.
    """
    gang = {name: value.replace("{place}", str(worker["place"])) for name, value in spec["gang"].items()}
    environment = {**os.environ, **spec["env"], **gang}
    given = os.environ.get("NVIDIA_VISIBLE_DEVICES", "")
    if given.startswith(("GPU-", "MIG-")):
        environment["CUDA_VISIBLE_DEVICES"] = environment["NVIDIA_VISIBLE_DEVICES"] = given
    return environment


def copy_output(data: bytes) -> None:
    """Copy output of the worker to standard output; output that cannot be written now is only in the log."""
    with suppress(OSError):
        os.set_blocking(1, False)
        os.write(1, data)


def write_termination_message(path: str, ended: dict[str, Any]) -> None:
    """Write the exit record as the pod's termination message."""
    message = json.dumps({**ended, "detail": ended["detail"][: LONGEST_MESSAGE // 4]}).encode()
    with suppress(OSError):
        file = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        os.write(file, message)
        os.close(file)


def exit_code(ended: dict[str, Any]) -> int:
    """Return the exit code of the supervisor: that of the job, as a shell returns it."""
    if ended["kind"] != "exited":
        return REFUSED
    if ended["signal"] is not None:
        return SIGNALLED + int(ended["signal"])
    return int(ended["code"] or 0)

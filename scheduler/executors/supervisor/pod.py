"""What is different where the supervisor is process 1 of a pod."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Any

REFUSED = 126
"""The exit code of a worker that could not be started."""
RAN_ALREADY = 70
"""The exit code of a supervisor that found that its worker had run before."""
SIGNALLED = 128
LONGEST_MESSAGE = 3500
"""Bytes of a termination message; the cluster keeps 4096."""


def in_pod(spec: dict[str, Any], worker: dict[str, Any]) -> dict[str, str]:
    """What a worker finds: the environment of its image, over it the job's, over that its place in the gang.

    GPUs that a device plugin gave by name are shown to CUDA by these names.
    """
    gang = {name: value.replace("{place}", str(worker["place"])) for name, value in spec["gang"].items()}
    environment = {**os.environ, **spec["env"], **gang}
    given = os.environ.get("NVIDIA_VISIBLE_DEVICES", "")
    if given.startswith(("GPU-", "MIG-")):
        environment["CUDA_VISIBLE_DEVICES"] = environment["NVIDIA_VISIBLE_DEVICES"] = given
    return environment


def pass_on(data: bytes) -> None:
    """Print what the worker printed, as far as somebody takes it: its log has it all."""
    with suppress(OSError):
        os.set_blocking(1, False)
        os.write(1, data)


def tell(path: str, ended: dict[str, Any]) -> None:
    """Leave the exit record as the pod's termination message."""
    message = json.dumps({**ended, "detail": ended["detail"][: LONGEST_MESSAGE // 4]}).encode()
    with suppress(OSError):
        file = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        os.write(file, message)
        os.close(file)


def exit_code(ended: dict[str, Any]) -> int:
    """The code to leave with: that of the job, as a shell would tell it."""
    if ended["kind"] != "exited":
        return REFUSED
    if ended["signal"] is not None:
        return SIGNALLED + int(ended["signal"])
    return int(ended["code"] or 0)

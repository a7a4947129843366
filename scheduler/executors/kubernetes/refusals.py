"""What it means that the API refuses an object of an attempt; pure."""

from __future__ import annotations

import re

from springtide.scheduler.executors.base import ExitKind
from springtide.scheduler.executors.kubernetes.attempts import Verdict
from springtide.scheduler.kube import ApiError
from springtide.scheduler.model import Block, BlockScope

UNAUTHORIZED = 401
TOO_LARGE = 413
INVALID = 422
TOO_MANY_REQUESTS = 429

_INVALID_IMAGE = re.compile(r"\bspec\.containers\[0\]\.image\b")
_NAMED = (
    re.compile(r"exceeded quota: (?P<name>[^,]+)"),
    re.compile(r"admission webhook \"(?P<name>[^\"]+)\" denied"),
    re.compile(r"failed calling webhook \"(?P<name>[^\"]+)\""),
    re.compile(r"ValidatingAdmissionPolicy '(?P<name>[^']+)'"),
    re.compile(r"violates PodSecurity \"(?P<name>[^\"]+)\""),
)
"""Messages that name what refuses an object; the rest of them differs from object to object."""
_VARIABLE = re.compile(r"\"[^\"]*\"|'[^']*'|\d+(\.\d+)?")
"""Names and quantities in a message, which differ from object to object."""


def verdict_of(error: ApiError) -> Verdict:
    """Return how an attempt ends of which the API refuses an object.

    The job is to blame only for an object that no cluster takes: with an image name that is none, or too large.
    """
    detail = f"The cluster refused the job's pod: {error.message}"
    if error.status == TOO_LARGE or (error.status == INVALID and _INVALID_IMAGE.search(error.message)):
        return Verdict(ExitKind.REFUSED, detail)
    return Verdict(ExitKind.BLOCKED, detail, block=Block(BlockScope.POOL, _cause(error), checkable=True))


def says_nothing(error: ApiError) -> bool:
    """Return whether the answer to a dry run does not tell what a creation would be answered."""
    return error.status in (0, UNAUTHORIZED, TOO_MANY_REQUESTS)


def _cause(error: ApiError) -> str:
    """Return what the same refusals of different objects have in common."""
    named = next((found for each in _NAMED if (found := each.search(error.message))), None)
    return named.group() if named is not None else _VARIABLE.sub("#", error.message)

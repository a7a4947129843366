"""Credentials of running attempts, with which their programs use the pool's API."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from springtide.scheduler.executors.base import AttemptKey
from springtide.scheduler.executors.files.plain import replace_file

CREDENTIAL: Final = "credential"
"""Name of the file with an attempt's credential, in the directory of the attempt."""
PREFIX: Final = "springtide-job"
LONGEST: Final = 400


@dataclass(frozen=True, slots=True)
class Credentials:
    """Issues and verifies the credentials of attempts, which are signed with ``key`` and stored nowhere.

    A credential proves which attempt its holder is; whether that attempt still runs, the engine knows. ``url`` is
    the address at which jobs reach the service, without ``/api/v1``.
    """

    url: str
    key: bytes = field(repr=False)

    def token(self, attempt: AttemptKey) -> str:
        """Return the credential of an attempt."""
        return f"{PREFIX}:{attempt.job}:{attempt.attempt}:{self._signature(attempt)}"

    def attempt(self, token: str) -> AttemptKey | None:
        """Return the attempt that a credential was issued to, None for any other text."""
        parts = token.split(":") if len(token) <= LONGEST and token.isascii() else []
        if len(parts) != 4 or parts[0] != PREFIX or not parts[2].isdecimal():
            return None
        attempt = AttemptKey(parts[1], int(parts[2]))
        return attempt if hmac.compare_digest(self.token(attempt), token) else None

    def write(self, attempt: AttemptKey, directory: Path, owner: tuple[int, int] | None) -> None:
        """Write the credential of an attempt into its directory, readable by ``owner`` alone.

        Raises `ExecutorError` if a directory is in its place, `OSError` if the disk cannot be written to.
        """
        replace_file(directory, CREDENTIAL, self.token(attempt).encode(), owner)

    def variables(self, directory: Path) -> dict[str, str]:
        """Return the variables of the pool's client; ``directory`` is the attempt's, as seen by the job."""
        return {"SPRINGTIDE_URL": self.url, "SPRINGTIDE_TOKEN_FILE": str(directory / CREDENTIAL)}

    def _signature(self, attempt: AttemptKey) -> str:
        message = f"{PREFIX}\0{attempt.job}\0{attempt.attempt}".encode()
        return hmac.new(self.key, message, hashlib.sha256).hexdigest()


def is_credential(token: str) -> bool:
    """Return whether a text claims to be the credential of an attempt."""
    return token.startswith(f"{PREFIX}:")

"""The files of secrets, read when a job is accepted: one that lacks them would fail only at its start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from springtide.scheduler import wording
from springtide.scheduler.declared import NamedSecret
from springtide.scheduler.executors.supervisor.secret_files import read_secret
from springtide.scheduler.refusal import Refusal


def check_files(names: Iterable[str], declared: Mapping[str, NamedSecret]) -> None:
    """Raise `Refusal` 422 for a secret whose file on this machine cannot be read now; it blocks."""
    for name in names:
        secret = declared.get(name)
        if secret is None or not secret.file:
            continue
        try:
            read_secret(secret.file)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise Refusal(
                422,
                "secret",
                f"The file of the secret {wording.given(name)} cannot be read: {why}.",
                field="secrets",
                hint="An admin of the pool has to correct it; springtide doctor names the fault.",
            ) from None

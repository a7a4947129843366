"""Names of former users of JupyterHub, so that later users of the same name inherit nothing."""

from __future__ import annotations

LONGEST_NAME = 200


def former_name(name: str, identity: str) -> str:
    """Return the name under which a former user's data is kept.

    ``identity`` is the time at which the user was created, in ISO 8601: the hub keeps it when it renames a user,
    and gives another one to another user of the same name.
    """
    created = identity.partition(".")[0].removesuffix("Z").replace("T", " ")
    return f"{name[:LONGEST_NAME]} (former, {created})"

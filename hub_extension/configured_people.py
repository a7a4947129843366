"""What a hub's configuration says about people, as settings of the service."""

from __future__ import annotations

from typing import Any

from traitlets.config import Config
from traitlets.config.loader import LazyConfigValue

from springtide.hub_extension.group_rules import LEAD_ROLE
from springtide.hub_extension.web.auth import PROJECT_ADMIN_SCOPE


def people_settings(c: Config) -> dict[str, object]:
    """Return the settings that follow from a hub's configuration; those about groups and leads if there are any.

    The administrators are notified of faults; groups and leads are shown, and the pool leaves them alone.
    """
    sections = [section for name, section in c.items() if name.endswith("Authenticator")]
    groups = {
        str(name): sorted(contents.get("users", ()) if isinstance(contents, dict) else contents)
        for name, contents in value_of(c.JupyterHub, "load_groups", {}).items()
    }
    roles = [
        {"name": role.get("name", ""), **{key: sorted(role.get(key, ())) for key in ("scopes", "users", "groups")}}
        for role in value_of(c.JupyterHub, "load_roles", [])
        if any(str(scope).startswith(PROJECT_ADMIN_SCOPE) for scope in role.get("scopes", ()))
        and not str(role.get("name", "")).startswith(LEAD_ROLE)
    ]
    found = {
        "managed_groups": any(value_of(section, "manage_groups", False) for section in sections),
        "configured_groups": {name: people for name, people in groups.items() if people},
        "configured_roles": roles,
    }
    admins = sorted({user for section in sections for user in value_of(section, "admin_users", set())})
    return {"fault_recipients": admins, **{name: value for name, value in found.items() if value}}


def value_of(section: Config, name: str, default: Any) -> Any:
    """Return the value that the file has set; additions of the file are applied to ``default``."""
    value = section.get(name, default)
    return value.get_value(default) if isinstance(value, LazyConfigValue) else value

"""Springtide on a JupyterHub, in two lines of its configuration.

In ``jupyterhub_config.py``::

    from springtide.hub_extension import configure
    configure(c)

What the file says already is extended, never overwritten.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from inspect import isawaitable
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from jupyterhub.app import JupyterHub
from traitlets.config import Config
from traitlets.config.loader import LazyConfigValue
from traitlets.utils.importstring import import_item

from springtide.hub_extension.auth import ADMIN_SCOPE, OAUTH_SCOPES, SERVICE_SCOPES
from springtide.hub_extension.state_dir import LOOPBACK, StateDir

SERVICE = "springtide"
WITH_QUOTA = "springtide.spawner.choice.with_quota"
"""What puts the build quota into a spawner class; by name, as the hub itself finds spawners."""
ACCESS = f"access:services!service={SERVICE}"
SERVER_SCOPES = ("users:activity!user", "access:servers!server")
"""What a notebook's token may do where nobody says otherwise."""

Scopes: TypeAlias = "list[str] | Callable[[Any], list[str] | Awaitable[list[str]]]"


def configure(c: Config, **overrides: object) -> None:
    """Make a hub offer Springtide: the service, who may use it, and notebooks with a build quota.

    Settings are ``c.Springtide.<name>``; ``overrides`` go before them. Calling it again changes what the first
    call made. Raises `StateError` if the state directory cannot be used.
    """
    settings = c.Springtide
    settings.update(overrides)
    state = StateDir(Path(str(settings.get("state_dir") or "springtide-state")))
    settings.state_dir = str(state.path)
    if not settings.get("port"):
        settings.port = state.ports([SERVICE])[SERVICE]
    url = f"http://{LOOPBACK}:{settings.port}{_base_url(c)}services/{SERVICE}"
    token = state.secret("service-token")

    _register_service(c, token)
    grant_to_users(c, [ACCESS], known=JupyterHub.class_trait_names())
    _grant_to_notebooks(c, [ACCESS])
    _extend(c.JupyterHub, "custom_scopes", {ADMIN_SCOPE: {"description": "Administer the pool of GPUs"}})
    c.JupyterHub.spawner_class = import_item(WITH_QUOTA)(c.JupyterHub.get("spawner_class"))
    _extend(c.Spawner, "environment", {"SPRINGTIDE_URL": str(settings.get("notebook_url") or url)})
    c.BuildQuota.service_url = url
    c.BuildQuota.token_file = str(state.path / "service-token")


def _register_service(c: Config, token: str) -> None:
    settings: dict[str, object] = {name: value for name, value in c.Springtide.items() if name != "notebook_url"}
    service = {
        "name": SERVICE,
        "url": f"http://{LOOPBACK}:{c.Springtide.port}",
        "command": [sys.executable, "-m", "springtide.hub_extension"],
        "environment": {"SPRINGTIDE_CONFIG": json.dumps(settings)},
        "api_token": token,
        "oauth_client_allowed_scopes": list(OAUTH_SCOPES),
        "oauth_no_confirm": True,
    }
    role = {
        "name": SERVICE,
        "description": "What Springtide needs of the hub: who is in which project, and which notebooks run",
        "services": [SERVICE],
        "scopes": list(SERVICE_SCOPES),
    }
    c.JupyterHub.services = _with(_value(c.JupyterHub, "services", []), service)
    c.JupyterHub.load_roles = _with(_value(c.JupyterHub, "load_roles", []), role)


def _with(entries: list[dict[str, Any]], entry: dict[str, Any]) -> list[dict[str, Any]]:
    """The entries with this one among them, in the place of an earlier one of its name."""
    changed = [entry if other.get("name") == entry["name"] else other for other in entries]
    return changed if entry in changed else [*changed, entry]


def grant_to_users(c: Config, scopes: Iterable[str], *, known: Collection[str]) -> None:
    """Give ``scopes`` to every user; ``known`` are the hub's settings, which differ between its versions.

    A redefined role ``user`` is what counts wherever there is one; else JupyterHub 6 has a setting of its own,
    and JupyterHub 5 needs the role redefined.
    """
    roles: list[dict[str, Any]] = _value(c.JupyterHub, "load_roles", [])
    role = next((role for role in roles if role.get("name") == "user"), None)
    if role is not None and "scopes" in role:
        role["scopes"] = _union(role["scopes"], scopes)
    elif "extra_user_scopes" in known:
        c.JupyterHub.extra_user_scopes = {*_value(c.JupyterHub, "extra_user_scopes", set()), *scopes}
    elif role is not None:
        role["scopes"] = _union(["self"], scopes)
    else:
        roles = [*roles, {"name": "user", "scopes": _union(["self"], scopes)}]
    if roles:
        c.JupyterHub.load_roles = roles


def _grant_to_notebooks(c: Config, scopes: Iterable[str]) -> None:
    configured = _value(c.Spawner, "server_token_scopes", [])
    if callable(configured):
        c.Spawner.server_token_scopes = _also(configured, scopes)
        return
    roles = _value(c.JupyterHub, "load_roles", [])
    of_role = next((role["scopes"] for role in roles if role.get("name") == "server" and "scopes" in role), None)
    c.Spawner.server_token_scopes = _union(configured or of_role or SERVER_SCOPES, scopes)


def _also(configured: Callable[[Any], Any], scopes: Iterable[str]) -> Callable[[Any], Awaitable[list[str]]]:
    async def server_token_scopes(spawner: Any) -> list[str]:
        own = configured(spawner)
        return _union(await own if isawaitable(own) else own, scopes)

    return server_token_scopes


def _base_url(c: Config) -> str:
    """The path under which the hub's proxy serves, with a slash at both ends."""
    bind_url = urlsplit(str(c.JupyterHub.get("bind_url") or ""))
    path = str(c.JupyterHub.get("base_url") or bind_url.path).strip("/")
    return f"/{path}/" if path else "/"


def _value(section: Config, name: str, default: Any) -> Any:
    """What the file has set, with what it has only added to the hub's default."""
    value = section.get(name, default)
    return value.get_value(default) if isinstance(value, LazyConfigValue) else value


def _extend(section: Config, name: str, entries: Mapping[str, object]) -> None:
    section[name] = {**_value(section, name, {}), **entries}


def _union(first: Iterable[str], second: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*first, *second]))

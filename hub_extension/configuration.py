"""Springtide on a JupyterHub, in two lines of its configuration.

In ``jupyterhub_config.py``::

    from springtide.hub_extension import configure
    configure(c)

What the file says already is extended, never overwritten. A service ``springtide`` that the file lists with its
``url`` and ``api_token`` runs by itself, as on Kubernetes, and has settings of its own; else the hub runs it here.
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
    call made. Raises `StateError` if the state directory cannot be used, and `ValueError` for a service that runs
    by itself and has no token.
    """
    settings = c.Springtide
    settings.update(overrides)
    elsewhere = _running_by_itself(c)
    if elsewhere is None:
        state = StateDir(Path(str(settings.get("state_dir") or "springtide-state")))
        settings.state_dir = str(state.path)
        if not settings.get("port"):
            settings.port = state.ports([SERVICE])[SERVICE]
        address, token = f"http://{LOOPBACK}:{settings.port}", state.secret("service-token")
        c.BuildQuota.token_file = str(state.path / "service-token")
        _register(c, _managed(c, address, token))
    else:
        address, token = str(elsewhere["url"]).rstrip("/"), str(elsewhere["api_token"])
        c.BuildQuota.token = token
        _register(c, elsewhere)
    url = f"{address}{_base_url(c)}services/{SERVICE}"

    spawner = c.JupyterHub.spawner_class = import_item(WITH_QUOTA)(c.JupyterHub.get("spawner_class"))
    grant_to_users(c, [ACCESS], known=JupyterHub.class_trait_names())
    _grant_to_notebooks(c, _section(c, spawner, "server_token_scopes"), [ACCESS])
    _extend(c.JupyterHub, "custom_scopes", {ADMIN_SCOPE: {"description": "Administer the pool of GPUs"}})
    told = {"SPRINGTIDE_URL": str(settings.get("notebook_url") or url)}
    _extend(_section(c, spawner, "environment"), "environment", told)
    c.BuildQuota.service_url = url


def _running_by_itself(c: Config) -> dict[str, Any] | None:
    """The file's own entry for the service, None if the hub is to run it. Raises `ValueError` without a token."""
    entries = _value(c.JupyterHub, "services", [])
    entry = next((entry for entry in entries if entry.get("name") == SERVICE and "command" not in entry), None)
    if entry is None:
        return None
    for key in ("url", "api_token"):
        if not entry.get(key):
            raise ValueError(
                f"The service {SERVICE!r} in c.JupyterHub.services has no {key}. Give it url and api_token where "
                "it runs by itself, as on Kubernetes; leave the entry out where this hub is to run it."
            )
    return dict(entry)


def _managed(c: Config, address: str, token: str) -> dict[str, Any]:
    settings: dict[str, object] = {name: value for name, value in c.Springtide.items() if name != "notebook_url"}
    return {
        "name": SERVICE,
        "url": address,
        "command": [sys.executable, "-m", "springtide.hub_extension"],
        "environment": {"SPRINGTIDE_CONFIG": json.dumps(settings)},
        "api_token": token,
    }


def _register(c: Config, service: dict[str, Any]) -> None:
    """Let the hub know the service, let people log in to it, and let it read who is in which project."""
    service = {"oauth_client_allowed_scopes": list(OAUTH_SCOPES), "oauth_no_confirm": True, **service}
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


def _section(c: Config, cls: type, setting: str) -> Config:
    """The section whose ``setting`` counts for a spawner class: the most special one that has it."""
    names = (base.__name__ for base in cls.__mro__)
    section: Config = next((c[name] for name in names if f"{name}.{setting}" in c), c.Spawner)
    return section


def _grant_to_notebooks(c: Config, section: Config, scopes: Iterable[str]) -> None:
    configured = _value(section, "server_token_scopes", [])
    if callable(configured):
        section.server_token_scopes = _also(configured, scopes)
        return
    roles = _value(c.JupyterHub, "load_roles", [])
    of_role = next((role["scopes"] for role in roles if role.get("name") == "server" and "scopes" in role), None)
    section.server_token_scopes = _union(configured or of_role or SERVER_SCOPES, scopes)


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

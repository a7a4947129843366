"""Installation of Springtide on a JupyterHub by two lines of its configuration.

In ``jupyterhub_config.py``::

    from springtide.hub_extension import configure
    configure(c)

Settings of the file are extended, never overwritten. A service ``springtide`` that the file lists with its ``url``
and ``api_token`` runs by itself, as on Kubernetes, and has its own settings; otherwise the hub runs the service.
"""

from __future__ import annotations

import html
import json
import os
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from inspect import isawaitable
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from jupyterhub import roles
from jupyterhub.apihandlers.base import APIHandler
from jupyterhub.app import JupyterHub
from jupyterhub.handlers.base import BaseHandler
from jupyterhub.scopes import scope_definitions
from jupyterhub.services.service import Service
from jupyterhub.spawner import SimpleLocalProcessSpawner
from traitlets.config import Config
from traitlets.log import get_logger
from traitlets.utils.importstring import import_item

from springtide.hub_extension.accounts import shared_notice, whose_accounts
from springtide.hub_extension.configured_people import people_settings, value_of
from springtide.hub_extension.group_rules import declared_rules, lead_roles, with_projects
from springtide.hub_extension.late_settings import refuse_late_settings
from springtide.hub_extension.local_hub.orphans import HUB_PID, STATE_DIR
from springtide.hub_extension.local_hub.state_dir import LOOPBACK, StateDir
from springtide.hub_extension.web.auth import (
    ADMIN_SCOPE,
    CUSTOM_SCOPES,
    OAUTH_SCOPES,
    PROJECT_ADMIN_SCOPE,
    SERVICE,
    SERVICE_SCOPES,
    STOP_SCOPE,
)
from springtide.scheduler.executors.accounts import DEFAULT_UIDS, MACHINE, AccountError, Accounts
from springtide.scheduler.settings import SettingError
from springtide.scheduler.wire import GroupRule
from springtide.scheduler.wording import given

WITH_QUOTA = "springtide.spawner.choice.with_quota"
"""Import path of `with_quota`, which adds the build quota to a spawner class."""
ACCESS = f"access:services!service={SERVICE}"
STARTS_WITHIN_S = 180
"""Time in which the service has to answer after the hub has started it, in seconds. From JupyterHub 6 on.

JupyterHub's own limit of 30 s ends the hub of a machine on which other programs take the processor at its start.
"""
SERVER_SCOPES = ("users:activity!user", "access:servers!server")
"""Default scopes of a notebook's token."""

Scopes: TypeAlias = "list[str] | Callable[[Any], list[str] | Awaitable[list[str]]]"


def configure(c: Config, **overrides: object) -> None:
    """Configure a hub for Springtide: the service, the permission to use it, and notebooks with a build quota.

    Settings are ``c.Springtide.<name>``; ``overrides`` take precedence over them. A second call changes the
    configuration of the first. Raises `StateError` if the state directory cannot be used, and `ValueError` for a
    service that runs by itself without ``url`` or ``api_token``, for notebooks whose tokens would administer the
    pool, and for rules for groups that are wrong or that nothing applies. Exits with a message if jobs would run
    as the hub's account and the admin has not permitted that, and once the hub has read its whole configuration
    if settings after this call undo it.
    """
    _configure(c, overrides)
    refuse_late_settings(c, lambda final: _configure(final, overrides))


def _configure(c: Config, overrides: Mapping[str, object]) -> None:
    settings = c.Springtide
    settings.update(overrides)
    _allow_subdomains(c)
    _close_hub_pages(c)
    _follow_group_rules(c)
    spawner = c.JupyterHub.spawner_class = import_item(WITH_QUOTA)(c.JupyterHub.get("spawner_class"))
    elsewhere = _running_by_itself(c)
    if elsewhere is None:
        state = StateDir(Path(str(settings.get("state_dir") or "springtide-state")))
        settings.state_dir = str(state.path)
        if settings.get("executor") != "kubernetes":
            _choose_accounts(c, state, spawner)
            c.BuildQuota.state_dir = str(state.path)
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

    grant_to_users(c, [ACCESS], known=JupyterHub.class_trait_names())
    grant_to_admins()
    _grant_to_notebooks(c, _section(c, spawner, "server_token_scopes"), [ACCESS])
    _extend(c.JupyterHub, "custom_scopes", CUSTOM_SCOPES)
    variables = {"SPRINGTIDE_URL": str(settings.get("notebook_url") or url), "SPRINGTIDE_PAGES": _pages_url(c)}
    _extend(_section(c, spawner, "environment"), "environment", variables)
    if "default_url" not in c.JupyterHub or isinstance(c.JupyterHub.default_url, FirstPage):
        c.JupyterHub.default_url = FirstPage(variables["SPRINGTIDE_PAGES"])
    c.BuildQuota.service_url = url


def _choose_accounts(c: Config, state: StateDir, spawner: type) -> None:
    """Choose the accounts that jobs and notebooks run as, and warn on the login page if they are shared."""
    settings = c.Springtide
    try:
        settings.accounts = whose_accounts(settings.get("accounts"), root=os.geteuid() == 0)
        if settings.accounts == "own":
            _check_homes(c, state, spawner)
            uids = tuple(settings.get("account_uids") or DEFAULT_UIDS)
            registry = Path(str(settings.get("uid_registry") or MACHINE)).expanduser().absolute()
            Accounts(state.path, uids, registry).prepare()
            c.LocalNotebook.accounts_dir = str(state.path)
            c.LocalNotebook.account_uids = uids
            c.LocalNotebook.uid_registry = str(registry)
            return
    except AccountError as error:
        sys.exit(f"springtide: {error}")
    get_logger().warning("%s", shared_notice())
    notice = html.escape(shared_notice())
    template_vars = value_of(c.JupyterHub, "template_vars", {})
    before = str(template_vars.get("announcement_login", ""))
    if notice not in before:
        _extend(c.JupyterHub, "template_vars", {"announcement_login": f"{before} {notice}".strip()})


def _check_homes(c: Config, state: StateDir, spawner: type) -> None:
    """Exit with a message if the file names other homes than those of the accounts."""
    if not issubclass(spawner, SimpleLocalProcessSpawner):
        return
    template = _section(c, spawner, "home_dir_template").get("home_dir_template")
    if template is not None and Path(str(template)) != state.homes / "{username}":
        sys.exit(
            f"springtide: home_dir_template is {given(template)}, but notebooks run as accounts of their own. "
            f"Their homes are those of this machine's accounts, else {state.homes / '<user>'}. Remove it, "
            "and give people accounts with these homes (useradd --home-dir), or move their files; or set "
            'c.Springtide.accounts = "shared", with which all notebooks run as the hub\'s account.'
        )


def _running_by_itself(c: Config) -> dict[str, Any] | None:
    """Return the file's entry for a service that runs by itself; None if the hub is to run the service.

    Raises `ValueError` for an entry without ``url`` or ``api_token``.
    """
    entries = value_of(c.JupyterHub, "services", [])
    entry = next((entry for entry in entries if entry.get("name") == SERVICE and "command" not in entry), None)
    if entry is None:
        return None
    for key in ("url", "api_token"):
        if not entry.get(key):
            raise ValueError(
                f"The service {given(SERVICE)} in c.JupyterHub.services has no {key}. Give it url and api_token "
                "if it runs by itself, as on Kubernetes; leave the entry out if this hub is to run it."
            )
    return dict(entry)


def _managed(c: Config, address: str, token: str) -> dict[str, Any]:
    settings: dict[str, object] = {name: value for name, value in c.Springtide.items() if name != "notebook_url"}
    settings = {**people_settings(c), **settings}
    patience = {"timeout": STARTS_WITHIN_S} if "timeout" in Service.class_trait_names() else {}
    return {
        **patience,
        "name": SERVICE,
        "url": address,
        "command": [sys.executable, "-m", "springtide.hub_extension"],
        "environment": {
            "SPRINGTIDE_CONFIG": json.dumps(settings),
            STATE_DIR: str(settings["state_dir"]),
            HUB_PID: str(os.getpid()),
        },
        "api_token": token,
    }


def _register(c: Config, service: dict[str, Any]) -> None:
    """Register the service on the hub, with its OAuth scopes and its role.

    The role permits reading only, unless ``c.Springtide.stop_idle_workspaces`` permits to stop notebook servers.
    """
    service = {"oauth_client_allowed_scopes": list(OAUTH_SCOPES), "oauth_no_confirm": True, **service}
    role = {
        "name": SERVICE,
        "description": "What Springtide needs of the hub: who is in which project, and which notebooks run",
        "services": [SERVICE],
        "scopes": [*SERVICE_SCOPES, *([STOP_SCOPE] if c.Springtide.get("stop_idle_workspaces") else [])],
    }
    c.JupyterHub.services = _with(value_of(c.JupyterHub, "services", []), service)
    c.JupyterHub.load_roles = _with(value_of(c.JupyterHub, "load_roles", []), role)


def _with(entries: list[dict[str, Any]], entry: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the entries with this one added, in place of an earlier entry with the same name."""
    changed = [entry if other.get("name") == entry["name"] else other for other in entries]
    return changed if entry in changed else [*changed, entry]


def grant_to_users(c: Config, scopes: Iterable[str], *, known: Collection[str]) -> None:
    """Grant ``scopes`` to every user; ``known`` are the names of this hub's settings, which depend on its version.

    A redefined role ``user`` takes precedence if there is one; otherwise JupyterHub 6 has a setting for this, and
    JupyterHub 5 needs the role redefined.
    """
    loaded: list[dict[str, Any]] = value_of(c.JupyterHub, "load_roles", [])
    role = next((role for role in loaded if role.get("name") == "user"), None)
    if role is not None and "scopes" in role:
        role["scopes"] = _union(role["scopes"], scopes)
    elif "extra_user_scopes" in known:
        c.JupyterHub.extra_user_scopes = {*value_of(c.JupyterHub, "extra_user_scopes", set()), *scopes}
    elif role is not None:
        role["scopes"] = _union(["self"], scopes)
    else:
        loaded = [*loaded, {"name": "user", "scopes": _union(["self"], scopes)}]
    if loaded:
        c.JupyterHub.load_roles = loaded


def grant_to_admins() -> None:
    """Grant the hub's administrators the scope that administers the pool, if this hub defines it.

    JupyterHub has no setting for this, and refuses another definition of its role ``admin`` in ``load_roles``.
    Therefore the definition is extended in the hub's process, which reads the configuration: a user who gains or
    loses the role gains or loses the scope.
    """
    roles.get_default_roles = _roles_with_admin_scope


_default_roles = roles.get_default_roles


def _roles_with_admin_scope() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = _default_roles()
    if ADMIN_SCOPE in scope_definitions:
        next(role for role in found if role["name"] == "admin")["scopes"].append(ADMIN_SCOPE)
    return found


@dataclass(frozen=True, slots=True)
class FirstPage:
    """Where people arrive who log in and asked for no other page: administrators at their home page.

    All others arrive where JupyterHub has them arrive. ``pages`` is the address of the pool's pages.
    """

    pages: str

    def __call__(self, handler: Any) -> str:
        """Return the address of a user's first page, empty for that of JupyterHub."""
        user = handler.current_user
        return f"{self.pages.rstrip('/')}/home" if user is not None and user.admin else ""


def _section(c: Config, cls: type, setting: str) -> Config:
    """Return the section whose ``setting`` applies to a spawner class: the most specific one that has it."""
    names = (base.__name__ for base in cls.__mro__)
    section: Config = next((c[name] for name in names if f"{name}.{setting}" in c), c.Spawner)
    return section


def _grant_to_notebooks(c: Config, section: Config, scopes: Iterable[str]) -> None:
    configured = value_of(section, "server_token_scopes", [])
    if isinstance(configured, _GrantedScopes):
        return
    if callable(configured):
        section.server_token_scopes = _GrantedScopes(configured, tuple(scopes))
        return
    loaded = value_of(c.JupyterHub, "load_roles", [])
    of_role = next((role["scopes"] for role in loaded if role.get("name") == "server" and "scopes" in role), None)
    section.server_token_scopes = _of_notebooks(_union(configured or of_role or SERVER_SCOPES, scopes))


@dataclass(frozen=True, slots=True)
class _GrantedScopes:
    """The scopes that a function of the file chooses for a notebook, and those that Springtide adds."""

    chosen: Callable[[Any], Any]
    added: tuple[str, ...]

    async def __call__(self, spawner: Any) -> list[str]:
        own = self.chosen(spawner)
        return _of_notebooks(_union(await own if isawaitable(own) else own, self.added))


def _of_notebooks(scopes: list[str]) -> list[str]:
    """Return the scopes of notebooks' tokens. Raises `ValueError` for scopes that administer the pool."""
    for scope in scopes:
        if scope.partition("!")[0] in {"inherit", ADMIN_SCOPE, PROJECT_ADMIN_SCOPE}:
            raise ValueError(
                f"server_token_scopes has {given(scope)}: every program in an administrator's notebook would "
                "administer the pool. List the scopes that notebooks need instead."
            )
    return scopes


def _close_hub_pages(c: Config) -> None:
    """Keep the hub's own pages from scripts of other pages, also of a notebook server under the same host name.

    No window that opened one of them keeps a reference to it, no script reads its ``_xsrf`` cookie, and none
    fetches a page, which has the XSRF token in it.
    """
    settings = value_of(c.JupyterHub, "tornado_settings", {})
    headers = {"Cross-Origin-Opener-Policy": "same-origin", **settings.get("headers", {})}
    xsrf = settings.get("xsrf_cookie_kwargs") or settings.get("cookie_options", {})
    closed = {"headers": headers, "xsrf_cookie_kwargs": {**xsrf, "httponly": True}}
    _extend(c.JupyterHub, "tornado_settings", closed)
    BaseHandler.prepare = _prepare_for_page_views


_prepare = BaseHandler.prepare


async def _prepare_for_page_views(handler: BaseHandler) -> None:
    """Answer page views of tabs, and calls of the API, which checks the XSRF token of reading calls."""
    mode = handler.request.headers.get("Sec-Fetch-Mode", "navigate")
    if mode == "navigate" or (mode != "no-cors" and isinstance(handler, APIHandler)):
        await _prepare(handler)
        return
    handler.set_status(403)
    handler.set_header("Content-Type", "text/plain; charset=utf-8")
    handler.finish("A page of the hub opens in a tab only.\n")


def _follow_group_rules(c: Config) -> None:
    """Have the hub make members and leads of projects out of its authenticator's groups, by the rules of the file.

    Raises `ValueError` for a rule that is wrong, and for rules without an authenticator that decides about groups.
    """
    try:
        rules = declared_rules(value_of(c.Springtide, "group_rules", []))
    except SettingError as error:
        raise ValueError(str(error)) from error
    BaseHandler.auth_to_user = _with_projects_of(rules) if rules else _auth_to_user
    if not rules:
        return
    if not people_settings(c).get("managed_groups"):
        raise ValueError(
            "c.Springtide.group_rules is set, but no authenticator of the file decides about groups. Set "
            "manage_groups = True of the authenticator before configure(c), such as "
            "c.GenericOAuthenticator.manage_groups = True."
        )
    for role in lead_roles(rules):
        c.JupyterHub.load_roles = _with(value_of(c.JupyterHub, "load_roles", []), role)


_auth_to_user = BaseHandler.auth_to_user


def _with_projects_of(rules: tuple[GroupRule, ...]) -> Callable[..., Awaitable[Any]]:
    """Return the hub's method that stores what its authenticator says about a person, with the rules applied."""

    async def auth_to_user(handler: BaseHandler, authenticated: Any, user: Any = None) -> Any:
        groups = authenticated.get("groups") if isinstance(authenticated, dict) else None
        if groups is not None and handler.authenticator.manage_groups:
            authenticated = {**authenticated, "groups": with_projects(rules, groups)}
        return await _auth_to_user(handler, authenticated, user)

    return auth_to_user


def _allow_subdomains(c: Config) -> None:
    """Allow the host names of users and services under the hub's domain if the allowed hosts are limited."""
    host = str(c.JupyterHub.get("subdomain_host") or "")
    if host and c.Springtide.get("allowed_hosts"):
        domain = urlsplit(host if "://" in host else f"https://{host}").hostname
        c.Springtide.allowed_hosts = _union(c.Springtide.allowed_hosts, [f".{domain}"])


def _pages_url(c: Config) -> str:
    """Return the address of the pool's pages for browsers: a path, or a URL if services have subdomains."""
    path = f"{_base_url(c)}services/{SERVICE}/"
    host = str(c.JupyterHub.get("subdomain_host") or "")
    if not host:
        return path
    parts = urlsplit(host if "://" in host else f"https://{host}")
    return f"{parts.scheme}://{SERVICE}--service.{parts.netloc}{path}"


def _base_url(c: Config) -> str:
    """Return the path under which the hub's proxy serves, with a slash at both ends."""
    bind_url = urlsplit(str(c.JupyterHub.get("bind_url") or ""))
    path = str(c.JupyterHub.get("base_url") or bind_url.path).strip("/")
    return f"/{path}/" if path else "/"


def _extend(section: Config, name: str, entries: Mapping[str, object]) -> None:
    section[name] = {**value_of(section, name, {}), **entries}


def _union(first: Iterable[str], second: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*first, *second]))

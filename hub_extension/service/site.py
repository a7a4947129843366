"""The service's application: routes of the API, its OpenAPI document, events, metrics and pages."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import msgspec
from tornado.web import Application, RequestHandler

from springtide.hub_extension import api
from springtide.hub_extension.api import permissions
from springtide.hub_extension.api.endpoint import Endpoint, RoutedHandler
from springtide.hub_extension.api.routes import Pool, Route, routes_of
from springtide.hub_extension.pages.pages import page_handlers
from springtide.hub_extension.service import events, metrics, openapi, sessions
from springtide.hub_extension.service.relay import Frames, Relay
from springtide.hub_extension.web.auth import Authenticator
from springtide.hub_extension.web.caller import Caller
from springtide.hub_extension.web.fresh_look import FreshLook
from springtide.hub_extension.web.handler import CallbackHandler, NotFoundHandler
from springtide.hub_extension.web.hosts import guard
from springtide.hub_extension.web.job_callers import JobCallers
from springtide.scheduler.engine import Engine
from springtide.scheduler.executors.credentials import Credentials
from springtide.scheduler.notifications import BROWSER

log = logging.getLogger("springtide")

OPERATIONS: Final = routes_of(api)
ROUTES: Final[tuple[Route, ...]] = (
    *OPERATIONS,
    events.EventsHandler.ROUTE,
    sessions.SessionHandler.ROUTE,
    metrics.MetricsHandler.ROUTE,
    openapi.OpenApiHandler.ROUTE,
)
"""All routes of the API, as in the table of ``docs/reference/api.md``."""

Handlers = list[tuple[str, type[RequestHandler], dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Hub:
    """The hub as browsers see it: its OAuth client and the prefix of its own pages.

    ``host`` is empty, or the hub's own origin if users and services have subdomains.
    """

    oauth: Any
    prefix: str
    host: str = ""


@dataclass(frozen=True, slots=True)
class RoleResolver:
    """Authenticator whose callers also have their roles in a project in the projects inside it."""

    inner: Authenticator
    engine: Engine

    async def caller(self, handler: RequestHandler) -> Caller | None:
        """See `Authenticator`."""
        caller = await self.inner.caller(handler)
        if caller is None:
            return None
        return permissions.resolved(caller, self.engine.project_parents())


@dataclass(frozen=True, slots=True)
class Site:
    """Parts of the application. ``prefix`` begins and ends with a slash.

    ``recheck`` is the interval at which event streams and sessions check their caller's permissions, in seconds.
    ``credentials`` verifies those of jobs, None if jobs have none; ``scrapers`` are readers of the metrics whom
    the hub does not know.
    """

    pool: Pool
    authenticator: Authenticator
    prefix: str
    cookie_secret: bytes
    recheck: float
    hub: Hub | None = None
    allowed_hosts: tuple[str, ...] = ()
    credentials: Credentials | None = None
    scrapers: metrics.Scrapers | None = None

    def application(self) -> Application:
        """Return the Tornado application."""
        engine = self.pool.engine
        callers = JobCallers(self.authenticator, engine, self.pool.groups, self.credentials)
        application = Application(
            [*self._api(), *self._pages()],
            authenticator=RoleResolver(callers, engine),
            hub_auth=None if self.hub is None else self.hub.oauth,
            fresh_look=None if self.hub is None else FreshLook(self.hub.oauth, time.monotonic),
            cookie_secret=self.cookie_secret,
            xsrf_cookie_kwargs={"httponly": True},
            default_handler_class=NotFoundHandler,
            log_function=log_request,
        )
        api_root = f"{self.prefix}api/v1"
        guard(application, self.allowed_hosts, health=f"{api_root}/health", scraped=f"{api_root}/metrics")
        return application

    def _api(self) -> Handlers:
        base = re.escape(self.prefix) + "api/v1"
        relay = Relay(self.pool.engine.events, Frames(self.pool.nodes))
        stream = {"pool": self.pool, "relay": relay, "recheck": self.recheck}
        measured = metrics.Metrics(self.pool.engine)

        @cache
        def document() -> bytes:
            """Return the description of the API, made when it is first asked for."""
            return msgspec.json.encode(
                openapi.document(ROUTES, server=f"{self.prefix}api/v1", version=self.pool.version)
            )

        single: list[tuple[type[RoutedHandler], Route, dict[str, Any]]] = [
            (events.EventsHandler, events.EventsHandler.ROUTE, stream),
            (
                sessions.SessionHandler,
                sessions.SessionHandler.ROUTE,
                {"pool": self.pool, "recheck": self.recheck},
            ),
            (
                metrics.MetricsHandler,
                metrics.MetricsHandler.ROUTE,
                {"text": measured.text, "scrapers": self.scrapers},
            ),
            (openapi.OpenApiHandler, openapi.OpenApiHandler.ROUTE, {"text": document}),
        ]
        return [
            *(
                (f"{base}{pattern}", Endpoint, {"pool": self.pool, "routes": routes, "timed": measured.answered})
                for pattern, routes in by_address(OPERATIONS).items()
            ),
            *(
                (f"{base}{route.pattern}", handler, {"routes": {route.method: route}, **settings})
                for handler, route, settings in single
            ),
        ]

    def _pages(self) -> Handlers:
        if self.hub is None:
            return []
        return [
            (re.escape(self.prefix) + "oauth_callback", CallbackHandler, {}),
            *page_handlers(self.prefix, self.hub.prefix, self.hub.host, is_notified=self._is_notified),
        ]

    def _is_notified(self, user: str) -> bool:
        outbox = self.pool.engine.outbox
        return bool(outbox.settings.events_of(outbox.choice(user), BROWSER))


def by_address(routes: Iterable[Route]) -> Mapping[str, Mapping[str, Route]]:
    """Return the routes by pattern of the path, in the given order, and then by method."""
    found: dict[str, dict[str, Route]] = {}
    for route in routes:
        found.setdefault(route.pattern, {})[route.method] = route
    return found


def log_request(handler: RequestHandler) -> None:
    """Log one line per request, without the query parameters, which may contain credentials of a browser."""
    status_code = handler.get_status()
    level = logging.DEBUG if status_code < 400 else logging.INFO if status_code < 500 else logging.WARNING
    milliseconds = 1000 * handler.request.request_time()
    log.log(level, "%d %s %r %.1f ms", status_code, handler.request.method, handler.request.path, milliseconds)

"""The service's addresses: the API, its document, events, metrics and pages in one application."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from tornado.web import Application, RequestHandler

from springtide.hub_extension import events, metrics, openapi
from springtide.hub_extension.api import administration, forecasts, jobs, status, workspaces
from springtide.hub_extension.api.endpoint import Endpoint
from springtide.hub_extension.api.routes import Pool, Route, Who
from springtide.hub_extension.auth import Authenticator
from springtide.hub_extension.handler import CallbackHandler, NotFoundHandler
from springtide.hub_extension.pages import page_handlers

log = logging.getLogger("springtide")

ROUTES: tuple[Route, ...] = (
    *jobs.ROUTES,
    *status.ROUTES,
    *forecasts.ROUTES,
    *administration.ROUTES,
    *workspaces.ROUTES,
    events.ROUTE,
    metrics.ROUTE,
    Route("GET", "/openapi.json", "This document", Who.ANYONE),
)
"""The whole API, as in the table of the architecture."""

Handlers = list[tuple[str, type[RequestHandler], dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Hub:
    """The hub as browsers meet it: its OAuth and the prefix of its own pages."""

    oauth: Any
    prefix: str


@dataclass(frozen=True, slots=True)
class Site:
    """What the application is made of. ``prefix`` begins and ends with a slash; ``recheck`` is seconds."""

    pool: Pool
    authenticator: Authenticator
    prefix: str
    cookie_secret: bytes
    recheck: float
    hub: Hub | None = None

    def application(self) -> Application:
        """The application, ready to listen."""
        return Application(
            [*self._api(), *self._pages()],
            authenticator=self.authenticator,
            hub_auth=None if self.hub is None else self.hub.oauth,
            cookie_secret=self.cookie_secret,
            default_handler_class=NotFoundHandler,
            log_function=log_request,
        )

    def _api(self) -> Handlers:
        base = re.escape(self.prefix) + "api/v1"
        measured = metrics.Metrics(self.pool.engine)
        document = openapi.document(ROUTES, server=f"{self.prefix}api/v1", version=self.pool.version)
        return [
            *(
                (f"{base}{path}", Endpoint, {"pool": self.pool, "routes": routes, "timed": measured.answered})
                for path, routes in by_address(ROUTES).items()
            ),
            (f"{base}{events.ROUTE.path}", events.EventsHandler, {"pool": self.pool, "recheck": self.recheck}),
            (f"{base}{metrics.ROUTE.path}", metrics.MetricsHandler, {"text": measured.text}),
            (f"{base}/openapi\\.json", openapi.OpenApiHandler, {"text": msgspec.json.encode(document)}),
        ]

    def _pages(self) -> Handlers:
        if self.hub is None:
            return []
        return [
            (re.escape(self.prefix) + "oauth_callback", CallbackHandler, {}),
            *page_handlers(self.prefix, self.hub.prefix),
        ]


def by_address(routes: Iterable[Route]) -> Mapping[str, Mapping[str, Route]]:
    """The routes that `Endpoint` answers: by pattern of the path, and then by method."""
    found: dict[str, dict[str, Route]] = {}
    for route in routes:
        if route.call is not None:
            found.setdefault(route.pattern, {})[route.method] = route
    return found


def log_request(handler: RequestHandler) -> None:
    """One line per request, without its parameters: they may hold what proves a browser."""
    status_code = handler.get_status()
    level = logging.DEBUG if status_code < 400 else logging.INFO if status_code < 500 else logging.WARNING
    milliseconds = 1000 * handler.request.request_time()
    log.log(level, "%d %s %r %.1f ms", status_code, handler.request.method, handler.request.path, milliseconds)

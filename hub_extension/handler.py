"""What all of the site's handlers share: who calls, safe headers, and errors as one shape."""

from __future__ import annotations

import hmac
import logging
import secrets
from types import TracebackType
from typing import Any, ClassVar
from urllib.parse import urlsplit

import msgspec
from jupyterhub.services.auth import HubOAuthCallbackHandler, HubOAuthenticated
from tornado.escape import xhtml_escape
from tornado.web import HTTPError, RequestHandler

from springtide.hub_extension.auth import Authenticator
from springtide.hub_extension.caller import Caller
from springtide.hub_extension.problems import Busy, problem_of, unknown_caller
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire import Problem

log = logging.getLogger("springtide")

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

FULL_RETRY_S = 30
"""When to try again where a queue is full: jobs end at their own pace."""

NOTHING_POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

PAGE_POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


class SiteHandler(HubOAuthenticated, RequestHandler):
    """A handler that may know its caller.

    The application's settings hold ``authenticator`` (an `Authenticator`) and, where a hub is, ``hub_auth``.
    Errors are answered as `Problem`; only a `Refusal`'s text reaches the caller. ``allowed`` are the methods
    to name where another was tried.
    """

    policy: ClassVar[str] = NOTHING_POLICY
    error_id = ""
    allowed: tuple[str, ...] = ()

    def initialize(self, *_arguments: Any, **_settings: Any) -> None:
        """Take the hub's part from the application's settings."""
        self.hub_auth = self.settings.get("hub_auth")

    def set_default_headers(self) -> None:
        """Headers that go with every answer, errors too."""
        self.clear_header("Server")
        self.set_header("Content-Security-Policy", self.policy)
        for name, value in HEADERS.items():
            self.set_header(name, value)

    def get_current_user(self) -> None:
        """Nobody until `identify` has been awaited; asking the hub here would block."""

    async def identify(self) -> Caller | None:
        """Find out who calls, and remember it as ``current_user``."""
        authenticator: Authenticator = self.settings["authenticator"]
        self.current_user = None
        caller = await authenticator.caller(self)
        self.current_user = caller
        return caller

    def check_xsrf_cookie(self) -> None:
        """Raise `Refusal` unless the request carries the XSRF token of its own cookie."""
        given = self.request.headers.get("X-XSRFToken") or self.get_query_argument("_xsrf", "")
        if not hmac.compare_digest(given.encode(), self.xsrf_token):
            hint = "Reload the page; programs use a token instead of a cookie."
            raise Refusal(403, "xsrf", "The request does not come from a page of the pool.", hint=hint)

    def check_origin(self) -> None:
        """Raise `Refusal` if a page of another origin made the request."""
        origin = self.request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc.lower() != self.request.host.lower():
            raise Refusal(403, "origin", "Pages of other sites may not read from the pool.")

    def get_login_url(self) -> str:
        """Programs are told, not sent to a login page."""
        raise unknown_caller()

    def log_exception(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Keep what was not foreseen, under an id that the caller is told."""
        if isinstance(error, Refusal) or (isinstance(error, HTTPError) and error.status_code < 500):
            return
        self.error_id = secrets.token_hex(4)
        where = (self.request.method, self.request.path)
        log.error("%s: %s %r failed", self.error_id, *where, exc_info=error)

    def write_error(self, status_code: int, **given: Any) -> None:
        """Answer an error."""
        info = given.get("exc_info")
        error = info[1] if info else HTTPError(status_code)
        problem = problem_of(error, self.error_id)
        self.set_status(problem.status)
        if problem.status == 401:
            self.set_header("WWW-Authenticate", "token")
        if problem.status == 405:
            self.set_header("Allow", ", ".join(self.allowed))
        if problem.status == 429:
            self.set_header("Retry-After", str(error.retry_after if isinstance(error, Busy) else FULL_RETRY_S))
        self.write_problem(problem)

    def write_problem(self, problem: Problem) -> None:
        """Answer a problem in the form that this handler's callers read."""
        self.set_header("Content-Type", "application/json")
        self.finish(msgspec.json.encode(problem))


class PageHandler(SiteHandler):
    """A page for people: sends those who are not logged in to the hub, and shows errors as a page.

    ``self.current_user`` is the `Caller`. Its script sends ``self.xsrf_token`` (also in the cookie ``_xsrf``)
    as header ``X-XSRFToken`` with every request, and as the parameter ``_xsrf`` of an event stream.
    """

    policy = PAGE_POLICY

    async def prepare(self) -> None:
        """Let only known callers in."""
        if await self.identify() is None:
            self.redirect(self.get_login_url())

    def get_login_url(self) -> str:
        """The hub's login, which leads back here."""
        return str(HubOAuthenticated.get_login_url(self))

    def write_problem(self, problem: Problem) -> None:
        """Show the problem in words."""
        self.set_header("Content-Type", "text/html; charset=utf-8")
        words = xhtml_escape(f"{problem.message} {problem.hint}".strip())
        self.finish(
            f"<!doctype html><title>Springtide</title><main><h1>{problem.status}</h1><p>{words}</p></main>"
        )


class CallbackHandler(PageHandler, HubOAuthCallbackHandler):
    """Where the hub sends a browser back to after its login."""

    async def prepare(self) -> None:
        """Nobody is known yet, or somebody logs in again."""
        await self.identify()


class NotFoundHandler(SiteHandler):
    """Answers for every address that is nobody's."""

    def prepare(self) -> None:
        """There is nothing here."""
        raise HTTPError(404)

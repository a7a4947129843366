"""Base classes of all request handlers: authentication, security headers, and one format of errors."""

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

from springtide.hub_extension.web.auth import Authenticator, is_page_view
from springtide.hub_extension.web.caller import Caller
from springtide.hub_extension.web.fresh_look import FreshLook
from springtide.hub_extension.web.problems import Busy, problem_of, unknown_caller
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
"""Value of ``Retry-After`` when the queue is full, in seconds."""

NOTHING_POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"


def page_policy(images_of: str = "") -> str:
    """Return the Content-Security-Policy of pages; ``images_of`` is another origin whose images they show."""
    return (
        f"default-src 'self'; img-src 'self' data: {images_of}; "
        "script-src 'self'; style-src 'self' 'unsafe-inline'; "
        "connect-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )


class SiteHandler(HubOAuthenticated, RequestHandler):
    """Base class of request handlers that can identify their caller.

    The application's settings hold ``authenticator`` (an `Authenticator`) and, if there is a hub, ``hub_auth`` and
    ``fresh_look`` (a `FreshLook`).
    Errors are answered as `Problem`; only the text of a `Refusal` is sent to the caller. ``allowed`` are the
    methods that the answer to another method names.
    """

    policy: ClassVar[str] = NOTHING_POLICY
    error_id = ""
    allowed: tuple[str, ...] = ()

    def initialize(self, *_arguments: Any, **_settings: Any) -> None:
        """Read the hub's OAuth client from the application's settings."""
        self.hub_auth = self.settings.get("hub_auth")

    def set_default_headers(self) -> None:
        """Set the headers of every answer, errors included."""
        self.clear_header("Server")
        self.set_header("Content-Security-Policy", self.policy)
        for name, value in HEADERS.items():
            self.set_header(name, value)

    def get_current_user(self) -> None:
        """Return None until `identify` has been awaited: a request to the hub would block here."""

    async def identify(self) -> Caller | None:
        """Return the caller, and store it as ``current_user``. Raises the errors of `Authenticator.caller`."""
        authenticator: Authenticator = self.settings["authenticator"]
        self.current_user = None
        caller = await authenticator.caller(self)
        self.current_user = caller
        return caller

    async def identify_again(self) -> Caller | None:
        """Return the caller of a refused request if the hub has given it other rights meanwhile, else None."""
        look: FreshLook | None = self.settings.get("fresh_look")
        caller: Caller | None = self.current_user
        if look is None or caller is None or caller.spawner or caller.job is not None:
            return None
        if not await look.finds_change(self):
            return None
        return await self.identify()

    def check_xsrf_cookie(self) -> None:
        """Raise `Refusal` unless the header ``X-XSRFToken`` is the XSRF token of the request's own cookie.

        Only pages of the pool have the token: it is not part of any address, and no script can read the cookie.
        """
        given = self.request.headers.get("X-XSRFToken", "")
        if not hmac.compare_digest(given.encode(), self.xsrf_token):
            hint = "Reload the page; programs use a token instead of a cookie."
            raise Refusal(403, "xsrf", "The request does not come from a page of the pool.", hint=hint)

    def check_origin(self) -> None:
        """Raise `Refusal` if a page of another origin made the request."""
        origin = self.request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc.lower() != self.request.host.lower():
            raise Refusal(403, "origin", "Pages of other sites may not read from the pool.")

    def get_login_url(self) -> str:
        """Raise an error: programs get an error in place of a redirect to a login page."""
        raise unknown_caller()

    def log_exception(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Log an unexpected error with an id, which is sent to the caller."""
        if isinstance(error, Refusal) or (isinstance(error, HTTPError) and error.status_code < 500):
            return
        self.error_id = secrets.token_hex(4)
        where = (self.request.method, self.request.path)
        log.error("%s: %s %r failed", self.error_id, *where, exc_info=error)

    def write_error(self, status_code: int, **given: Any) -> None:
        """Answer an error as a `Problem`."""
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
        """Answer a problem in the format of this handler's callers."""
        self.set_header("Content-Type", "application/json")
        self.finish(msgspec.json.encode(problem))


class PageHandler(SiteHandler):
    """Base class of HTML pages: redirects users who are not logged in to the hub, and shows errors as a page.

    ``self.current_user`` is the `Caller`. The script of the page sends ``self.xsrf_token`` as header
    ``X-XSRFToken`` with every request, GET requests and event streams included.
    """

    policy = page_policy()

    def check_xsrf_cookie(self) -> None:
        """Raise `Refusal` unless the browser opens the page in a tab; the answer holds the XSRF token."""
        headers = self.request.headers
        mode, destination = headers.get("Sec-Fetch-Mode", ""), headers.get("Sec-Fetch-Dest", "")
        if not is_page_view(str(self.request.method), mode, destination):
            raise Refusal(
                403,
                "not_opened",
                "This page can only be opened in a tab of a browser.",
                hint="Browsers say that they open one if the address begins with https:// or is this machine's "
                "(localhost); programs use the API with a token.",
            )

    async def prepare(self) -> None:
        """Identify the caller; redirect to the login page if there is none.

        Raises `Refusal` 403 for a program of a job.
        """
        caller = await self.identify()
        if caller is None:
            self.redirect(self.get_login_url())
        elif caller.job is not None:
            raise Refusal(403, "forbidden", "Pages are for people.", hint="Programs of jobs use the API.")

    def get_login_url(self) -> str:
        """Return the address of the hub's login, which redirects back to this page."""
        return str(HubOAuthenticated.get_login_url(self))

    def write_problem(self, problem: Problem) -> None:
        """Show the problem as text."""
        self.set_header("Content-Type", "text/html; charset=utf-8")
        words = xhtml_escape(f"{problem.message} {problem.hint}".strip())
        self.finish(
            f"<!doctype html><title>Springtide</title><main><h1>{problem.status}</h1><p>{words}</p></main>"
        )


class CallbackHandler(PageHandler, HubOAuthCallbackHandler):
    """Callback address of the hub's OAuth login."""

    async def prepare(self) -> None:
        """Identify the caller without requiring a login, which is about to happen."""
        await self.identify()


class NotFoundHandler(SiteHandler):
    """Handler of every address that has no other handler."""

    def prepare(self) -> None:
        """Raise the error 404."""
        raise HTTPError(404)

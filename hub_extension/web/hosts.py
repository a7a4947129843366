"""Allow-list of the host names that requests may use, as a defence against DNS rebinding."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from tornado.web import Application, RequestHandler

from springtide.scheduler.wording import given

LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
"""Host names of requests that come from this machine."""
LONGEST_SHOWN: Final = 100
"""Maximum number of characters of a refused host name that an answer repeats."""

_ADDRESS: Final = r"(?:\d+(?:\.\d+){3}|\[[0-9a-f:]+\])"
"""An IP address as the name of a host."""

REFUSAL = """\
Nothing is served here under the name {name}.
Use an address that is allowed, or allow this one: `springtide up --allowed-host NAME`, or add the name to
c.Springtide.allowed_hosts in the hub's configuration.
"""


def foreign(allowed: Iterable[str]) -> str:
    """Return a regular expression that matches every host name except the ``allowed`` ones.

    Names are compared without port and case; ``.example.org`` allows that domain and all its subdomains.
    """
    patterns = (
        rf"(?:.+\.)?{re.escape(name[1:])}" if name.startswith(".") else re.escape(name)
        for name in map(str.lower, allowed)
    )
    return rf"(?!(?:{'|'.join(patterns)})\Z).*"


def guard(
    application: Application, allowed: Iterable[str], *, health: str | None = None, scraped: str | None = None
) -> None:
    """Refuse requests whose header ``Host`` is not among ``allowed``; if ``allowed`` is empty, accept any name.

    ``health`` is a path that is served under any name, because probes use the address of the machine or pod;
    ``scraped`` one that is served under IP addresses as well, which Prometheus uses, and DNS rebinding cannot.
    """
    names = list(allowed)
    if not names:
        return
    served = [path for path in (health, scraped) if path is not None]
    paths = rf"(?!(?:{'|'.join(map(re.escape, served))})\Z).*" if served else ".*"
    handlers: list[tuple[str, type[RequestHandler]]] = [(paths, ForeignHostHandler)]
    application.add_handlers(foreign(names), handlers)
    if scraped is not None:
        elsewhere = rf"(?!{_ADDRESS}\Z){foreign(names)}"
        application.add_handlers(elsewhere, [(re.escape(scraped), ForeignHostHandler)])


class ForeignHostHandler(RequestHandler):
    """Handler that refuses requests of every method."""

    def prepare(self) -> None:
        """Answer 421 (Misdirected Request) before a method is looked up."""
        self.set_status(421)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Cache-Control", "no-store")
        self.finish(REFUSAL.format(name=given(self.request.host_name, LONGEST_SHOWN)))

    def check_xsrf_cookie(self) -> None:
        """Skip Tornado's check, because the handler has no effects."""

"""The agent's HTTP server: one report, for who has the token."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

from springtide.scheduler.telemetry.agent.report import NodeReport, encode

logger = logging.getLogger(__name__)

REPORT_PATH: Final = "/v1/report"
SHORTEST_TOKEN: Final = 32
"""Minimum length of the token, in characters."""


HEALTH_PATH: Final = "/health"
REQUEST_TIMEOUT_S: Final = 5.0
"""Time in which a client has to send its request."""


class TokenError(Exception):
    """There is no usable token; the message names the expected one."""


def read_token(file: Path) -> str:
    """Return the token in a file. Raises `TokenError`."""
    try:
        token = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise TokenError(f"The token of agents cannot be read from {file}: {error}.") from error
    if len(token) < SHORTEST_TOKEN or not token.isalnum():
        raise TokenError(f"{file} has no token of {SHORTEST_TOKEN} letters and digits or more.")
    return token


def make_server(
    address: tuple[str, int], report: Callable[[], NodeReport], token_file: Path
) -> ThreadingHTTPServer:
    """Return a server of reports for clients that send the token of the file, which is read at each request."""

    class Handler(BaseHTTPRequestHandler):
        timeout = REQUEST_TIMEOUT_S
        server_version = "springtide-agent"
        sys_version = ""

        def do_GET(self) -> None:
            if self.path == HEALTH_PATH:
                self._answer(HTTPStatus.OK, b"")
            elif self.path != REPORT_PATH:
                self._answer(HTTPStatus.NOT_FOUND, b"")
            elif not _allowed(self.headers.get("Authorization", ""), token_file):
                self._answer(HTTPStatus.UNAUTHORIZED, b"")
            else:
                try:
                    self._answer(HTTPStatus.OK, encode(report()))
                except Exception:
                    logger.exception("The GPUs could not be read.")
                    self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, b"")

        def _answer(self, status: HTTPStatus, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log no requests."""

    server = ThreadingHTTPServer(address, Handler)
    server.daemon_threads = True
    return server


def _allowed(header: str, token_file: Path) -> bool:
    try:
        expected = f"Bearer {read_token(token_file)}"
    except TokenError as error:
        logger.warning("%s", error)
        return False
    return hmac.compare_digest(header.encode(), expected.encode())

"""A notebook server of an attacker: it answers with any page and any headers.

``<prefix>anything?type=text/javascript&header=Name:Value&body=…`` gives the answer described by the query.
"""

from __future__ import annotations

import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


class Answer(BaseHTTPRequestHandler):
    """Answers as the query specifies."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        body = query.get("body", ["<!doctype html><title>a notebook</title>"])[0].encode()
        self.send_response(200)
        self.send_header("Content-Type", query.get("type", ["text/html"])[0])
        self.send_header("Content-Length", str(len(body)))
        for header in query.get("header", []):
            self.send_header(*header.split(":", 1))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        """Log nothing."""


if __name__ == "__main__":
    url = urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"])
    ThreadingHTTPServer((url.hostname or "127.0.0.1", url.port or 0), Answer).serve_forever()

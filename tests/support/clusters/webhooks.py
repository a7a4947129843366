"""Webhooks that a cluster asks before it admits a change."""

from __future__ import annotations

import base64
import contextlib
import json
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from clusters.certificates import write_server_certificate
from clusters.cluster import Cluster

GROUP = "/apis/admissionregistration.k8s.io/v1"
Answer = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
"""Takes the kind of webhook and the request; returns what the response has beside the uid."""


@contextlib.contextmanager
def admission(
    cluster: Cluster,
    namespace: str,
    folder: Path,
    answer: Answer,
    *,
    kinds: Mapping[str, str],
    operations: Sequence[str] = ("CREATE",),
    timeout_s: int = 10,
) -> Iterator[None]:
    """Have the API server ask about pods of a namespace in this block; it waits ``timeout_s`` seconds.

    ``kinds`` are of webhooks, ``mutating`` or ``validating``, with what follows if there is no answer: ``Ignore``
    or ``Fail``. Certificates are in ``folder``.
    """
    certificate, key = folder / "admission.pem", folder / "admission.key"
    write_server_certificate(certificate, key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    server = _Server(answer)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = Thread(target=server.serve_forever, daemon=True, name="admission")
    thread.start()
    authority = base64.b64encode(certificate.read_bytes()).decode()
    paths = []
    try:
        for kind, policy in kinds.items():
            client = {"url": f"https://127.0.0.1:{server.server_address[1]}/{kind}", "caBundle": authority}
            hook = _hook(kind, client, namespace, policy, operations, timeout_s)
            path = f"{GROUP}/{kind}webhookconfigurations"
            cluster.request("POST", path, {"metadata": {"name": f"{kind}-{namespace}"}, "webhooks": [hook]})
            paths.append(f"{path}/{kind}-{namespace}")
        yield
    finally:
        for path in paths:
            cluster.request("DELETE", path)
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of an API server that has given up waiting."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        kind, request = self.path.partition("?")[0].strip("/"), review["request"]
        response = {"uid": request["uid"], "allowed": True, **self.server.answer(kind, request)}
        answer = json.dumps(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the standard library
        """Print nothing."""


def _hook(
    kind: str, client: Mapping[str, str], namespace: str, policy: str, operations: Sequence[str], timeout_s: int
) -> dict[str, Any]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": list(operations), "resources": ["pods"]}
    return {
        "name": f"{kind}.day.example.com",
        "clientConfig": dict(client),
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": policy,
        "timeoutSeconds": timeout_s,
    }

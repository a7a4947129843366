"""Webhooks of a cluster that shape, refuse or keep waiting the pods of a namespace."""

from __future__ import annotations

import base64
import contextlib
import json
import random
import ssl
from collections import Counter
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

from clusters.certificates import write_server_certificate
from clusters.cluster import Cluster

GROUP = "/apis/admissionregistration.k8s.io/v1"
STOP_AFTER, NO_IMAGE = "springtide.io/fake-stop-after", "springtide.io/fake-image"
REFUSAL = "pods of this namespace need a cost centre"
UNREACHABLE = "Back-off pulling image: ErrImagePull: rpc error: code = Unavailable desc = registry away"
LONGEST_STALL_S = 30.0


class Admission:
    """A server for two webhooks, which its attributes direct.

    Pods take up to ``slowest_end`` seconds to end. With ``registry_away`` they get no image, with ``refuses`` they
    are refused, and with ``stalls`` the answer comes when the API server has given up waiting. ``counts`` says how
    often.
    """

    def __init__(self, rng: random.Random, slowest_end: float) -> None:
        self.registry_away = self.refuses = self.stalls = False
        self.counts: Counter[str] = Counter()
        self._slowest_end = slowest_end
        self._rng = rng
        self._lock = Lock()
        self._stopping = Event()

    @contextlib.contextmanager
    def serving(self, cluster: Cluster, namespace: str, folder: Path, *, timeout_s: int) -> Iterator[None]:
        """Have the API server ask about all new pods of the namespace; it waits ``timeout_s`` seconds."""
        certificate, key = folder / "admission.pem", folder / "admission.key"
        write_server_certificate(certificate, key)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        server = _Server(self)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = Thread(target=server.serve_forever, daemon=True, name="admission")
        thread.start()
        url = f"https://127.0.0.1:{server.server_address[1]}"
        authority = base64.b64encode(certificate.read_bytes()).decode()
        paths = []
        try:
            for kind, policy in (("mutating", "Ignore"), ("validating", "Fail")):
                hook = _hook(kind, f"{url}/{kind}", authority, namespace, policy, timeout_s)
                name = f"{kind}-{namespace}"
                cluster.request(
                    "POST",
                    f"{GROUP}/{kind}webhookconfigurations",
                    {"metadata": {"name": name}, "webhooks": [hook]},
                )
                paths.append(f"{GROUP}/{kind}webhookconfigurations/{name}")
            yield
        finally:
            for path in paths:
                cluster.request("DELETE", path)
            self._stopping.set()
            server.shutdown()
            server.server_close()
            thread.join()

    def answer(self, path: str, review: Mapping[str, Any]) -> dict[str, Any]:
        """Return the response to a review."""
        request = review["request"]
        answer: dict[str, Any] = {"uid": request["uid"], "allowed": True}
        if path == "/mutating":
            notes = {**(request["object"]["metadata"].get("annotations") or {}), **self._notes()}
            patch = [{"op": "add", "path": "/metadata/annotations", "value": notes}]
            answer |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}
        elif self.stalls:
            self._count("stalled")
            self._stopping.wait(LONGEST_STALL_S)
        elif self.refuses:
            self._count("refused")
            answer |= {"allowed": False, "status": {"code": 403, "message": REFUSAL}}
        return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}

    def _notes(self) -> dict[str, str]:
        with self._lock:
            notes = {STOP_AFTER: f"{self._rng.random() * self._slowest_end * 1000:.0f}ms"}
        return notes | ({NO_IMAGE: UNREACHABLE} if self.registry_away else {})

    def _count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of an API server that has given up waiting."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = json.dumps(self.server.admission.answer(self.path.partition("?")[0], review)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the standard library
        """Print nothing."""


def _hook(kind: str, url: str, authority: str, namespace: str, policy: str, timeout_s: int) -> dict[str, Any]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    return {
        "name": f"{kind}.day.example.com",
        "clientConfig": {"url": url, "caBundle": authority},
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": policy,
        "timeoutSeconds": timeout_s,
    }

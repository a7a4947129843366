"""Calls of gRPC servers on Unix sockets, such as a kubelet's and containerd's; messages are bytes."""

from __future__ import annotations

from pathlib import Path

import httpx
from patience import PATIENCE_S

HEADERS = {"content-type": "application/grpc", "te": "trailers"}


def problem(socket: Path, method: str, message: bytes = b"") -> str:
    """Call a method by its path, such as ``/v1beta1.Registration/Register``; return what went wrong, if any."""
    transport = httpx.HTTPTransport(uds=str(socket), http1=False, http2=True)
    with httpx.Client(transport=transport, base_url="http://localhost", timeout=PATIENCE_S) as client:
        body = b"\0" + len(message).to_bytes(4, "big") + message
        try:
            answer = client.post(method, content=body, headers=HEADERS)
        except httpx.HTTPError as error:
            return str(error) or type(error).__name__
    status = answer.headers.get("grpc-status", "0")
    return "" if status == "0" else answer.headers.get("grpc-message", "") or f"status {status}"

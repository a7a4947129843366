"""The kubelet's PodResources API: which devices the node offers, and which pod has which.

It is gRPC over a socket of the node (``k8s.io/kubelet/pkg/apis/podresources/v1``). Two of its calls are used, with
empty requests, so that messages of protocol buffers are only read, and only the fields that matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

SOCKET: Final = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
TIMEOUT_S: Final = 3.0
SERVICE: Final = "v1.PodResourcesLister"
HEADERS: Final = {"content-type": "application/grpc", "te": "trailers"}
EMPTY_REQUEST: Final = b"\0\0\0\0\0"
"""A message without fields: neither compressed nor any byte long."""
VARINT: Final = 0
BYTES: Final = 2
FIXED_SIZES: Final = {1: 8, 5: 4}
"""Wire types of protocol buffers; those of a fixed size, with that in bytes."""
ANOTHER_FOLLOWS: Final = 0x80
"""Continuation bit in the bytes of a number: another byte follows."""
UNREADABLE: Final = "The kubelet answers with a message that cannot be read"


class PodResourcesError(Exception):
    """The kubelet does not answer; the message says why."""


@dataclass(frozen=True, slots=True)
class PodDevices:
    """The ids of the devices of a pod, of all its containers, by resource."""

    namespace: str
    name: str
    devices: dict[str, tuple[str, ...]]


class PodResources:
    """Asks the kubelet behind a socket. One thread at a time."""

    def __init__(self, socket: Path = SOCKET) -> None:
        transport = httpx.HTTPTransport(uds=str(socket), http1=False, http2=True, retries=1)
        self._client = httpx.Client(transport=transport, base_url="http://localhost", timeout=TIMEOUT_S)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def assigned(self) -> list[PodDevices]:
        """Return the pods that have devices. Raises `PodResourcesError`."""
        return [pod for pod in map(_pod, _parts(self._call("List"), 1)) if pod.devices]

    def offered(self) -> dict[str, tuple[str, ...]]:
        """Return the ids of the healthy devices by resource. Raises `PodResourcesError`."""
        return _devices(_parts(self._call("GetAllocatableResources"), 1))

    def _call(self, method: str) -> bytes:
        """Return the message that a call answers with. Raises `PodResourcesError`."""
        try:
            answer = self._client.post(f"/{SERVICE}/{method}", content=EMPTY_REQUEST, headers=HEADERS)
        except httpx.HTTPError as error:
            raise PodResourcesError(f"{type(error).__name__}: {error}") from error
        status, data = answer.headers.get("grpc-status", "0"), answer.content
        if answer.status_code != httpx.codes.OK or status != "0":
            detail = answer.headers.get("grpc-message", "")
            raise PodResourcesError(
                f"{method} answers with HTTP {answer.status_code}, gRPC {status} {detail}".strip()
            )
        if len(data) < len(EMPTY_REQUEST) or data[0] or int.from_bytes(data[1:5], "big") != len(data) - 5:
            raise PodResourcesError(f"{method} answers with an incomplete message of {len(data)} bytes")
        return data[5:]


def _pod(message: bytes) -> PodDevices:
    names = {number: _text(value) for number, value in _fields(message) if number in {1, 2}}
    containers = list(_parts(message, 3))
    devices = _devices(part for container in containers for part in _parts(container, 2))
    return PodDevices(names.get(2, ""), names.get(1, ""), devices)


def _devices(messages: Iterator[bytes]) -> dict[str, tuple[str, ...]]:
    """Return the ids of ``ContainerDevices`` messages by resource."""
    found: dict[str, tuple[str, ...]] = {}
    for message in messages:
        fields = list(_fields(message))
        resource = next((_text(value) for number, value in fields if number == 1), "")
        ids = (_text(value) for number, value in fields if number == 2)
        found[resource] = (*found.get(resource, ()), *ids)
    return found


def _parts(message: bytes, field: int) -> Iterator[bytes]:
    return (value for number, value in _fields(message) if number == field)


def _text(value: bytes) -> str:
    """Return a text. Raises `PodResourcesError`."""
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise PodResourcesError(UNREADABLE) from error


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number and content of a message's fields that are texts, bytes or messages.

    Raises `PodResourcesError`.
    """
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind, size = key & 7, FIXED_SIZES.get(key & 7, 0)
        if kind == VARINT:
            _, at = _varint(message, at)
        elif kind == BYTES:
            size, at = _varint(message, at)
            yield key >> 3, message[at : at + size]
        elif kind not in FIXED_SIZES:
            raise PodResourcesError(UNREADABLE)
        at += size
    if at > len(message):
        raise PodResourcesError(UNREADABLE)


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length, and where it ends. Raises `PodResourcesError`."""
    value = shift = 0
    while at < len(message):
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & ANOTHER_FOLLOWS:
            return value, at
    raise PodResourcesError(UNREADABLE)

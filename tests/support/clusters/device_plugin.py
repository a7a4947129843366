"""A device plugin for the kubelet of a test node, which gives out GPUs that are linked as NVIDIA's does."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

from clusters.control_plane import until
from clusters.grpc_client import problem
from clusters.grpc_server import field, grpc_server

from springtide.scheduler.telemetry.agent import pod_resources

DIRECTORY = Path("var/lib/kubelet/device-plugins")
OPTIONS = field(2, 1)
"""``get_preferred_allocation_available``."""


@contextlib.contextmanager
def device_plugin(root: Path, resource: str, islands: Sequence[Sequence[str]]) -> Iterator[None]:
    """Offer GPUs, by groups of linked ones, under a resource of the node whose file system is ``root``.

    A pod gets GPUs of one group, the last with enough, and reads them from ``NVIDIA_VISIBLE_DEVICES``.
    """
    stopped = threading.Event()
    gpus = [gpu for island in islands for gpu in island]

    def watch(_: bytes) -> Iterator[bytes]:
        yield b"".join(field(1, field(1, gpu) + field(2, "Healthy")) for gpu in gpus)
        stopped.wait()

    def prefer(request: bytes) -> Iterator[bytes]:
        answers = []
        for wanted in _messages(request, 1):
            free = {each.decode() for each in _messages(wanted, 1)}
            size = _number(wanted, 3)
            groups = [group for island in reversed(islands) for group in combinations(island, size)]
            chosen = next((group for group in groups if free >= {*group}), sorted(free)[:size])
            answers.append(field(1, b"".join(field(1, gpu) for gpu in chosen)))
        yield b"".join(answers)

    def allocate(request: bytes) -> Iterator[bytes]:
        answers = []
        for wanted in _messages(request, 1):
            given = ",".join(each.decode() for each in _messages(wanted, 1))
            answers.append(field(1, field(1, field(1, "NVIDIA_VISIBLE_DEVICES") + field(2, given))))
        yield b"".join(answers)

    methods = {
        "/v1beta1.DevicePlugin/GetDevicePluginOptions": lambda _: iter([OPTIONS]),
        "/v1beta1.DevicePlugin/ListAndWatch": watch,
        "/v1beta1.DevicePlugin/GetPreferredAllocation": prefer,
        "/v1beta1.DevicePlugin/Allocate": allocate,
    }
    directory = root / DIRECTORY
    until((directory / "kubelet.sock").exists, "the kubelet accepts device plugins")
    with grpc_server(directory / "gpus.sock", methods):
        try:
            _register(directory / "kubelet.sock", resource)
            yield
        finally:
            stopped.set()


def _register(kubelet: Path, resource: str) -> None:
    request = field(1, "v1beta1") + field(2, "gpus.sock") + field(3, resource) + field(4, OPTIONS)
    refused = problem(kubelet, "/v1beta1.Registration/Register", request)
    assert not refused, refused


def _messages(message: bytes, number: int) -> list[bytes]:
    return list(pod_resources._parts(message, number))


def _number(message: bytes, number: int) -> int:
    """Return a small number in a message, in whose fields before it are texts only."""
    key = number << 3
    found = message.rpartition(bytes([key]))[2]
    return found[0]

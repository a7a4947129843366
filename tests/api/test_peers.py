"""Which account of this machine asks for the metrics."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

from springtide.hub_extension.web.peers import account_of_peer

NOBODY = 65_534
ASK = """
import os, socket, sys
uid, port, request = sys.argv[1:]
os.setuid(int(uid))
with socket.socket() as asking:
    asking.settimeout(60)
    asking.connect(("127.0.0.1", int(port)))
    asking.sendall(request.encode())
    print(asking.recv(64).decode().split()[1])
"""


def asked_as(uid: int, url: str, *headers: str) -> str:
    """The status that a process of an account gets."""
    address = urlsplit(url)
    lines = (f"GET {address.path} HTTP/1.1", f"Host: {address.netloc}", *headers, "", "")
    argv = [sys.executable, "-I", "-c", ASK, str(uid), str(address.port), "\r\n".join(lines)]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.root
async def test_another_account_of_this_machine_gets_no_metrics_without_a_token(running) -> None:
    url = f"{running.url}api/v1/metrics"
    assert await asyncio.to_thread(asked_as, os.geteuid(), url) == "200"
    assert await asyncio.to_thread(asked_as, NOBODY, url) == "401"
    assert await asyncio.to_thread(asked_as, NOBODY, url, "Authorization: token susan") == "200"


@pytest.mark.parametrize(
    ("family", "listen", "ask"),
    [
        (socket.AF_INET, "127.0.0.1", "127.0.0.1"),
        (socket.AF_INET6, "::1", "::1"),
        (socket.AF_INET6, "::", "127.0.0.1"),
    ],
)
def test_the_account_is_found_for_each_kind_of_address(family: int, listen: str, ask: str) -> None:
    with (
        socket.create_server((listen, 0), family=family, dualstack_ipv6=listen == "::") as listening,
        socket.create_connection((ask, listening.getsockname()[1])),
        listening.accept()[0] as accepted,
    ):
        assert account_of_peer(accepted) == os.geteuid()


def test_a_connection_that_has_ended_is_nobodys() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        asking = socket.create_connection(listening.getsockname())
        accepted = listening.accept()[0]
        asking.close()
        accepted.close()
    assert account_of_peer(accepted) is None

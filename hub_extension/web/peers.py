"""The account of this machine that a connection comes from."""

from __future__ import annotations

import ipaddress
import socket
import sys
from pathlib import Path
from typing import Final

TABLES: Final = {socket.AF_INET: Path("/proc/net/tcp"), socket.AF_INET6: Path("/proc/net/tcp6")}
"""The kernel's tables of TCP connections, by the family of their addresses."""
ESTABLISHED: Final = "01"


def account_of_peer(connection: socket.socket) -> int | None:
    """Return the uid of the process at the other end of a loopback connection.

    None if the connection comes from elsewhere, or has ended.
    """
    try:
        peer, here = connection.getpeername(), connection.getsockname()
        ends = _end(peer), _end(here)
    except (OSError, ValueError):
        return None
    if not ends[0][0].is_loopback:
        return None
    family = socket.AF_INET if ends[0][0].version == 4 else socket.AF_INET6
    return _owner(TABLES[family], *map(_in_table, ends))


End = tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]


def _end(address: tuple[str, int]) -> End:
    """Return the address and the port of one end, an IPv4 address in an IPv6 socket as IPv4."""
    found = ipaddress.ip_address(address[0].partition("%")[0])
    mapped = getattr(found, "ipv4_mapped", None)
    return mapped or found, address[1]


def _in_table(end: End) -> str:
    """Return an end as the kernel's tables have it: words of 32 bits in the machine's order, and the port."""
    packed = end[0].packed
    words = (int.from_bytes(packed[at : at + 4], sys.byteorder) for at in range(0, len(packed), 4))
    return f"{''.join(f'{word:08X}' for word in words)}:{end[1]:04X}"


def _owner(table: Path, local: str, remote: str) -> int | None:
    """Return the uid of the established connection between two ends, None if there is none."""
    for line in table.read_text(encoding="ascii").splitlines()[1:]:
        _, here, there, state, _, _, _, uid, *_ = line.split()
        if (here, there, state) == (local, remote, ESTABLISHED):
            return int(uid)
    return None

"""The state directory of one pool, as far as the hub's side has to do with it: secrets and ports."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import secrets
import socket
import tempfile
from collections.abc import Iterable
from pathlib import Path

LOOPBACK = "127.0.0.1"
LOWEST_PORT, HIGHEST_PORT = 10_000, 65_535
OUTGOING_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")


class StateError(Exception):
    """The state directory cannot be used; the message is for the person who chose it."""


class StateDir:
    """A pool's state directory; made if it is not there."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().resolve()
        try:
            self.path.mkdir(mode=0o711, parents=True, exist_ok=True)
            (self.path / "hub").mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise StateError(
                f"The state directory {self.path} cannot be made: {error.strerror}. "
                "Choose another with --state-dir (or c.Springtide.state_dir)."
            ) from error

    @property
    def hub(self) -> Path:
        """What belongs to the hub: its database, its log, its secrets."""
        return self.path / "hub"

    @property
    def homes(self) -> Path:
        """The home directories of the single-user set-up."""
        return self.path / "homes"

    def secret(self, name: str) -> str:
        """A random secret that stays the same; its file is for the owner's eyes only."""
        file = self.path / name
        with contextlib.suppress(FileExistsError):
            _create(file, secrets.token_hex(32), 0o600)
        try:
            if file.stat().st_mode & 0o077:
                file.chmod(0o600)
            return file.read_text().strip()
        except OSError as error:
            raise StateError(f"The secret in {file} cannot be read: {error.strerror}.") from error

    def ports(self, names: Iterable[str], *, taken: Iterable[int] = ()) -> dict[str, int]:
        """A free loopback port for each name, the same ever after: running notebooks know them.

        ``taken`` are ports that are meant for others. Raises `StateError` if the file with them is damaged.
        """
        file = self.path / "ports.json"
        known: dict[str, int] = {}
        with contextlib.suppress(FileNotFoundError):
            try:
                known = {str(name): int(port) for name, port in json.loads(file.read_text()).items()}
            except (ValueError, AttributeError, TypeError) as error:
                raise StateError(
                    f"{file} is damaged ({error}). Remove it, and restart the notebooks that run."
                ) from error
        missing = [name for name in names if name not in known]
        if missing:
            known |= zip(missing, free_ports(len(missing), avoid={*known.values(), *taken}), strict=True)
            _replace(file, json.dumps(known))
        return known


def free_ports(number: int, *, avoid: Iterable[int] = ()) -> list[int]:
    """Loopback ports that nobody listens on, and that no outgoing connection takes while they are idle.

    Raises `StateError` if there are not so many.
    """
    candidates = list(set(range(LOWEST_PORT, HIGHEST_PORT + 1)) - set(avoid) - set(_outgoing_ports()))
    random.SystemRandom().shuffle(candidates)
    free = (port for port in candidates if port_is_free(port))
    found = list(itertools.islice(free, number))
    if len(found) < number:
        raise StateError(f"No {number} ports between {LOWEST_PORT} and {HIGHEST_PORT} are free on this machine.")
    return found


def _outgoing_ports() -> range:
    """The ports that the kernel gives to outgoing connections, as far as that leaves others."""
    try:
        first, last = map(int, OUTGOING_PORTS.read_text().split())
    except (OSError, ValueError):
        return range(0)
    return range(first, last + 1) if first > LOWEST_PORT or last < HIGHEST_PORT else range(0)


def port_is_free(port: int) -> bool:
    """Whether a server can listen on the loopback port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def _create(file: Path, text: str, mode: int) -> None:
    """Make a file with its content at once, so that nobody ever sees half of it."""
    written = _beside(file, text, mode)
    try:
        os.link(written, file)
    finally:
        written.unlink()


def _replace(file: Path, text: str) -> None:
    _beside(file, text, 0o600).replace(file)


def _beside(file: Path, text: str, mode: int) -> Path:
    descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    with os.fdopen(descriptor, "w") as out:
        os.fchmod(descriptor, mode)
        out.write(text)
        out.flush()
        os.fsync(descriptor)
    return Path(name)

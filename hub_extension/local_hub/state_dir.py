"""The hub's part of a pool's state directory: secrets and ports."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import secrets
import socket
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from springtide.scheduler.executors.supervisor.table import ENDED, process
from springtide.scheduler.own_files import keep_from_others, make_own_directory, try_lock
from springtide.scheduler.wording import size

ROOM = 1 << 20
"""Room without which a hub does not start, in bytes."""
LOOPBACK = "127.0.0.1"
LOWEST_PORT, HIGHEST_PORT = 10_000, 65_535
LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
"""Letters and digits of passwords, without those that are easily confused."""
GROUPS = 4
"""Number of groups of four characters in a password, which give 79 bits of randomness."""
LOCK = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
LOCK_PATIENCE_S = 5.0
"""Time in which a process that a killed hub was starting runs its own program, in seconds."""
OUTGOING_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")


class StateError(Exception):
    """The state directory cannot be used; the message is shown to the user."""


class StateDir:
    """A pool's state directory, which is created if it does not exist."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().resolve()
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            make_own_directory(self.hub, 0o700)
        except OSError as error:
            raise StateError(
                f"The state directory {error.filename} cannot be made: {error.strerror}. "
                "Choose another with --state-dir (or c.Springtide.state_dir)."
            ) from error

    @property
    def hub(self) -> Path:
        """Directory of the hub's database, log and secrets."""
        return self.path / "hub"

    @property
    def homes(self) -> Path:
        """Directory of the home directories of the single-user set-up."""
        return self.path / "homes"

    @property
    def password_file(self) -> Path:
        """File that holds the `password`."""
        return self.path / "password"

    @property
    def addresses_file(self) -> Path:
        """File that holds the `addresses`."""
        return self.hub / "addresses.json"

    def addresses(self) -> dict[str, str]:
        """Return the URLs of the parts of the hub that runs, or ran last, by name; none before the first start."""
        try:
            known = json.loads(self.addresses_file.read_text())
            return {str(name): str(url) for name, url in known.items()}
        except (OSError, ValueError, AttributeError):
            return {}

    def note_addresses(self, urls: Mapping[str, str]) -> None:
        """Keep the URLs of the parts of the hub that starts, by name. Raises `StateError` if that fails."""
        with _written(self.addresses_file):
            _replace(self.addresses_file, json.dumps(urls))

    def obstacle(self) -> str | None:
        """Return why nothing can be written into the directory, as a sentence with a hint; None if that works."""
        try:
            with tempfile.TemporaryFile(dir=self.hub) as file:
                file.write(bytes(ROOM))
                file.flush()
        except OSError as error:
            return self.obstacle_of(error)
        return None

    def obstacle_of(self, error: OSError) -> str | None:
        """Return the sentence about an error of a disk that takes no more, None for any other error."""
        if error.errno == errno.EROFS:
            return (
                f"The state directory {self.path} is on a disk that can only be read. Make it writable, or choose "
                "another directory with --state-dir."
            )
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            return None
        disk = os.statvfs(self.path)
        if disk.f_files and not disk.f_favail:
            return (
                f"The disk of the state directory {self.path} takes no more files: it has no free inodes (df -i). "
                "Remove files there, and start again."
            )
        free = size(disk.f_bavail * disk.f_frsize)
        whose = "The disk" if error.errno == errno.ENOSPC else "Your quota on the disk"
        return (
            f"{whose} of the state directory {self.path} is full: {free} are free (df -h). Make room there, and "
            "start again."
        )

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the state directory. Raises `StateError` if another hub holds it.

        A child that a killed hub was starting may hold the lock for `LOCK_PATIENCE_S`.
        """
        deadline = time.monotonic() + LOCK_PATIENCE_S
        with os.fdopen(os.open(self.hub / "up.lock", LOCK, 0o600), "a+") as lock:
            while not try_lock(lock.fileno()):
                lock.seek(0)
                holder = lock.read().strip()
                if not _has_ended(holder) or time.monotonic() > deadline:
                    raise StateError(
                        f"Another `springtide up` (process {holder or 'unknown'}) uses the state "
                        f"directory {self.path}. Stop that one, or choose another directory with --state-dir."
                    )
                time.sleep(0.1)
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield

    def secret(self, name: str) -> str:
        """Return the random secret with a name, created at the first call; only the owner may read its file.

        Raises `StateError` if the file cannot be read or written or is empty.
        """
        return _kept(self.path / name, lambda: secrets.token_hex(32))

    def password(self) -> str:
        """Return the random password of the demonstration's users, created at the first call; see `secret`."""
        return _kept(self.password_file, _password)

    def ports(self, names: Iterable[str], *, taken: Iterable[int] = ()) -> dict[str, int]:
        """Return a free loopback port for each name.

        Later calls return the same ports, because running notebooks use them. ``taken`` are ports that are meant
        for other servers. Raises `StateError` if the file with the ports is damaged or cannot be written, or if
        too few ports are free.
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
            with _written(file):
                _replace(file, json.dumps(known))
        return known


def write_for_all(file: Path, text: str) -> None:
    """Write a file that all accounts may read, in place of any file there. Raises `OSError`."""
    _beside(file, text, 0o644).replace(file)


def free_ports(number: int, *, avoid: Iterable[int] = ()) -> list[int]:
    """Return ``number`` unused loopback ports outside the range that the kernel uses for outgoing connections.

    They are the next ones after a random port. Raises `StateError` if fewer are free.
    """
    candidates = sorted(set(range(LOWEST_PORT, HIGHEST_PORT + 1)) - set(avoid) - set(_outgoing_ports()))
    first = secrets.randbelow(len(candidates) or 1)
    free = (port for port in candidates[first:] + candidates[:first] if port_is_free(port))
    found = list(itertools.islice(free, number))
    if len(found) < number:
        raise StateError(f"No {number} ports between {LOWEST_PORT} and {HIGHEST_PORT} are free on this machine.")
    return found


def _outgoing_ports() -> range:
    """Return the range of ports that the kernel uses for outgoing connections.

    The result is empty if the range is unknown or covers all candidates.
    """
    try:
        first, last = map(int, OUTGOING_PORTS.read_text().split())
    except (OSError, ValueError):
        return range(0)
    return range(first, last + 1) if first > LOWEST_PORT or last < HIGHEST_PORT else range(0)


def _has_ended(pid: str) -> bool:
    """Return whether there is a pid and its process has ended."""
    found = process(int(pid)) if pid.isdecimal() else None
    return pid.isdecimal() and (found is None or found.state in ENDED)


def port_is_free(port: int) -> bool:
    """Return whether a server can listen on the loopback port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def _password() -> str:
    groups = ("".join(secrets.choice(LETTERS) for _ in range(4)) for _ in range(GROUPS))
    return "-".join(groups)


def _kept(file: Path, make: Callable[[], str]) -> str:
    """Return the content of the file, which is created with the result of ``make`` if it does not exist.

    Raises `StateError` if the file cannot be read or written or is empty.
    """
    if not file.exists():
        with contextlib.suppress(FileExistsError), _written(file):
            _create(file, make(), 0o600)
    try:
        keep_from_others(file)
        text = file.read_text().strip()
    except OSError as error:
        raise StateError(f"The secret in {file} cannot be read: {error.strerror}.") from error
    if not text:
        raise StateError(f"{file} is empty. Remove it, and the next start writes a new one.")
    return text


def _create(file: Path, text: str, mode: int) -> None:
    """Create a file with its content atomically. Raises `FileExistsError` if it exists."""
    written = _beside(file, text, mode)
    try:
        os.link(written, file)
    finally:
        written.unlink()


def _replace(file: Path, text: str) -> None:
    _beside(file, text, 0o600).replace(file)


def _beside(file: Path, text: str, mode: int) -> Path:
    descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        os.fchmod(descriptor, mode)
        os.write(descriptor, text.encode())
        os.fsync(descriptor)
    except BaseException:
        Path(name).unlink()
        raise
    finally:
        os.close(descriptor)
    return Path(name)


@contextlib.contextmanager
def _written(file: Path) -> Iterator[None]:
    """Convert an `OSError` of writing a file into a `StateError`, except `FileExistsError`."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        raise StateError(
            f"{file} cannot be written: {error.strerror}. Make room or choose another state directory."
        ) from error

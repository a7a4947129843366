"""The account of each user on this machine."""

from __future__ import annotations

import fcntl
import grp
import json
import os
import pwd
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from springtide.scheduler import wording
from springtide.scheduler.executors.accounts.account import (
    Account,
    AccountError,
    closed_ways,
    home_name,
    interpreter_places,
    make_private,
    may_enter,
    may_mount,
)
from springtide.scheduler.executors.accounts.uid_ranges import UidRanges, replace_durably
from springtide.scheduler.executors.library import PROGRAMS
from springtide.scheduler.former_names import former_name
from springtide.scheduler.own_files import make_own_directory, make_root

DEFAULT_UIDS = (2_100_000_000, 2_100_065_535)
"""First and last uid of the pools' accounts: above the ranges of passwd, subuid, systemd and SSSD."""
MACHINE = Path("/var/lib/springtide/uids.json")
"""The file in which all pools of a machine record their uids."""
LOWEST_UID = 1000
"""Accounts below are those of the system: no job and no notebook runs as one of them."""
SHELLS = ("/bin/bash", "/bin/sh")
SUBORDINATE = (Path("/etc/subuid"), Path("/etc/subgid"))
UID_MAP = Path("/proc/self/uid_map")
LOCK = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
ENTERED = 0o711
"""Mode of directories that accounts pass through to their own files and cannot list."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A numeric account: its uid, and the name of its home directory, empty for that of the user's name.

    ``identity`` is that of its user in JupyterHub, empty while unknown; ``earlier`` are the user's previous names.
    """

    uid: int
    home: str = ""
    identity: str = ""
    earlier: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SharedUid:
    """A uid given by two pools of this machine, each to a user of its own."""

    uid: int
    user: str
    pool: Path
    other_user: str


class Accounts:
    """The accounts of the users of one pool, kept in its state directory.

    A user runs as the account of this machine that is named like her. One who has none gets an account of the
    pool's own when she is first seen: a uid and gid of the range ``uids`` (first and last) and a home directory in
    the state directory. It is hers from then on, also if an account of her name is made later; no uid is given
    twice, nor by two pools of this machine, which share the file ``registry``. Hub and service share the file
    ``accounts.json``.
    """

    def __init__(self, state: Path, uids: tuple[int, int] = DEFAULT_UIDS, registry: Path | None = None) -> None:
        self._state = state.resolve()
        self._uids = range(uids[0], uids[1] + 1)
        self._ranges = UidRanges(MACHINE if registry is None else registry)
        self._file = self._state / "accounts.json"
        self._homes = self._state / "homes"
        self._jobs = self._state / "jobs"
        self._programs = self._state / PROGRAMS
        self._identities: Mapping[str, str] = {}

    def prepare(self) -> None:
        """Make the directories that accounts pass through, and claim the pool's uids on this machine.

        Raises `AccountError` if no account can be used.
        """
        self._check_rights()
        try:
            make_root(self._state, ENTERED)
            for path in (self._homes, self._jobs, self._programs):
                make_own_directory(path, ENTERED)
        except OSError as error:
            what = f"{error.filename} cannot be made: {error.strerror}"
            raise AccountError(f"The directories of accounts cannot be used: {what}.") from error
        self._check_reach()
        with self._locked():
            self._ranges.claim(self._state, [entry.uid for entry in self._read().values()])

    def check(self) -> None:
        """Raise `AccountError` if no account can be used, without making anything."""
        self._check_rights()
        self._check_reach()

    def _check_rights(self) -> None:
        if os.geteuid() != 0:
            raise AccountError(
                "Jobs and notebooks run as their users' own accounts only where the hub runs as root."
            )
        self._check_range()

    def of(self, user: str, identity: str = "") -> Account:
        """Return the user's account; make one, with its home, if there is none.

        ``identity`` is the identity of the JupyterHub user with this name, if known: the numeric account of an
        earlier user of the name is not hers. Raises `AccountError` if she cannot have one.
        """
        if not user or "\0" in user:
            raise AccountError(f"{wording.given(user)} cannot be the name of an account.")
        with self._locked():
            before = self._read()
            identity = identity or self._identities.get(user, "")
            known = _with_names(before, {identity: user}) if identity else before
            entry = known.get(user)
            own = None if entry is not None else _account_of_machine(user)
            if entry is None and own is None:
                uid = self._unused(known)
                taken = any(other.home == home_name(user) for other in known.values())
                entry = Entry(uid, f"~{uid}" if taken else "", identity)
                known = {**known, user: entry}
            if known != before:
                self._write(known)
        if own is not None:
            return self._with_view(own)
        assert entry is not None
        return self._numeric(user, entry)

    def follow_users(self, names: Mapping[str, str]) -> None:
        """Keep each numeric account with its user, whose name may have changed; ``names`` are those by identity.

        Raises `AccountError`.
        """
        self._identities = {name: identity for identity, name in names.items()}
        with self._locked():
            before = self._read()
            known = _with_names(before, names)
            if known != before:
                self._write(known)

    def known(self, user: str) -> int | None:
        """Return the uid of the user's account without making one; None if she has none."""
        try:
            entry = self._read().get(user)
        except AccountError:
            return None
        if entry is not None:
            return entry.uid
        with suppress(KeyError):
            return pwd.getpwnam(user).pw_uid
        return None

    def uids_of(self, user: str) -> frozenset[int]:
        """Return the uids of the present and the former users of a name; empty if there are none.

        Processes started by them still belong to the name.
        """
        try:
            entries = self._read()
        except AccountError:
            return frozenset()
        own = self.known(user)
        earlier = {entry.uid for entry in entries.values() if user in entry.earlier}
        return frozenset(earlier if own is None else {*earlier, own})

    # ---------- uids that two pools have

    def shared_uids(self) -> list[SharedUid]:
        """Return the uids that another pool of this machine has given, too. Raises `AccountError`."""
        mine = {entry.uid: user for user, entry in self._read().items()}
        found = []
        for pool in self._ranges.others(self._state):
            with suppress(AccountError):
                theirs = Accounts(pool)._read()  # noqa: SLF001 - of the same class
                found += [
                    SharedUid(entry.uid, mine[entry.uid], pool, user)
                    for user, entry in theirs.items()
                    if entry.uid in mine
                ]
        return found

    def renumber(self) -> dict[str, tuple[int, int]]:
        """Give users whose uid another pool of this machine has, too, new uids and their files; blocks.

        Returns former and new uid by user. Files are handed over before the new uid is recorded: the next call
        finishes an interrupted one. Raises `AccountError` while a process runs with such a uid.
        """
        changed: dict[str, tuple[int, int]] = {}
        with self._locked():
            known = self._read()
            shared = {shared_uid.user: shared_uid.uid for shared_uid in self.shared_uids()}
            for uid in shared.values():
                pids = [path.name for path in Path("/proc").glob("[0-9]*") if _owner_of(path) == uid]
                if pids:
                    raise AccountError(
                        f"Processes run with the uid {uid} ({wording.listed(pids)}). Stop the notebooks and jobs "
                        "of both pools first."
                    )
            for user, uid in sorted(shared.items()):
                new = self._unused(known)
                for place in (self._homes, self._jobs):
                    _give(place, uid, new)
                known = {**known, user: replace(known[user], uid=new)}
                self._write(known)
                changed[user] = uid, new
        return changed

    # ---------- numeric accounts

    def _numeric(self, user: str, entry: Entry) -> Account:
        uid = entry.uid
        with suppress(KeyError):
            other = pwd.getpwuid(uid).pw_name
            raise AccountError(
                f"The uid {uid}, which the pool gave to {wording.given(user)}, is now that of the account "
                f"{wording.given(other)} of this machine. Give {wording.given(other)} another one."
            )
        home = self._homes / (entry.home or home_name(user))
        try:
            make_private(home, (uid, uid))
        except OSError as error:
            raise AccountError(
                f"The home directory {home} of {wording.given(user)} cannot be made: {error.strerror}."
            ) from error
        shell = next((path for path in SHELLS if Path(path).exists()), SHELLS[-1])
        return self._with_view(Account(user, uid, uid, (uid,), str(home), shell, numeric=True))

    def _unused(self, known: Mapping[str, Entry]) -> int:
        """Return the pool's next uid without a use on this machine. Raises `AccountError`."""
        given = {entry.uid for entry in known.values()} | self._owners_of_homes()
        self._ranges.claim(self._state, given)
        candidates = self._ranges.candidates(self._state, self._uids, given)
        return next(uid for uid in candidates if uid not in given and not _exists(uid))

    # ---------- the file

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            file = os.open(self._state / "accounts.lock", LOCK, 0o600)
        except OSError as error:
            raise AccountError(f"The accounts in {self._state} cannot be locked: {error.strerror}.") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)

    def _read(self) -> dict[str, Entry]:
        try:
            found = json.loads(self._file.read_text())
        except FileNotFoundError:
            if self._owners_of_homes():
                raise AccountError(self._damaged(f"it is missing, and {self._homes} has homes of users")) from None
            return {}
        except (OSError, ValueError) as error:
            raise AccountError(self._damaged(str(error))) from error
        entries = {user: _entry(data) for user, data in found.items()} if isinstance(found, dict) else {"": None}
        known = {user: entry for user, entry in entries.items() if entry is not None}
        if len(known) < len(entries):
            raise AccountError(self._damaged("it is no table of uids by user"))
        uids = {entry.uid for entry in known.values()}
        if len(uids) < len(known) or min(uids, default=LOWEST_UID) < LOWEST_UID:
            raise AccountError(self._damaged(f"a uid is there twice or is below {LOWEST_UID}"))
        return known

    def _owners_of_homes(self) -> set[int]:
        """Return the pool's uids that own homes."""
        homes = self._homes.iterdir() if self._homes.is_dir() else ()
        return {uid for uid in map(_owner_of, homes) if uid is not None and uid in self._uids}

    def _damaged(self, why: str) -> str:
        return f"{self._file}, which says whose account is which, cannot be used: {why}. Restore it from a backup."

    def _write(self, known: Mapping[str, Entry]) -> None:
        """Write the table to disk, before any entry is used."""
        table = {user: _encoded(entry) for user, entry in known.items()}
        try:
            replace_durably(self._file, json.dumps(table, indent=1))
        except OSError as error:
            raise AccountError(f"{self._file} cannot be written: {error.strerror}.") from error

    # ---------- checks

    def _check_range(self) -> None:
        first, last = self._uids.start, self._uids.stop - 1
        setting = f"c.Springtide.account_uids = ({first}, {last})"
        if not LOWEST_UID <= first <= last < 2**31:
            raise AccountError(f"{setting}: expected first and last uid, from {LOWEST_UID} to {2**31 - 1}.")
        if not any(start <= first and last < start + count for start, count in _mapped_uids()):
            raise AccountError(f"{setting}: this container does not have all of these uids. Set a range it has.")
        for taken, what in _taken_ids():
            if taken.start <= last and first < taken.stop:
                raise AccountError(f"{setting} overlaps {what}. Set a range that nothing else uses.")

    def _places(self) -> tuple[Path, ...]:
        return (*interpreter_places(), self._state / "jupyter", self._homes, self._jobs, self._programs)

    def _with_view(self, account: Account) -> Account:
        view = closed_ways(self._places(), account.uid, account.groups)
        own = (account.name, account.uid, account.gid, account.groups, account.home, account.shell)
        return Account(*own, numeric=account.numeric, view=view)

    def _check_reach(self) -> None:
        anybody = self._uids.start
        for place in self._places():
            if place.is_dir() and not may_enter(place.stat(), anybody, (anybody,)):
                raise AccountError(
                    f"Other accounts cannot use {place}, which jobs and notebooks need: they may not enter it. "
                    f"Allow it (chmod -R go+rX {place})."
                )
        closed = [way for way, _ in closed_ways(self._places(), anybody, (anybody,))]
        if closed and not may_mount():
            raise AccountError(
                f"Jobs and notebooks cannot reach their files: {closed[0]} may not be entered by other accounts. "
                f"Allow it (chmod o+x {closed[0]}), or install Python and put the state directory elsewhere."
            )


def _entry(data: Any) -> Entry | None:
    """Return one user's entry of the file, a uid or a table with one; None if it is invalid."""
    if type(data) is int:
        return Entry(data)
    if not isinstance(data, dict) or type(data.get("uid")) is not int:
        return None
    earlier = data.get("earlier", [])
    if not isinstance(earlier, list):
        return None
    return Entry(data["uid"], str(data.get("home", "")), str(data.get("identity", "")), tuple(map(str, earlier)))


def _encoded(entry: Entry) -> int | dict[str, Any]:
    more = {name: value for name in ("home", "identity", "earlier") if (value := getattr(entry, name))}
    return {"uid": entry.uid, **more} if more else entry.uid


def _with_names(known: Mapping[str, Entry], names: Mapping[str, str]) -> dict[str, Entry]:
    """Return the table in which each account has the name of its user; ``names`` are those of users by identity.

    An account whose name another user has is kept under another name, with its home.
    """
    identities = {name: identity for identity, name in names.items()}
    found: dict[str, Entry] = {}
    for user, entry in sorted(known.items(), key=lambda item: not item[1].identity):
        identity = entry.identity or identities.get(user, "")
        name = names.get(identity, user)
        if identities.get(name, identity) != identity:
            name = former_name(user, identity)
        while name in found:
            name = former_name(name, identity)
        if name != user:
            earlier = tuple(dict.fromkeys((*entry.earlier, user)))
            entry = replace(entry, home=entry.home or home_name(user), earlier=earlier)  # noqa: PLW2901
        found[name] = replace(entry, identity=identity)
    return found


def _owner_of(path: Path) -> int | None:
    try:
        return path.stat().st_uid
    except OSError:
        return None


def _give(place: Path, old: int, new: int) -> None:
    """Give all files below a directory of ``old`` to ``new``, user and group; links themselves, never followed."""
    for _, directories, files, handle in os.fwalk(place, topdown=False, follow_symlinks=False):
        for name in (*directories, *files):
            if os.stat(name, dir_fd=handle, follow_symlinks=False).st_uid == old:
                os.chown(name, new, new, dir_fd=handle, follow_symlinks=False)


def _account_of_machine(user: str) -> Account | None:
    """Return the account of this machine that is named like the user. Raises `AccountError` for the system's."""
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        return None
    if entry.pw_uid < LOWEST_UID:
        raise AccountError(
            f"Neither jobs nor notebooks run as {wording.given(user)}: uid {entry.pw_uid} is an account of the "
            f"system (below {LOWEST_UID}). Let this person log in under another name."
        )
    groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
    return Account(
        entry.pw_name,
        entry.pw_uid,
        entry.pw_gid,
        groups,
        entry.pw_dir,
        entry.pw_shell or SHELLS[-1],
        numeric=False,
    )


def _exists(number: int) -> bool:
    """Return whether an account or a group of this machine has the number."""
    for look in (pwd.getpwuid, grp.getgrgid):
        with suppress(KeyError):
            look(number)
            return True
    return False


def _mapped_uids() -> Iterable[tuple[int, int]]:
    """Return the uid ranges of this user namespace: the first uid and the number of uids of each."""
    rows = (line.split() for line in UID_MAP.read_text(encoding="ascii").splitlines())
    return [(int(row[0]), int(row[2])) for row in rows]


def _taken_ids() -> Iterator[tuple[range, str]]:
    """Yield the used id ranges of this machine with their users, as far as its files list them."""
    for entry in pwd.getpwall():
        yield (
            range(entry.pw_uid, entry.pw_uid + 1),
            f"the account {wording.given(entry.pw_name)} (uid {entry.pw_uid})",
        )
    for group in grp.getgrall():
        yield (
            range(group.gr_gid, group.gr_gid + 1),
            f"the group {wording.given(group.gr_name)} (gid {group.gr_gid})",
        )
    for path in SUBORDINATE:
        with suppress(FileNotFoundError):
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                name, _, numbers = line.partition(":")
                first, _, count = numbers.partition(":")
                if first.isdecimal() and count.isdecimal():
                    taken = range(int(first), int(first) + int(count))
                    yield (
                        taken,
                        f"the subordinate ids of {wording.given(name)} in {path} ({first}, {count} of them)",
                    )

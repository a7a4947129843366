"""Packages of the operating system that the tests need: browser, database server, compiler, parts of a node."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from programs.commands import run, search_path, step

CHROMIUM = "chromium"
HEADLESS = "chromium-headless-shell"
"""Chromium without windows, notifications and the like, which take most of its time."""
POSTGRES = Path("/usr/lib/postgresql")
CNI_PLUGIN = Path("/usr/lib/cni/ptp")
ARCHIVE_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
LOCK_TIMEOUT_S = 600

# Programs of a real node, and the Debian packages that contain them.
NODE_PROGRAMS = {
    "buildah": "buildah",
    "containerd": "containerd",
    "ctr": "containerd",
    "debootstrap": "debootstrap",
    "ip": "iproute2",
    "iptables": "iptables",
    "nsenter": "util-linux",
    "runc": "runc",
    "setpriv": "util-linux",
    "socat": "socat",
    "unshare": "util-linux",
}


class PackagesMissingError(Exception):
    """Packages are missing that cannot be installed here; the message names them and how to get them."""


def find_program(name: str, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the path of a program, also in the administrator's directories; None when it is missing."""
    found = shutil.which(name, path=search_path(environment))
    return Path(found) if found else None


def find_browser(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the path of the headless shell, else of Chromium; None when both are missing."""
    return find_program(HEADLESS, environment) or find_program(CHROMIUM, environment)


def postgres_programs() -> Path | None:
    """Return the directory with the programs of the newest PostgreSQL server; None when there is none."""
    found = sorted(POSTGRES.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    on_path = find_program("initdb")
    return on_path.parent if on_path else None


def missing_for_nodes(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the packages that a real node needs and this machine lacks."""
    missing = {package for name, package in NODE_PROGRAMS.items() if find_program(name, environment) is None}
    if not CNI_PLUGIN.exists():
        missing.add("containernetworking-plugins")
    if not ARCHIVE_KEYS.exists():
        missing.add("debian-archive-keyring")
    return sorted(missing)


def missing(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return all packages that the tests need and this machine lacks."""
    found = missing_for_nodes(environment)
    found += [name for name in (HEADLESS, CHROMIUM) if find_program(name, environment) is None]
    if CHROMIUM in found:
        found.append("fonts-dejavu")
    if postgres_programs() is None:
        found.append("postgresql")
    if find_program("gcc", environment) is None:
        found.append("gcc")
    return found


def install(packages: Sequence[str], environment: Mapping[str, str] = os.environ) -> None:
    """Install packages with apt; raise `PackagesMissingError` without apt, `CommandError` when apt fails."""
    if not packages:
        return
    if find_program("apt-get", environment) is None:
        raise PackagesMissingError(
            f"The tests need the packages {', '.join(packages)}, and there is no `apt-get`: install them with the "
            "package manager of this system, then run `make tools` again"
        )
    as_root = [] if os.geteuid() == 0 else ["sudo"]
    apt = [*as_root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]
    apt += ["-o", f"DPkg::Lock::Timeout={LOCK_TIMEOUT_S}"]
    with step(f"packages {' '.join(packages)}"):
        run(*apt, "update", environment=environment)
        run(*apt, "install", "-y", "--no-install-recommends", *packages, environment=environment)

"""Servers of Debian's packages that stand beside a hub. They are unpacked: installed ones would run at once."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from clusters.cluster_tools import cache
from machines.system_packages import PackagesMissingError, find_program
from programs.commands import run, step

PACKAGES = {"nginx": "nginx", "caddy": "caddy", "prometheus": "prometheus"}
"""The Debian package of each program."""


def find(name: str, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the path of a program: the machine's, else the unpacked one; None if there is neither."""
    unpacked = next((_directory(environment) / name).glob(f"usr/*bin/{name}"), None)
    return find_program(name, environment) or unpacked


def build(environment: Mapping[str, str] = os.environ) -> None:
    """Unpack the missing programs. Raises `PackagesMissingError` without apt, `CommandError` when apt fails."""
    for name, package in PACKAGES.items():
        if find(name, environment) is not None:
            continue
        if find_program("apt-get", environment) is None:
            raise PackagesMissingError(
                f"The tests need {name}, and there is no `apt-get`: install it with the package manager of this "
                "system, then run `make tools` again"
            )
        with step(f"program {name}"), TemporaryDirectory() as folder:
            run("apt-get", "download", package, cwd=Path(folder), environment=environment)
            _directory(environment).mkdir(parents=True, exist_ok=True)
            [archive] = Path(folder).glob("*.deb")
            run("dpkg-deb", "-x", archive, _directory(environment) / name, environment=environment)


def _directory(environment: Mapping[str, str]) -> Path:
    return cache(environment) / "unpacked"


@contextmanager
def nginx(program: Path, server: str, directory: Path) -> Iterator[Path]:
    """Run nginx with a ``server`` block and what it needs around it; yield its log."""
    config, log = directory / "nginx.conf", directory / "nginx.log"
    config.write_text(
        f"daemon off;\npid {directory}/nginx.pid;\nerror_log {log};\nevents {{}}\n"
        f"http {{\naccess_log off;\n{_scratch(directory)}{server}\n}}\n"
    )
    with _running([program, "-p", directory, "-e", log, "-c", config], log):
        yield log


@contextmanager
def caddy(program: Path, site: str, directory: Path) -> Iterator[Path]:
    """Run Caddy with a ``site`` block, and without its own administration and authorities; yield its log."""
    config, log = directory / "Caddyfile", directory / "caddy.log"
    config.write_text(f"{{\n\tadmin off\n\tauto_https disable_redirects\n\tgrace_period 1s\n}}\n{site}\n")
    with _running([program, "run", "--config", config, "--adapter", "caddyfile"], log, HOME=str(directory)):
        yield log


@contextmanager
def prometheus(program: Path, config: str, directory: Path, port: int) -> Iterator[Path]:
    """Run Prometheus with a configuration on a port of the loopback address; yield its log."""
    file, log = directory / "prometheus.yml", directory / "prometheus.log"
    file.write_text(config)
    options = {
        "config.file": file,
        "storage.tsdb.path": directory / "data",
        "web.listen-address": f"127.0.0.1:{port}",
    }
    with _running([program, *(f"--{name}={value}" for name, value in options.items())], log):
        yield log


def _scratch(directory: Path) -> str:
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    return "".join(f"{kind}_temp_path {directory}/{kind};\n" for kind in kinds)


@contextmanager
def _running(command: list[str | Path], log: Path, **variables: str) -> Iterator[None]:
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*map(str, command)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **variables},
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait()

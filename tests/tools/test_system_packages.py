"""Packages that are missing are installed by apt, in one line; without apt they are named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from machines.system_packages import PackagesMissingError, install, missing
from programs.commands import CommandError

# Stands in for apt, which changes the machine: records what it is asked for.
APT = """#!/bin/sh
echo "$*" >> "$APT_CALLS"
echo "Reading package lists..."
case "$*" in *broken*) echo "E: Unable to locate package broken" >&2; exit 100;; esac
"""
SUDO = '#!/bin/sh\nexec "$@"\n'


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    for name, program in (("apt-get", APT), ("sudo", SUDO)):
        (tmp_path / name).write_text(program)
        (tmp_path / name).chmod(0o755)
    return {"PATH": f"{tmp_path}:{os.environ['PATH']}", "APT_CALLS": str(tmp_path / "calls")}


def test_missing_packages_are_installed_in_one_line(
    environment: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    install(["chromium", "postgresql"], environment)
    update, installed = Path(environment["APT_CALLS"]).read_text().splitlines()
    assert update.endswith("update")
    assert installed.endswith("install -y --no-install-recommends chromium postgresql")
    assert capfd.readouterr().out == "  packages chromium postgresql ... 0 s\n"


def test_with_nothing_missing_nothing_is_done(
    environment: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    install([], environment)
    assert not Path(environment["APT_CALLS"]).exists()
    assert capfd.readouterr().out == ""


def test_what_apt_says_is_shown_when_it_fails(environment: dict[str, str]) -> None:
    with pytest.raises(CommandError, match="Unable to locate package broken"):
        install(["broken"], environment)


def test_without_apt_the_packages_are_named(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("programs.commands.SYSTEM_DIRECTORIES", "")
    with pytest.raises(
        PackagesMissingError, match=r"need the packages chromium, socat.*no `apt-get`.*`make tools`"
    ):
        install(["chromium", "socat"], {**environment, "PATH": "/nonexistent"})


def test_a_program_that_is_not_there_is_missed_by_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("programs.commands.SYSTEM_DIRECTORIES", "")
    wanted = {"chromium", "chromium-headless-shell", "buildah", "gcc", "iproute2", "runc"}
    assert wanted <= set(missing({"PATH": "/nonexistent"}))

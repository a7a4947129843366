"""``%pip install`` in a kernel whose packages the person may not change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from springtide.scheduler.user_environments import how_to_install, installs_here

ELSEWHERE: Final = ("--target", "-t", "--prefix", "--root", "--dry-run", "--help", "-h")
"""Options with which pip installs nothing into the kernel's own directories."""


def guard_pip(shell: Any, *, can_install: Callable[[], bool] = installs_here) -> None:
    """Let ``%pip install`` say what works, if it cannot install into this kernel; all else is pip's as before."""
    before = shell.find_line_magic("pip")
    if before is None or can_install():
        return

    def pip(line: str) -> Any:
        """Run pip in this kernel's environment, whose packages belong to the hub."""
        words = line.split()
        if words[:1] != ["install"] or any(word.partition("=")[0] in ELSEWHERE for word in words):
            return before(line)
        from springtide.widgets.errors import NotInstalledError  # noqa: PLC0415 - every kernel loads this module

        packages = [word.strip("'\"") for word in words[1:] if not word.startswith("-")]
        msg = f"Nothing was installed: {how_to_install(*packages, can_install=False)}"
        raise NotInstalledError(msg)

    shell.register_magic_function(pip, "line", "pip")

"""%pip in a kernel whose packages the person may not change."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from jupyter_client.manager import KernelManager
from patience import PATIENCE_S

from springtide.widgets.errors import NotInstalledError
from springtide.widgets.own_packages import guard_pip
from springtide.widgets.server_extension import KERNEL_START


@pytest.fixture
def asked() -> list[str]:
    """What pip was asked to do."""
    return []


@pytest.fixture
def shell(asked: list[str]) -> Iterator[Any]:
    shell: Any = InteractiveShell()
    shell.register_magic_function(asked.append, "line", "pip")
    yield shell
    shell.history_manager.end_session() if shell.history_manager else None


def test_an_installation_that_cannot_work_is_answered_with_what_does(shell: Any, asked: list[str]) -> None:
    guard_pip(shell, can_install=lambda: False)
    with pytest.raises(NotInstalledError) as refused:
        shell.run_line_magic("pip", "install -q tqdm 'pandas<3'")
    assert str(refused.value) == (
        "Nothing was installed: make an environment of your own (the packages of this kernel belong to the hub), "
        "in a terminal: springtide env create NAME tqdm 'pandas<3'"
    )
    assert asked == []


@pytest.mark.parametrize("line", ["list", "install --target=/tmp/x tqdm", "install --help", "show tqdm", ""])
def test_all_else_is_pips(shell: Any, asked: list[str], line: str) -> None:
    guard_pip(shell, can_install=lambda: False)
    shell.run_line_magic("pip", line)
    assert asked == [line]


def test_where_pip_can_install_it_is_left_alone(shell: Any, asked: list[str]) -> None:
    guard_pip(shell, can_install=lambda: True)
    shell.run_line_magic("pip", "install tqdm")
    assert asked == ["install tqdm"]


def test_kernels_of_the_notebook_server_have_the_magics_and_no_further_names(tmp_path: Path) -> None:
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env={**os.environ, "PYTHONSTARTUP": str(KERNEL_START)}, cwd=str(tmp_path))
    try:
        client = manager.client()
        client.start_channels()
        client.wait_for_ready(timeout=PATIENCE_S)
        printed: list[str] = []
        code = "print('train' in get_ipython().magics_manager.magics['cell'], [n for n in dir() if 'spring' in n])"
        client.execute_interactive(
            code,
            output_hook=lambda message: printed.append(message["content"].get("text", "")),
            timeout=PATIENCE_S,
        )
        assert "".join(printed) == "True []\n"
    finally:
        manager.shutdown_kernel(now=True)

"""The Jupyter server extension: passes requests from the pages of a notebook server to the pool.

A card in JupyterLab asks its own notebook server, which passes the request on to the pool with the token that the
hub gave it. Only the calls listed in `allowed` are passed on, only to the address in ``SPRINGTIDE_URL``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

KERNEL_START: Final = Path(__file__).with_name("kernel_start.py")


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(server: Any) -> None:
    """Add the handlers to a Jupyter server, report its use, and give its pages the address of the pool's pages.

    Its kernels get the magics of Springtide from their start, unless another ``PYTHONSTARTUP`` is set.
    """
    from springtide.widgets.server_extension.activity import report  # noqa: PLC0415 - reads httpx, msgspec
    from springtide.widgets.server_extension.handlers import handlers  # noqa: PLC0415 - needs Jupyter Server

    server.web_app.add_handlers(".*$", handlers(server.web_app.settings["base_url"]))
    server.io_loop.add_callback(report, server, os.environ)
    os.environ.setdefault("PYTHONSTARTUP", str(KERNEL_START))
    pages = os.environ.get("SPRINGTIDE_PAGES", "")
    server.web_app.settings.setdefault("page_config_data", {})["springtidePages"] = pages

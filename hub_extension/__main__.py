"""``python -m springtide.hub_extension`` runs the service; the hub starts it so."""

from __future__ import annotations

import gc
import os
import sys


def run() -> int:
    """Import the service and run it. Imports leave no garbage, so the collector is off meanwhile."""
    gc.disable()
    from springtide.hub_extension.service.service import main  # noqa: PLC0415 - the collector is off by then

    gc.enable()
    return main()


os.umask(0o077)  # files of the service are readable by its own account only
sys.exit(run())

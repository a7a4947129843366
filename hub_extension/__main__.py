"""``python -m springtide.hub_extension`` runs the service; the hub starts it so."""

from __future__ import annotations

import gc
import os
import sys


def run() -> int:
    """Import the service and run it. Nothing that is imported is garbage, so none is looked for meanwhile."""
    gc.disable()
    from springtide.hub_extension.service.service import main  # noqa: PLC0415 - the collector is off by then

    gc.enable()
    return main()


os.umask(0o077)  # what the service keeps is for its own account's eyes only
sys.exit(run())

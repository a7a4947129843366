"""``python -m springtide.hub_extension`` runs the service; the hub starts it so."""

from __future__ import annotations

import os
import sys

from springtide.scheduler.process_tuning import loading


def run() -> int:
    """Import the service and run it. Its modules stay: no collection looks at them, also not the first ones."""
    with loading():
        from springtide.hub_extension.service.service import main  # noqa: PLC0415 - the collector is off by then

    return main()


os.umask(0o077)  # files of the service are readable by its own account only
sys.exit(run())

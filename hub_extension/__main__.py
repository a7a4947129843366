"""``python -m springtide.hub_extension`` runs the service; the hub starts it so."""

from __future__ import annotations

import sys

from springtide.hub_extension.service import main

sys.exit(main())

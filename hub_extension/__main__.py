"""``python -m springtide.hub_extension`` runs the service; the hub starts it so."""

from __future__ import annotations

import os
import sys

from springtide.hub_extension.service.service import main

os.umask(0o077)  # what the service keeps is for its own account's eyes only
sys.exit(main())

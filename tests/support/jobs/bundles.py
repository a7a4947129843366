"""Files of jobs, saved in a store the way the engine does it."""

from __future__ import annotations

from collections.abc import Mapping

from springtide.scheduler.store import Store
from springtide.scheduler.store.bundles import pack
from springtide.scheduler.store.records import Bundle


def save(store: Store, files: Mapping[str, bytes]) -> Bundle:
    """Pack the files and save the bundle in the store; the caller has to commit it."""
    bundle = pack(files)
    store.save_bundle(bundle)
    return bundle

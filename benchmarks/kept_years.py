"""Years of data that benchmarks measure on, made once and kept in the cache of the project's tools."""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from clusters import cluster_tools

STORE = Path(__file__).parents[1] / "scheduler" / "store"


def kept_year(name: str, recipe: object, sources: Iterable[str], fill: Callable[[Path], object]) -> Path:
    """Return the folder of a year's store in the cache; ``fill`` makes the store unless it is there.

    Another ``recipe``, other ``sources`` (files of benchmarks) or another code of the store make it anew in place
    of the older one.
    """
    digest = hashlib.sha256(repr(recipe).encode())
    for source in sorted([*map(Path, sources), *STORE.rglob("*.py")]):
        digest.update(source.read_bytes())
    cache = cluster_tools.cache()
    folder = cache / f"{name}-{digest.hexdigest()[:12]}"
    if folder.exists():
        return folder
    for older in cache.glob(f"{name}-*"):
        shutil.rmtree(older)
    cache.mkdir(parents=True, exist_ok=True)
    print(f"Making the year in {folder}; once, and two minutes or more of one core.", flush=True)
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=cache) as scratch:
        made = Path(scratch) / "year"
        made.mkdir()
        fill(made)
        made.replace(folder)
    return folder

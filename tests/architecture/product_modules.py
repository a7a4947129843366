"""The modules of the product and their files."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("hub_extension", "scheduler", "spawner", "training", "widgets")


def module_files() -> dict[str, Path]:
    """Return the files of the product by module, such as ``scheduler.policy.cycle``."""
    files = {}
    for folder in PRODUCT:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files

"""Scripts and style sheets of the pages, at addresses that change with their content."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

from tornado.web import HTTPError, StaticFileHandler

from springtide.hub_extension.web.handler import HEADERS, NOTHING_POLICY

KEPT = "public, max-age=31536000, immutable"
WORKER_POLICY = f"{NOTHING_POLICY}; script-src 'self'; connect-src 'self'"
"""Content-Security-Policy of workers, which import modules and read from the pool; other files may do nothing."""
_SUFFIXES = frozenset({".js", ".css", ".svg"})


class Files(StaticFileHandler):
    """Handler of scripts and style sheets, which are public.

    A browser keeps those whose address has the digest of all of them, and revalidates others at each use: either
    way all files change together at an upgrade.
    """

    def initialize(self, path: str, *, kept: bool = False) -> None:  # type: ignore[override]
        """Store the folder ``path``, and whether the address has the digest of the files as they are."""
        super().initialize(path)
        self._kept = kept

    def set_extra_headers(self, path: str) -> None:
        """Set how long browsers may use a file without asking, and what a worker may do."""
        if path.endswith("_worker.js"):
            self.set_header("Content-Security-Policy", WORKER_POLICY)
        self.set_header("Cache-Control", KEPT if self._kept else "no-cache")

    def set_default_headers(self) -> None:
        """Set the security headers of the service's other answers: no page may frame or open a file."""
        self.set_header("Content-Security-Policy", NOTHING_POLICY)
        for name, value in HEADERS.items():
            self.set_header(name, value)

    @classmethod
    def get_absolute_path(cls, root: str, path: str) -> str:
        """Return the path of a file, which need not exist. Raises `HTTPError` 404 for a name with a null byte."""
        if "\0" in path:
            raise HTTPError(404)
        return str(super().get_absolute_path(root, path))

    def validate_absolute_path(self, root: str, absolute_path: str) -> str | None:
        """Return the path of a script, style sheet or image. Raises `HTTPError` 404 for other files."""
        if Path(absolute_path).suffix not in _SUFFIXES:
            raise HTTPError(404)
        return super().validate_absolute_path(root, absolute_path)


def digest(folders: Iterable[Path]) -> str:
    """Return a digest, 16 hexadecimal digits, of the names and contents of all files of the folders."""
    sha = sha256()
    for folder in folders:
        for path in sorted(path for path in folder.rglob("*") if path.suffix in _SUFFIXES):
            content = path.read_bytes()
            sha.update(f"{path.relative_to(folder)}\0{len(content)}\0".encode())
            sha.update(content)
    return sha.hexdigest()[:16]


def file_handlers(at: str, version: str, visuals: Path, own: Path) -> list[tuple[str, type[Any], dict[str, Any]]]:
    """Return the handlers of all files below ``at``, a regular expression; ``version`` is their `digest`.

    A page that was opened before an upgrade imports by the digest of its time, and gets the files there are now.
    """
    return [
        (rf"{at}{version}/visuals/(.+)", Files, {"path": str(visuals), "kept": True}),
        (rf"{at}{version}/(.+)", Files, {"path": str(own), "kept": True}),
        (rf"{at}(?:[0-9a-f]{{16}}/)?visuals/(.+)", Files, {"path": str(visuals)}),
        (rf"{at}(?:[0-9a-f]{{16}}/)?(.+)", Files, {"path": str(own)}),
    ]

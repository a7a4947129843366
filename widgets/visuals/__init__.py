"""The picture language: plain ES modules and style sheets, the same for notebook cards and pages.

Pages are served the files as they are. A notebook's card is one module made of them by `bundle`.
"""

from __future__ import annotations

import re
from importlib.resources import files

_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([a-z_]+\.js)";\n', re.MULTILINE)
_SHEETS = ("tokens.css", "bars.css", "card.css", "charts.css")


def bundle(*names: str) -> str:
    """One ES module of the named modules and all they import, each before those that import it.

    Import lines are dropped, so top-level names are unique across the modules of this folder. Raises
    `FileNotFoundError` for a module that does not exist.
    """
    placed: dict[str, str] = {}
    for name in names:
        _place(name, placed, ())
    return "\n".join(placed.values())


def stylesheet() -> str:
    """All style sheets as one."""
    return "\n".join(_text(name) for name in _SHEETS)


def _place(name: str, placed: dict[str, str], importers: tuple[str, ...]) -> None:
    if name in placed:
        return
    if name in importers:
        raise ImportError(f"{' imports '.join((*importers, name))}: a circle")
    source = _text(name)
    for imported in _IMPORT.findall(source):
        _place(imported, placed, (*importers, name))
    placed[name] = _IMPORT.sub("", source)


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")

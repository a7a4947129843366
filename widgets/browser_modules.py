"""The picture language in ``visuals``: plain ES modules and style sheets, the same for notebook cards and pages.

Pages are served the files as they are. A notebook's card is one module made of them by `bundle`. The folders, from
the lowest to the highest: ``base`` (elements, words, marks), ``charts``, ``outputs`` (the files of a
job), ``views`` (cards, logs, the pool at a glance), ``live`` (what follows the pool), ``notebook`` (the widgets'
modules). ``styles`` has the style sheets.
"""

from __future__ import annotations

import posixpath
import re
from importlib.resources import files
from typing import Final

VISUALS: Final = files(__package__) / "visuals"
_IMPORT = re.compile(r'^import \{[^}]*\} from "(\.{1,2}/[a-z_/]+\.js)";\n', re.MULTILINE)
_SHEETS = ("tokens.css", "bars.css", "card.css", "charts.css", "sweep.css", "form.css")


def bundle(*names: str) -> str:
    """Return one ES module of the named modules and all they import, each before those that import it.

    Names are paths in `VISUALS`. Import lines are dropped, so top-level names are unique across all modules.
    Raises `FileNotFoundError` for a module that does not exist, and `ImportError` for a circle.
    """
    placed: dict[str, str] = {}
    for name in names:
        _place(name, placed, ())
    return "\n".join(placed.values())


def stylesheet() -> str:
    """Return all style sheets as one."""
    return "\n".join(_text(f"styles/{name}") for name in _SHEETS)


def _place(name: str, placed: dict[str, str], importers: tuple[str, ...]) -> None:
    if name in placed:
        return
    if name in importers:
        raise ImportError(f"{' imports '.join((*importers, name))}: a circle")
    source = _text(name)
    for imported in _IMPORT.findall(source):
        _place(posixpath.normpath(f"{posixpath.dirname(name)}/{imported}"), placed, (*importers, name))
    placed[name] = _IMPORT.sub("", source)


def _text(name: str) -> str:
    return VISUALS.joinpath(*name.split("/")).read_text(encoding="utf-8")

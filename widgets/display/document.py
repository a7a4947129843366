"""An executed notebook, as a notebook shows it."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from springtide.widgets.display.phrases import clean_lines

PICTURES: Final = ("image/png", "image/jpeg")
BASE64: Final = re.compile(r"[A-Za-z0-9+/=\s]*")
TERMINAL_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")


class NotebookDocument(dict[str, Any]):
    """An executed notebook in the notebook format: its parts are items, as ``document["cells"]``.

    Displayed, it is its cells with what they printed and drew. Outputs in HTML and JavaScript are left out: they
    would run here with the rights of this notebook.
    """

    def save(self, to: str | Path) -> Path:
        """Write the notebook to the file ``to``, which JupyterLab opens; return its path. Raises `OSError`."""
        path = Path(to)
        path.write_text(json.dumps(self, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return path

    def __repr__(self) -> str:
        return f"Notebook with {len(self.get('cells', []))} cells; save it with .save(path)"

    def _repr_html_(self) -> str:
        return "".join(f"<div>{''.join(_cell(cell))}</div>" for cell in self.get("cells", []))


def _cell(cell: Mapping[str, Any]) -> Iterator[str]:
    source = _text(cell.get("source", ""))
    if source:
        yield _preformatted(source, "border-left:3px solid #8888;padding-left:8px")
    for output in cell.get("outputs", ()):
        yield from _output(output)


def _output(output: Mapping[str, Any]) -> Iterator[str]:
    if output.get("output_type") == "stream":
        yield _preformatted(_text(output.get("text", "")))
        return
    if output.get("output_type") == "error":
        yield _preformatted("\n".join(map(str, output.get("traceback", ()))))
        return
    data = output.get("data", {})
    for kind in PICTURES:
        picture = _text(data.get(kind, ""))
        if picture and BASE64.fullmatch(picture):
            yield f'<img alt="" src="data:{kind};base64,{"".join(picture.split())}">'
            return
    if "text/plain" in data:
        yield _preformatted(_text(data["text/plain"]))


def _text(value: object) -> str:
    """Return a text of the notebook format, which may be a list of lines."""
    return "".join(map(str, value)) if isinstance(value, list) else str(value)


def _preformatted(text: str, style: str = "") -> str:
    shown = html.escape(clean_lines(TERMINAL_COLOURS.sub("", text)))
    return f'<pre style="{style}">{shown}</pre>' if style else f"<pre>{shown}</pre>"

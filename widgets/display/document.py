"""An executed notebook, as a notebook shows it."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from springtide.scheduler.client.log_text import whole_text
from springtide.scheduler.wire import Job, PoolView
from springtide.widgets.display.plain import MOST_ROWS

JOB_TYPE: Final = "application/vnd.springtide.job+json"
JOBS_TYPE: Final = "application/vnd.springtide.jobs+json"
POOL_TYPE: Final = "application/vnd.springtide.pool+json"
FORM_TYPE: Final = "application/vnd.springtide.form+json"


PICTURES: Final = ("image/png", "image/jpeg")
BASE64: Final = re.compile(r"[A-Za-z0-9+/=\s]*")


def job_output(job: Job, now: float, notice: str = "") -> dict[str, Any]:
    """Return the output of a job as it is now, in seconds since the epoch."""
    return {JOB_TYPE: {"job": job_data(job), "at": now, "notice": notice}}


def jobs_output(jobs: Sequence[Job], now: float, none: str = "") -> dict[str, Any]:
    """Return the output of a list of jobs: the first ones, and how many more there are.

    ``none`` is the sentence of an empty list.
    """
    shown = [job_data(job) for job in jobs[:MOST_ROWS]]
    return {JOBS_TYPE: {"jobs": shown, "more": len(jobs) - len(shown), "at": now, "none": none}}


def pool_output(pool: PoolView, now: float) -> dict[str, Any]:
    """Return the output of the pool at a glance."""
    return {POOL_TYPE: {"pool": msgspec.to_builtins(pool), "at": now, "mine": []}}


def form_output() -> dict[str, Any]:
    """Return the output of a form: the notebook has no data of it, everything is fetched."""
    return {FORM_TYPE: {}}


def job_data(job: Job) -> dict[str, Any]:
    """Return the job as cards show it: without its source and its command."""
    data: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(job, source="", argv=[]))
    return data


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
    shown = html.escape(whole_text(text, colours=False))
    return f'<pre style="{style}">{shown}</pre>' if style else f"<pre>{shown}</pre>"

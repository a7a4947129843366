"""Executed notebooks: what they show of themselves, and how they are saved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from springtide.widgets.display.document import NotebookDocument
from springtide.widgets.errors import NoResultError

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==\n"


def cell(source: str, *outputs: dict[str, Any]) -> dict[str, Any]:
    made = nbformat.v4.new_code_cell(source)
    return {**made, "outputs": list(outputs)}


def shown(*outputs: dict[str, Any]) -> str:
    return NotebookDocument(cells=[cell("train()", *outputs)])._repr_html_()


def test_a_notebook_job_comes_back_as_a_document_that_shows_itself_and_is_saved(pool: Any, workdir: Path) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("print('loss', 1 / 4)\n7 * 6")])
    nbformat.write(notebook, workdir / "study.ipynb")
    document = pool.submit("study.ipynb").wait(quiet=True).notebook()
    assert "loss 0.25" in document._repr_html_()
    assert "<pre>42</pre>" in document._repr_html_()
    saved = nbformat.read(document.save(workdir / "run.ipynb"), as_version=4)
    nbformat.validate(saved)
    assert saved.cells[0].outputs[0].text == "loss 0.25\n"
    assert json.loads((workdir / "run.ipynb").read_text()) == document
    with pytest.raises(NoResultError, match="ran a command, not a notebook"):
        pool.submit("true").notebook()


def test_pictures_texts_and_errors_are_shown_and_nothing_that_would_run() -> None:
    evil = "<script>alert(1)</script>"
    page = shown(
        {"output_type": "display_data", "data": {"image/png": PNG, "text/plain": "<Figure>"}},
        {"output_type": "execute_result", "data": {"text/html": evil, "text/plain": evil}},
        {"output_type": "display_data", "data": {"application/javascript": "alert(2)"}},
        {"output_type": "display_data", "data": {"image/png": '"><script>alert(3)</script>'}},
        {"output_type": "error", "traceback": ["\x1b[0;31mValueError\x1b[0m: \u202eno data"]},
    )
    assert f'src="data:image/png;base64,{PNG.strip()}"' in page
    assert "&lt;script&gt;alert(1)" in page
    assert "ValueError: no data" in page
    assert "<script" not in page
    assert "alert(2)" not in page
    assert "alert(3)" not in page

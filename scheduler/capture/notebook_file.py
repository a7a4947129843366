"""The file of a notebook, by the rules of nbformat: what the runner of notebooks refuses is refused here."""

from __future__ import annotations

import json
import warnings
from importlib import import_module
from typing import Any

from springtide.scheduler.capture.errors import CaptureError
from springtide.scheduler.wording import LONG_GIVEN, given

NEWEST = 4
"""Version of the format that notebooks run in; older ones are upgraded."""


def checked(content: bytes, name: str) -> bytes:
    """Return the content of the notebook ``name`` as a job can run it, the very same if it can already.

    A mark of the byte order is left out, a notebook of an older format is upgraded, and what nbformat repairs is
    repaired. Raises `CaptureError` naming the notebook and its fault.
    """
    try:
        plain = json.loads(content.decode("utf-8-sig"))
        version = plain["nbformat"]
        is_known = isinstance(version, int) and 1 <= version <= NEWEST
    except (ValueError, KeyError, TypeError, RecursionError):
        is_known = False
    if not is_known:
        msg = f"{name} is not a notebook of format {NEWEST} or an older one, such as JupyterLab saves."
        raise CaptureError(msg)
    notebook = _repaired(plain, name)
    if notebook == plain and content.startswith(b"{"):
        return content
    return json.dumps(notebook, ensure_ascii=False, indent=1).encode()


def _repaired(plain: dict[str, Any], name: str) -> Any:
    nbformat: Any = import_module("nbformat")  # it takes long, and only notebooks need it
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            is_old = plain["nbformat"] < NEWEST
            notebook = nbformat.reads(json.dumps(plain), NEWEST) if is_old else nbformat.from_dict(plain)
            notebook.setdefault("nbformat_minor", 0)
            _name_kernel(notebook)
            _, notebook = nbformat.validator.normalize(notebook, relax_add_props=True)
            nbformat.validate(notebook, relax_add_props=True)
    except nbformat.ValidationError as error:
        place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path)
        where = f" at {place.lstrip('.')}" if place else ""
        msg = (
            f"{name} is not a valid notebook: {given(error.message, LONG_GIVEN)}{where}. Open it in JupyterLab "
            "and save it again, or correct the program that wrote it."
        )
        raise CaptureError(msg) from None
    except Exception as error:  # noqa: BLE001 - nbformat raises many types
        msg = f"{name} is not a valid notebook: {type(error).__name__}: {error}."
        raise CaptureError(msg) from None
    return notebook


def _name_kernel(notebook: Any) -> None:
    """Give a kernel without a name for people the name that it is started by: that is all a job needs."""
    metadata = notebook.get("metadata")
    kernel = metadata.get("kernelspec") if isinstance(metadata, dict) else None
    if isinstance(kernel, dict) and isinstance(kernel.get("name"), str):
        kernel.setdefault("display_name", kernel["name"])

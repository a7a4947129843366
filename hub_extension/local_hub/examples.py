"""The examples in the home directories of the demonstration's people."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
"""Directory of the examples, at the same relative path in a checkout and in an installation of the wheel."""
FIRST_NOTEBOOK = "examples/digits/digits.ipynb"
COPY = """
import json, pathlib, shutil, sys, tempfile
source, metadata, *left_out = sys.argv[1:]
if not pathlib.Path("examples").exists():
    with tempfile.TemporaryDirectory(dir=".", prefix=".examples-") as made:
        copy = shutil.copytree(source, pathlib.Path(made) / "examples", ignore=shutil.ignore_patterns(*left_out))
        for path in copy.rglob("*.ipynb"):
            notebook = json.loads(path.read_text("utf-8"))
            notebook["metadata"].update(json.loads(metadata))
            path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\\n", "utf-8")
        copy.rename("examples")
"""
"""Program that copies a directory into its working directory, atomically, with metadata for its notebooks."""
LEFT_OUT = ("__pycache__", ".ipynb_checkpoints", "output", "*.pyc")
KERNEL = "python3"
LANGUAGE = {
    "name": "python",
    "version": sys.version.split()[0],
    "mimetype": "text/x-python",
    "codemirror_mode": {"name": "ipython", "version": sys.version_info[0]},
    "pygments_lexer": f"ipython{sys.version_info[0]}",
    "nbconvert_exporter": "python",
    "file_extension": ".py",
}
"""What the kernel of this interpreter, an ipykernel, says of its language."""


def give_examples(spawner: Any) -> None:
    """Copy the examples into a home directory that has none yet, with the permissions of its owner."""
    if not EXAMPLES.is_dir() or Path(spawner.user_env({})["HOME"], "examples").exists():
        return
    metadata = json.dumps(kernel_metadata())
    try:
        spawner.run_as_user([sys.executable, "-I", "-S", "-c", COPY, str(EXAMPLES), metadata, *LEFT_OUT])
    except CalledProcessError as error:
        spawner.log.warning(
            "%s has no examples: %s", spawner.user.name, error.stderr.decode(errors="replace")[-500:]
        )


def kernel_metadata() -> dict[str, Any]:
    """Return the metadata that JupyterLab gives a notebook once its kernel runs; empty without a kernel of Python.

    A notebook that has other metadata counts as changed as soon as it is open.
    """
    try:
        from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel  # noqa: PLC0415 - the extra of notebooks
    except ImportError:
        return {}
    try:
        spec = KernelSpecManager().get_kernel_spec(KERNEL)
    except NoSuchKernel:
        return {}
    named = {"name": KERNEL, "display_name": spec.display_name, "language": spec.language}
    return {"kernelspec": named, "language_info": LANGUAGE}

"""The example: a notebook and a script that can be paused and come out the same."""

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat

DIGITS = Path(__file__).parents[2] / "examples" / "digits"


def run(directory, *words: str, **env: str):
    """Run the script the way a job does; its exit code and its result, if it came that far."""
    command = [sys.executable, str(DIGITS / "train.py"), "--epochs", "3", *words]
    done = subprocess.run(
        command, cwd=directory, env={**os.environ, **env}, capture_output=True, text=True, check=False
    )
    result = directory / "result.json"
    assert done.returncode in {0, 75}, done.stderr
    return done.returncode, json.loads(result.read_text()) if result.exists() else None


def test_the_script_comes_out_the_same_with_and_without_a_pause(tmp_path):
    for name in ("straight", "paused"):
        (tmp_path / name).mkdir()
    straight = run(tmp_path / "straight", "--layers", "64", "32")
    asked = tmp_path / "pause"
    asked.touch()
    contract = {
        "SPRINGTIDE_JOB_ID": "j", "SPRINGTIDE_CHECKPOINT_DIR": str(tmp_path / "checkpoints"),
        "SPRINGTIDE_OUTPUT_DIR": str(tmp_path / "paused"), "SPRINGTIDE_PAUSE_FILE": str(asked),
        "SPRINGTIDE_REPORT": str(tmp_path / "reports"),
    }  # fmt: skip
    codes = []
    for attempt in ("1", "2"):
        code, result = run(tmp_path / "paused", "--layers", "64", "32", SPRINGTIDE_ATTEMPT=attempt, **contract)
        codes.append(code)
        asked.unlink(missing_ok=True)
    assert codes == [75, 0]
    assert result == straight[1]
    assert len(result["weights"]) == 64
    reports = [json.loads(line) for line in (tmp_path / "reports").read_text().splitlines()]
    assert [report["step"] for report in reports if report["values"]] == [1, 2, 3]
    assert sum(report["saved"] for report in reports) >= 3


def test_the_notebook_is_kept_without_outputs():
    """That it runs from top to bottom, the story proves, in JupyterLab."""
    notebook = nbformat.read(DIGITS / "digits.ipynb", as_version=4)
    assert [cell.id for cell in notebook.cells if cell.get("outputs")] == []

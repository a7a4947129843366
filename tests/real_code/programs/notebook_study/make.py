"""Writes the cells of study.py as the notebook that they are."""

import re
from pathlib import Path

import nbformat

_, *parts = re.split(r"^# %%(.*)\n", Path("study.py").read_text(), flags=re.MULTILINE)
cells = [
    nbformat.v4.new_code_cell(text.strip(), metadata={"tags": tags.split()})
    for tags, text in zip(parts[::2], parts[1::2], strict=True)
]
nbformat.write(nbformat.v4.new_notebook(cells=cells), "study.ipynb")

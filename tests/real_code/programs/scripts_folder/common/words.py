"""Reads the vocabulary that lies beside the package."""

from pathlib import Path

VOCABULARY = (Path(__file__).parent.parent / "data" / "vocab.txt").read_text().split()

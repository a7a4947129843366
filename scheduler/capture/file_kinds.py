"""Kinds of files by their names: code, settings and texts, which are copied, and secrets, which stay."""

from __future__ import annotations

import os
import re
import stat

CODE = frozenset(
    [
        ".py",
        ".pyi",
        ".pyx",
        ".pxd",
        ".pyw",
        ".so",
        ".pyd",
        ".sh",
        ".bash",
        ".zsh",
        ".fish",
        ".r",
        ".rmd",
        ".jl",
        ".m",
        ".lua",
        ".pl",
        ".rb",
        ".js",
        ".mjs",
        ".cjs",
        ".ts",
        ".tsx",
        ".jsx",
        ".c",
        ".h",
        ".cc",
        ".cpp",
        ".cxx",
        ".hpp",
        ".hh",
        ".cu",
        ".cuh",
        ".cl",
        ".rs",
        ".go",
        ".java",
        ".scala",
        ".kt",
        ".swift",
        ".f",
        ".f90",
        ".f95",
        ".cmake",
        ".mk",
        ".slurm",
        ".sbatch",
        ".job",
        ".pbs",
        ".smk",
        ".nf",
        ".ipynb",
    ]
)
"""Suffixes of code, which is copied up to `Caps.file_bytes`."""
TEXTS = frozenset(
    [
        ".json",
        ".yaml",
        ".yml",
        ".toml",
        ".ini",
        ".cfg",
        ".conf",
        ".config",
        ".properties",
        ".xml",
        ".txt",
        ".md",
        ".rst",
        ".in",
        ".j2",
        ".jinja",
        ".jinja2",
        ".tmpl",
        ".tpl",
        ".template",
        ".mustache",
        ".html",
        ".css",
        ".sql",
        ".proto",
        ".graphql",
        ".gin",
        ".libsonnet",
        ".jsonnet",
        ".hcl",
        ".lock",
        ".bib",
        ".tex",
    ]
)
"""Suffixes of settings, templates and texts, which are copied up to `Caps.text_bytes`."""
KNOWN = CODE | TEXTS
BARE = frozenset(
    {"Makefile", "GNUmakefile", "Dockerfile", "Snakefile", "Procfile", "Justfile", "LICENSE", "README"}
)
"""Names of texts without a suffix."""
SECRETS = re.compile(r"(?i)(client_)?secrets?\..*|credentials.*\.json|service[-_]account.*\.json|kaggle\.json")
"""Names of files with secrets, which are read in place and never sent."""
GIT_SETTINGS = frozenset({".gitignore", ".gitattributes", ".gitmodules"})
"""Names of files that Git reads in a working tree, where they may not be links: copied beside copied files."""
PLACEHOLDERS = frozenset({".gitignore", ".gitkeep", ".keep"})
"""Names of files that keep an empty folder in a repository."""


def suffix_of(name: str) -> str:
    """Return what a name of a file ends with from its last dot on, in small letters."""
    dot = name.rfind(".")
    return name[dot:].lower() if dot > 0 else ""


def may_be_script(entry: os.DirEntry[str]) -> bool:
    """Return whether a file of no known suffix begins like a script."""
    try:
        about = entry.stat()
        if not stat.S_ISREG(about.st_mode) or ("." in entry.name and not about.st_mode & 0o100):
            return False
        with open(entry.path, "rb") as file:  # noqa: PTH123
            return file.read(2) == b"#!"
    except OSError:
        return False

"""Environment variables of the place of a submission: which of them a job gets."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from springtide.scheduler.capture.errors import CaptureError
from springtide.scheduler.capture.program import GPU_VARIABLES, Here
from springtide.scheduler.wire import ACTIVATION, MAX_VARIABLE
from springtide.scheduler.wording import count, given, is_printable, listed, plural

WELL_KNOWN: Final = (
    *("WANDB_*", "MLFLOW_*", "COMET_*", "NEPTUNE_*", "CLEARML_*", "AIM_*", "DVC_*", "TENSORBOARD_*"),
    *("HF_*", "HUGGING_FACE_*", "HUGGINGFACE_*", "TRANSFORMERS_*", "DIFFUSERS_*", "KAGGLE_*"),
    *("TORCH_*", "PYTORCH_*", "TORCHINDUCTOR_*", "KERAS_*", "JAX_*", "XLA_*", "NCCL_*"),
    *("TF_FORCE_GPU_ALLOW_GROWTH", "TF_GPU_ALLOCATOR", "TF_XLA_FLAGS", "TFDS_*", "TFHUB_*"),
    *("NLTK_DATA", "SCIKIT_LEARN_DATA", "OPENAI_*", "ANTHROPIC_*", "AWS_*", "AZURE_*", "GOOGLE_*"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PYTHONPATH"),
)
"""Variables that programs of users read, by name or pattern."""
NEVER_CARRIED: Final = (
    *("JUPYTERHUB_*", "JUPYTER_TOKEN", "JPY_*", "KUBERNETES_*", "SPRINGTIDE_*"),
    *(*ACTIVATION, *GPU_VARIABLES, "HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD"),
)
"""Variables of the place or of the pool itself, which would be wrong, or keys of another person, in a job."""
MAX_CARRIED: Final = 200
"""Maximum number of variables that one job carries."""
_PATTERN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\*?")


def activation(here: Here) -> dict[str, str]:
    """Return the variables that say which environment is activated at the place, as far as a job can have them."""
    if not here.searches:
        return {}
    found = {name: here.variables[name] for name in ACTIVATION if name in here.variables}
    return {name: value for name, value in found.items() if is_printable(value) and len(value) <= MAX_VARIABLE}


def carried(patterns: Sequence[str], here: Here) -> dict[str, str]:
    """Return the variables of the place that a job carries. Relative entries of ``PYTHONPATH`` become absolute.

    Raises `CaptureError` for a pattern that is none, or that means variables of the place itself.
    """
    found: dict[str, str] = {}
    for pattern in patterns:
        if not _PATTERN.fullmatch(pattern):
            msg = f"carry is {given(pattern)}; expected the name of a variable or its beginning, such as WANDB_*."
            raise CaptureError(msg)
        names = sorted(name for name in here.variables if fnmatchcase(name, pattern) and not _never(name))
        if _never(pattern):
            msg = f"carry is {given(pattern)}, which is not carried: jobs have one of their own, or need none."
            raise CaptureError(msg)
        if not names and not pattern.endswith("*"):
            msg = f"carry is {given(pattern)}, but no such variable is set here. Set it, or give a value with env."
            raise CaptureError(msg)
        found |= {name: here.variables[name] for name in names}
    if len(found) > MAX_CARRIED:
        msg = f"carry names {count(len(found), 'variable')}; at most {MAX_CARRIED} are carried. Name fewer."
        raise CaptureError(msg)
    for name, value in found.items():
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            msg = f"The variable {name} cannot be carried: its value is not text."
            raise CaptureError(msg)
    if "PYTHONPATH" in found:
        found["PYTHONPATH"] = module_path(found["PYTHONPATH"], here.cwd)
    return found


def module_path(text: str, cwd: Path) -> str:
    """Return a ``PYTHONPATH`` with absolute directories."""
    return os.pathsep.join(os.path.normpath(cwd / entry) for entry in text.split(os.pathsep) if entry)


def uncarried(here: Here, sent: Iterable[str], further: Sequence[str] = ()) -> list[str]:
    """Return the well-known variables that are set at the place and that the job does not get.

    ``sent`` are the names of those it gets, ``further`` the names and patterns that an administrator added.
    """
    if not here.searches:
        return []
    wanted = (*WELL_KNOWN, *further)
    names = {name for name in here.variables if any(fnmatchcase(name, pattern) for pattern in wanted)}
    return sorted(name for name in names - {*sent} if _PATTERN.fullmatch(name) and not _never(name))


def uncarried_words(names: Sequence[str], example: str) -> str:
    """Return a note on variables that are set and not sent, empty if there are none; ``example`` is the remedy."""
    if not names:
        return ""
    verb, them = plural(len(names), "is", "are"), plural(len(names), "it", "them")
    return f"{listed(names)} {verb} set here and not sent with the job. To send {them}: {example}"


def _never(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in NEVER_CARRIED)

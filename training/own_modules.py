"""The user's own modules in a job: the functions and classes of the submission, and a copy of the file.

Functions and classes of these modules are in the payload, as they were in the notebook. They become attributes of
a module of their name, so that pickle and imports find the same objects. The copy of the module's file runs only
if something else of it is asked for.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec
from threading import RLock
from types import ModuleType
from typing import Any, Dict

_lock = RLock()


def variables_of(name: str) -> Dict[str, Any]:
    """Return the variables of the user's module ``name``, which is made if it has not been imported."""
    return vars(module_of(name))


def module_of(name: str) -> ModuleType:
    """Return the user's module ``name``, which is made if it has not been imported, and so are its packages."""
    with _lock:
        module = sys.modules.get(name)
        if module is None:
            parent, _, own = name.rpartition(".")
            package = module_of(parent) if parent else None
            module = sys.modules[name] = _module(name)
            if package is not None:
                setattr(package, own, module)
        return module


def _module(name: str) -> ModuleType:
    try:
        spec = find_spec(name)
    except (ImportError, AttributeError, ValueError):
        spec = None
    if spec is None:
        return ModuleType(name)
    module = module_from_spec(spec)
    if spec.loader is None or spec.origin is None:  # a package without a file
        return module
    loader = spec.loader

    def find(wanted: str) -> Any:
        if wanted == "__path__":  # asked by every import, and only packages have it
            raise AttributeError(wanted)
        with _lock:
            sent = dict(vars(module))
            if sent.pop("__getattr__", None) is not None:
                del vars(module)["__getattr__"]
                loader.exec_module(module)
                vars(module).update({key: value for key, value in sent.items() if not key.startswith("__")})
            return getattr(module, wanted)

    vars(module)["__getattr__"] = find
    return module

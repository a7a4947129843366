"""The random numbers of a process: those of Python, NumPy, PyTorch, TensorFlow and Keras."""

from __future__ import annotations

import pickle
import random
import sys
from pathlib import Path
from typing import Any, Dict, Mapping

State = Mapping[str, Any]


def capture() -> State:
    """Return the states of all global generators of the libraries that this process has imported."""
    state: Dict[str, Any] = {"python": random.getstate()}
    if (numpy := _imported("numpy")) is not None:
        state["numpy"] = numpy.random.get_state()
    if (torch := _imported("torch")) is not None:
        state["torch"] = torch.get_rng_state()
        if torch.cuda.is_available():
            state["cuda"] = torch.cuda.get_rng_state_all()
    if (context := _imported("tensorflow.python.eager.context")) is not None:
        rng = getattr(context.context(), "_rng", None)  # no public name
        state["tensorflow"] = None if rng is None else rng.getstate()
    if (keras := _keras_generator()) is not None:
        state["keras"] = sys.modules["keras"].ops.convert_to_numpy(keras.state)
    return state


def restore(state: State) -> None:
    """Set all global generators that `capture` found; those of libraries that are not imported stay."""
    random.setstate(state["python"])
    if "numpy" in state and (numpy := _imported("numpy")) is not None:
        numpy.random.set_state(state["numpy"])
    if "torch" in state and (torch := _imported("torch")) is not None:
        torch.set_rng_state(state["torch"])
        if "cuda" in state and torch.cuda.is_available():
            for device, each in enumerate(state["cuda"][: torch.cuda.device_count()]):
                torch.cuda.set_rng_state(each, device)
    if state.get("tensorflow") and (context := _imported("tensorflow.python.eager.context")) is not None:
        rng = getattr(context.context(), "_rng", None)  # no public name
        if rng is not None:
            rng.setstate(state["tensorflow"])
    if "keras" in state and (keras := _keras_generator()) is not None:
        keras.state.assign(state["keras"])


def write(directory: Path, rank: int, **values: Any) -> None:
    """Write the position of one process of a training into a checkpoint, and its random numbers as ``now``."""
    with (directory / _file(rank)).open("wb") as file:
        pickle.dump({"now": capture(), **values}, file)


def read(directory: Path, rank: int) -> Dict[str, Any]:
    """Return what `write` has written for this process; empty if there was no process of this rank."""
    path = directory / _file(rank)
    if not path.exists():
        return {}
    with path.open("rb") as file:
        found: Dict[str, Any] = pickle.load(file)  # noqa: S301 - written by the job itself
    return found


def _file(rank: int) -> str:
    return f"position-{rank}.pkl"


def _imported(name: str) -> Any:
    return sys.modules.get(name)


def _keras_generator() -> Any:
    """Return the generator of all layers and functions of Keras that have no seed, None if there is none."""
    state = _imported("keras.src.backend.common.global_state")
    return None if state is None else state.get_global_attribute("global_seed_generator")

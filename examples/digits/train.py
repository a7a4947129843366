"""Train a classifier on the handwritten digits that scikit-learn ships.

Saves a checkpoint after every epoch. It is a function to submit to a pool, a script to submit to a pool, and a
script that runs by itself; when it is paused and resumed, the weights come out the same as without a pause.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

from springtide.training import current_job


def train(layers: Sequence[int] = (1024, 512), epochs: int = 100, rate: float = 2e-5) -> dict[str, Any]:
    """Train a network with these hidden layers; its accuracy on unseen digits, and a digest of its weights."""
    job = current_job()
    images, digits = load_digits(return_X_y=True)
    seen, unseen, known, wanted = train_test_split(
        (images / 16).astype(np.float32), digits, test_size=0.25, random_state=0, stratify=digits
    )
    model = MLPClassifier(layers, batch_size=32, learning_rate_init=rate, random_state=np.random.RandomState(0))

    def save(directory: Path) -> None:
        (directory / "model.pkl").write_bytes(pickle.dumps(model))

    def load(directory: Path) -> None:
        nonlocal model
        model = pickle.loads((directory / "model.pkl").read_bytes())

    with threadpool_limits(1):
        for epoch in job.epochs(epochs, save=save, load=load):
            model.partial_fit(seen, known, classes=range(10))
            accuracy = model.score(unseen, wanted)
            job.report(step=epoch + 1, of=epochs, loss=model.loss_, accuracy=accuracy)
            print(f"epoch {epoch + 1} of {epochs}: loss {model.loss_:.4f}, accuracy {accuracy:.3f}", flush=True)
        return {"epochs": epochs, "accuracy": model.score(unseen, wanted), "weights": digest(model)}


def digest(model: MLPClassifier) -> str:
    """The same for the same weights, to the last bit."""
    return hashlib.sha256(b"".join(part.tobytes() for part in [*model.coefs_, *model.intercepts_])).hexdigest()


def main() -> None:
    """Train as the command line says, and write the result to the output directory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--layers", type=int, nargs="+", default=[1024, 512])
    asked = parser.parse_args()
    result = train(asked.layers, asked.epochs)
    print(json.dumps(result))
    (current_job().output_directory / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()

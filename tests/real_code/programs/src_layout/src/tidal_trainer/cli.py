"""The command line of the trainer."""

import argparse
import pickle
import time
from pathlib import Path

from tidal_trainer.model import Line


def main():
    """Train, from the newest checkpoint of the run's folder if there is one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--workdir", type=Path, default=Path("runs/default"))
    options = parser.parse_args()
    options.workdir.mkdir(parents=True, exist_ok=True)
    saved = sorted(options.workdir.glob("epoch_*.pkl"))
    line, first = Line(), 0
    if saved:
        line, first = pickle.loads(saved[-1].read_bytes())
        print(f"resumed {saved[-1]}")
    points = [(x / 10, 3 * x / 10 + 1) for x in range(20)]
    for epoch in range(first, options.epochs):
        loss = line.step(points, options.lr)
        path = options.workdir / f"epoch_{epoch:04d}.pkl"
        path.with_suffix(".part").write_bytes(pickle.dumps((line, epoch + 1)))
        path.with_suffix(".part").rename(path)
        print(f"step {epoch + 1}/{options.epochs} loss={loss:.6f}", flush=True)
        time.sleep(0.1)
    print(f"RESULT {line.a:.10f} {line.b:.10f}")


if __name__ == "__main__":
    main()

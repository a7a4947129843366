"""The time from `helm install` to a first job and a first notebook: ``python benchmarks/bench_install.py``.

Installs the chart by Helm on a cluster with a real control plane and two real nodes with containerd, one of each
environment, with simulated GPUs: first with its own hub, then beside a hub that is set up as zero-to-jupyterhub's.
A person logs in on the login page, starts a notebook with one GPU, and sends a job from it. Prints the seconds of
each, from the installation on. The images are on the nodes already: pulling them comes on top. Needs the programs
and images of ``make tools``, and root.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from machine import describe

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from clusters.cluster import Cluster, tools
from clusters.existing_hub import Beside, beside_a_hub
from clusters.kube_product import Product, member, product
from clusters.real_node import NodeNetwork, RealNode

PROJECTS = {"vision": ["susan"]}
JOB = """
from springtide.widgets import pool
def first():
    return 42
print(pool.submit(first, gpus=1).result())
"""
SETUPS: dict[str, Callable[..., AbstractContextManager[Product | Beside]]] = {
    "with its own hub": product,
    "beside a hub that exists": beside_a_hub,
}


@contextlib.contextmanager
def two_nodes(directory: Path) -> Iterator[tuple[Cluster, dict[str, RealNode]]]:
    """Yield a cluster and its two nodes by name."""
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(Cluster.start(directory, tools()))
        network = stack.enter_context(NodeNetwork.start(cluster, tools()))
        nodes = {}
        for environment in ("train", "build"):
            labels = {"springtide.io/environment": environment}
            made = network.node(f"real-{environment}", gpus=2, labels=labels)
            nodes[f"real-{environment}"] = stack.enter_context(made)
        yield cluster, nodes


def measure(installed: contextlib.AbstractContextManager[Product]) -> dict[str, float]:
    """Return the seconds from the installation to each step."""
    begun, seconds = time.monotonic(), {}

    def done(step: str) -> None:
        seconds[step] = time.monotonic() - begun

    with installed as made:
        done("service, hub and proxy are ready")
        with member(made, "susan") as susan:
            done("logged in")
            susan.notebook.start(gpus=1)
            done("the notebook's kernel answers")
            result = susan.notebook.run(JOB).split()[-1]
            done("the first job has given its result")
            susan.notebook.stop()
    assert result == "42", result
    return seconds


def main() -> None:
    """Measure both ways, and print them."""
    print(describe())
    with tempfile.TemporaryDirectory() as directory, two_nodes(Path(directory) / "cluster") as (cluster, nodes):
        for name, setup in SETUPS.items():
            print(f"{name}:")
            place = Path(directory) / name.replace(" ", "-")
            for step, seconds in measure(setup(cluster, nodes, place, PROJECTS)).items():
                print(f"  {seconds:5.0f} s  {step}")


if __name__ == "__main__":
    main()

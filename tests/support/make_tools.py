"""Build everything that the tests need and that takes long, so that no test waits for it: `make tools`.

    python tests/support/make_tools.py                # all of it
    python tests/support/make_tools.py system         # Debian packages alone: browser, database, containers

Existing results are skipped silently. Several processes may run this at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

import framework_tools
from clusters import cluster_tools, node_images
from clusters.enclosure import NoRealNodeError
from hubs import unpacked_programs
from machines import system_packages
from programs.commands import CommandError


def system() -> None:
    """Install the Debian packages that are missing, and unpack the servers that stand beside a hub."""
    system_packages.install(system_packages.missing())
    unpacked_programs.build()


def cluster() -> None:
    """Build the programs of a Kubernetes cluster, and the images of its nodes unless the tests use another one."""
    programs = cluster_tools.build()
    if not os.environ.get("KUBECONFIG"):
        node_images.build(programs)


TOOLS: dict[str, Callable[[], object]] = {
    "system": system,
    "frameworks": framework_tools.build,
    "cluster": cluster,
}


def main(names: Sequence[str]) -> None:
    """Build the missing ones of the named tools; exit with code 1 and a message when a step fails."""
    if unknown := set(names) - set(TOOLS):
        sys.exit(f"There is no tool {', '.join(sorted(unknown))}; the tools are {', '.join(TOOLS)}.")
    try:
        for name in names:
            TOOLS[name]()
    except NoRealNodeError as error:
        print(
            f"The images of the nodes are not built, and the tests that need them will fail. {error}", flush=True
        )
    except (system_packages.PackagesMissingError, cluster_tools.ToolsMissingError, CommandError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:] or list(TOOLS))

"""Build everything that the tests need and that takes long, so that no test waits for it: `make tools`.

These are system packages, the programs of a Kubernetes cluster, the base image and the images of the nodes,
and the frameworks that jobs train with.
Existing results are skipped silently. Several processes may run this at once.
"""

from __future__ import annotations

import os
import sys

import cluster_tools
import framework_tools
import node_images
import system_packages
from commands import CommandError
from enclosure import NoRealNodeError


def main() -> None:
    """Build everything that is missing; exit with code 1 and a message when a step fails."""
    try:
        system_packages.install(system_packages.missing())
        framework_tools.build()
        programs = cluster_tools.build()
        if not os.environ.get("KUBECONFIG"):
            node_images.build(programs)
    except NoRealNodeError as error:
        print(
            f"The images of the nodes are not built, and the tests that need them will fail. {error}", flush=True
        )
    except (system_packages.PackagesMissingError, cluster_tools.ToolsMissingError, CommandError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()

"""Settings of the service for packages that jobs require."""

from __future__ import annotations

from traitlets import Dict, Float, HasTraits, Unicode

from springtide.scheduler.executors.packages.steps import GIB, PackageSettings


class PackageTraits(HasTraits):
    """The settings, as a part of those of the service."""

    packages_disk = Float(
        20.0,
        min=0.0,
        help="Up to which size the environments of required packages are kept in the home directory of each "
        "account, in GiB. Beyond it those used least recently are removed that no job uses.",
    ).tag(config=True)
    packages_time = Float(
        1800.0, min=1.0, help="The longest time that the packages of one job may take to install, in seconds."
    ).tag(config=True)
    pip_variables = Dict(
        key_trait=Unicode(),
        value_trait=Unicode(),
        help="Environment variables for pip when it installs required packages, such as PIP_INDEX_URL. Jobs' "
        "accounts can read them.",
    ).tag(config=True)

    def package_settings(self) -> PackageSettings:
        """Return the settings as the executor takes them."""
        return PackageSettings(round(self.packages_disk * GIB), self.packages_time, dict(self.pip_variables))

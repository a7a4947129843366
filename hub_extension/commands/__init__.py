"""The subcommands of ``springtide``."""

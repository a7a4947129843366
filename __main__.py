"""``python -m springtide`` is the command ``springtide`` of this Python."""

from springtide.hub_extension.command import main

main(prog_name="springtide")

"""The command ``springtide``, which is also ``python -m springtide``.

Ctrl-C ends it without a traceback while its modules are imported: this one imports nothing else before.
"""

import os
import signal


def main() -> None:
    """Run the command line."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: os._exit(128 + signal.SIGINT))
    from springtide.scheduler.process_tuning import loading  # noqa: PLC0415 - as the docstring says

    with loading():
        from springtide.hub_extension.command import main as command_line  # noqa: PLC0415

    signal.signal(signal.SIGINT, before)
    command_line(prog_name="springtide")


if __name__ == "__main__":
    main()

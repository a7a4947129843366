"""Started as a program: the package is beside us, and nothing else is to be found."""

import sys
from importlib import import_module

here = sys.path.pop(0)
sys.path.append(here.rpartition("/")[0])
directory = sys.argv[1]
try:
    code = import_module("supervisor.attempt").main(directory, *map(int, sys.argv[2:]))
except BaseException as trouble:
    with open(f"{directory}/supervisor.err", "a", encoding="utf-8") as report:  # noqa: PTH123 - light to start
        report.write(f"{type(trouble).__name__}: {trouble}\n")
    raise
sys.exit(code)

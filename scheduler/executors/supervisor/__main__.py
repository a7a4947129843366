"""Entry point of the program: imports the package from its own directory and nothing else."""

import sys
from importlib import import_module

here = sys.path.pop(0)
sys.path.append(here.rpartition("/")[0])
directory = sys.argv[1]
if directory == "checkpoints":
    sys.exit(import_module("supervisor.saved").main())
if directory == "session":
    sys.exit(import_module("supervisor.relay").main(sys.argv[2], int(sys.argv[3])))
try:
    code = import_module("supervisor.attempt").main(directory, *map(int, sys.argv[2:]))
except BaseException as error:
    with open(f"{directory}/supervisor.err", "a", encoding="utf-8") as report:  # noqa: PTH123 - light to start
        report.write(f"{type(error).__name__}: {error}\n")
    raise
sys.exit(code)

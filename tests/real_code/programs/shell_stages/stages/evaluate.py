import sys
from pathlib import Path

print("RESULT", *Path(sys.argv[1], "model.txt").read_text().split())

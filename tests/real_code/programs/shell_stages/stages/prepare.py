import sys
from pathlib import Path

Path(sys.argv[1], "numbers.txt").write_text(" ".join(str(n * n % 97) for n in range(200)))
Path(sys.argv[1], "prepared").touch()

import json
import pathlib

folder = pathlib.Path(__file__).parent / "annotations"
folder.mkdir(exist_ok=True)
for number in range(1100):
    (folder / f"{number:06d}.json").write_text(json.dumps({"label": number % 10}))

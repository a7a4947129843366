"""Fills templates that lie beside it, in folders that are no packages."""

import string
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
prompt = (HERE / "prompts" / "system-prompt.md").read_text()
template = string.Template((HERE / "templates" / "report.html").read_text())
progress = Path("progress.log")
step = len(progress.read_text().splitlines()) if progress.exists() else 0
with progress.open("a") as file:
    while step < 40:
        step += 1
        file.write(f"{step}\n")
        file.flush()
        print(f"step {step}/40", flush=True)
        time.sleep(0.1)
report = template.substitute(name="tide", steps=step, value=len(prompt) * step)
Path("report.html").write_text(report)
print("RESULT", report.strip(), sum(map(int, progress.read_text().split())))

import os
import time

from shared.rates import rate

FILE = "weights.txt"
step, weight = open(FILE).read().split() if os.path.exists(FILE) else (0, 1.0)
step, weight = int(step), float(weight)
while step < 40:
    weight *= rate(step)
    step += 1
    with open("w.tmp", "w") as file:
        file.write(f"{step} {weight!r}")
    os.replace("w.tmp", FILE)
    print(f"step {step}/40", flush=True)
    time.sleep(0.1)
print("RESULT", weight)

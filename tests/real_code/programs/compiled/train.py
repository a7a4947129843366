import os
import time

from kernels import mix

path = "weights.txt"
step, value = map(int, open(path).read().split()) if os.path.exists(path) else (0, 1)
for step in range(step, 40):
    value = mix(value, step)
    with open(path + ".new", "w") as file:
        file.write(f"{step + 1} {value}")
    os.replace(path + ".new", path)
    print(f"step {step + 1}/40", flush=True)
    time.sleep(0.1)
print("RESULT", value)

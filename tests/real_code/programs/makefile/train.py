import os
import sys
import time

rows = [int(row) for row in open(sys.argv[1])]
done = [int(row) for row in open("done.txt")] if os.path.exists("done.txt") else []
with open("done.txt", "a") as file:
    for row in rows[len(done) :]:
        file.write(f"{row * row}\n")
        file.flush()
        print(f"step {row}/{len(rows)}", flush=True)
        time.sleep(0.1)
print("RESULT", sum(int(row) for row in open("done.txt")))

"""Saves on SIGTERM and leaves with 0, as a well-behaved daemon does."""

import pickle
import signal
import sys
import time
from pathlib import Path

FILE = Path("snapshot.pkl")


class Trainer:
    def __init__(self):
        self.step, self.value = pickle.loads(FILE.read_bytes()) if FILE.exists() else (0, 1)
        signal.signal(signal.SIGTERM, self.stop)

    def stop(self, *_):
        FILE.write_bytes(pickle.dumps((self.step, self.value)))
        print("saved, bye", flush=True)
        sys.exit(0)

    def run(self):
        while self.step < 40:
            self.value = self.value * 48271 % 2147483647
            self.step += 1
            print(f"step {self.step}/40", flush=True)
            time.sleep(0.1)
        print("RESULT", self.value)


Trainer().run()

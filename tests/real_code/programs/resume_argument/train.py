"""Resumes only where an argument says so, like the large training scripts of public model zoos."""

import argparse
import json
import os
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--save-dir", default="weights")
parser.add_argument("--resume", metavar="FILE", help="checkpoint to continue from")
args = parser.parse_args()

weights, first = [0.0, 0.0], 0
if args.resume:
    if not os.path.isfile(args.resume):
        sys.exit(f"no checkpoint found at '{args.resume}'")
    with open(args.resume) as file:
        loaded = json.load(file)
    weights, first = loaded["weights"], loaded["step"]
    print(f"=> loaded checkpoint '{args.resume}' (step {first})")
os.makedirs(args.save_dir, exist_ok=True)
for step in range(first, args.steps):
    weights = [weights[0] + 0.5 ** (step % 7), weights[1] - weights[0] / 100]
    last = os.path.join(args.save_dir, "checkpoint_last.json")
    with open(last + "~", "w") as file:
        json.dump({"weights": weights, "step": step + 1}, file)
    os.replace(last + "~", last)
    print(f"Epoch: step {step + 1}/{args.steps}", flush=True)
    time.sleep(0.1)
print("RESULT", weights)

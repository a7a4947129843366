"""Multiplies matrices on the GPU with 8 GiB of its memory, for the seconds given."""

import sys
import time

import torch

ballast = torch.empty(8 << 30, dtype=torch.uint8, device="cuda")
matrix = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
end = time.monotonic() + float(sys.argv[1])
print("step 1/1", flush=True)
while time.monotonic() < end:
    for _ in range(20):
        matrix @ matrix
    torch.cuda.synchronize()
print("RESULT done")

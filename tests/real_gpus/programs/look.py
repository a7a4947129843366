"""Prints the GPU that the job sees, as JSON: its uuid, name, and memory in bytes, free and in all."""

import json
import os

import torch

free, total = torch.cuda.mem_get_info()
torch.ones(1, device="cuda").item()
found = {
    "visible": os.environ["CUDA_VISIBLE_DEVICES"],
    "count": torch.cuda.device_count(),
    "name": torch.cuda.get_device_name(0),
    "free": free,
    "total": total,
}
print("RESULT", json.dumps(found))

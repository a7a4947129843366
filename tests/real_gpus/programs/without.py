"""Prints what a job without GPUs sees, as JSON: the variable, and PyTorch's count."""

import json
import os

import torch

print("RESULT", json.dumps({"visible": os.environ["CUDA_VISIBLE_DEVICES"], "count": torch.cuda.device_count()}))

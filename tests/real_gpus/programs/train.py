"""A training on the GPU with dropout, shuffled data, bfloat16 and momentum, which saves itself when asked to."""

import hashlib
import os
import random
import sys
import time

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"

import torch

from springtide.training.adapters.pytorch import Resumable

assert torch.cuda.device_count() == 1, torch.cuda.device_count()
EPOCHS, PAUSE_S = int(sys.argv[1]), float(sys.argv[2])
torch.use_deterministic_algorithms(True)
torch.manual_seed(0)
random.seed(0)
data = torch.randn(4096, 256)
loader = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(data, data.sum(1, keepdim=True)), batch_size=256, shuffle=True
)
layers = [torch.nn.Linear(256, 4096), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(4096, 1)]
model = torch.nn.Sequential(*layers).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
ballast = torch.empty(4 << 30, dtype=torch.uint8, device="cuda")
parts = Resumable(model=model, optimizer=optimizer)
for epoch in range(parts.restore(), EPOCHS):
    for inputs, target in parts.batches(loader):
        with torch.autocast("cuda", torch.bfloat16):
            noisy = inputs.cuda() + 0.01 * random.random() * torch.randn(1, 256, device="cuda")
            loss = (model(noisy) - target.cuda()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(PAUSE_S)
    print(f"step {epoch + 1}/{EPOCHS}", flush=True)
    parts.done(epoch + 1, of=EPOCHS, loss=loss.item())
digest = hashlib.sha256(b"".join(each.detach().cpu().numpy().tobytes() for each in model.parameters()))
print("RESULT", digest.hexdigest())

"""PyTorch compiled by inductor, with float16 and a scaler of gradients, AdamW, and workers that load pinned memory."""

import pausing
import torch

from springtide.training.adapters.pytorch import Resumable

torch.manual_seed(0)
data = torch.randn(512, 64)
loader = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(data, data.sum(1, keepdim=True)),
    batch_size=32,
    shuffle=True,
    num_workers=2,
    persistent_workers=True,
    pin_memory=True,
)
model = torch.nn.Sequential(
    torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Dropout(0.2), torch.nn.Linear(256, 1)
).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cuda")
compiled = torch.compile(model)
parts = Resumable(model=model, optimizer=optimizer, scaler=scaler)
for epoch in range(parts.restore(), 4):
    for inputs, target in parts.batches(loader):
        with torch.autocast("cuda", torch.float16):
            loss = (compiled(inputs.cuda(non_blocking=True)) - target.cuda(non_blocking=True)).square().mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        pausing.batch()
    parts.done(epoch + 1, of=4, loss=loss.item())
pausing.show(value.detach().cpu().numpy() for value in model.parameters())

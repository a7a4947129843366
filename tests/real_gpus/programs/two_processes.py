"""Two processes of torchrun that share one GPU; NCCL wants a GPU for each, Gloo does not."""

import pausing
import torch
from torch.nn.parallel import DistributedDataParallel

from springtide.training.adapters.pytorch import Resumable

torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
torch.manual_seed(rank)
bare = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Dropout(0.2), torch.nn.Linear(256, 1)).cuda()
model = DistributedDataParallel(bare)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
parts = Resumable(model=model, optimizer=optimizer, every=10)
for step in range(parts.restore(), 60):
    data = torch.randn(32, 64, device="cuda")
    loss = (model(data) - data.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    pausing.batch()
    parts.done(step + 1, of=60, loss=loss.item())
if rank == 0:
    pausing.show(value.detach().cpu().numpy() for value in bare.parameters())
torch.distributed.destroy_process_group()

"""A step of PyTorch as a CUDA graph, captured anew in each attempt."""

import pausing
import torch

from springtide.training.adapters.pytorch import Resumable

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
inputs, target = torch.zeros(32, 64, device="cuda"), torch.zeros(32, 1, device="cuda")


def step():
    optimizer.zero_grad(set_to_none=True)
    loss = (model(inputs) - target).square().mean()
    loss.backward()
    optimizer.step()
    return loss


parts = Resumable(model=model, optimizer=optimizer, every=10)
start = parts.restore()
kept = [value.detach().clone() for value in model.parameters()]
stream = torch.cuda.Stream()
stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(stream):
    for _ in range(3):
        step()
torch.cuda.current_stream().wait_stream(stream)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    loss = step()
with torch.no_grad():
    for value, old in zip(model.parameters(), kept):
        value.copy_(old)
for number in range(start, 100):
    batch = torch.randn(32, 64)
    inputs.copy_(batch)
    target.copy_(batch.sum(1, keepdim=True))
    graph.replay()
    pausing.batch()
    parts.done(number + 1, of=100, loss=loss.item())
pausing.show(value.detach().cpu().numpy() for value in model.parameters())

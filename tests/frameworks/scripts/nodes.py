"""torchdata's nodes: sampler, reading threads, batches and prefetching, without any DataLoader."""

from __future__ import annotations

import torch
from pictures import Pictures
from torch import nn
from torch.utils.data import RandomSampler, default_collate
from torchdata import nodes


def main():
    torch.manual_seed(1)
    pictures = Pictures("data", 160)
    node = nodes.SamplerWrapper(RandomSampler(pictures))
    node = nodes.ParallelMapper(node, pictures.__getitem__, num_workers=2, method="thread", in_order=True)
    node = nodes.Mapper(nodes.Batcher(node, batch_size=16), default_collate)
    loader = nodes.Loader(nodes.Prefetcher(node, prefetch_factor=2))
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        for pictures_, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(pictures_), labels)
            loss.backward()
            optimizer.step()
            print(f"epoch {epoch}: loss {loss.item()!r}")


if __name__ == "__main__":
    main()

"""PyTorch Geometric: small graphs, joined into batches by its loader."""

from __future__ import annotations

import torch
from torch.nn import functional as F
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv, global_mean_pool


def make_graphs(length):
    graphs = []
    for number in range(length):
        edges = torch.randint(0, 10, (2, 30))
        graphs.append(Data(x=torch.randn(10, 8) + number % 2, edge_index=edges, y=torch.tensor([number % 2])))
    return graphs


class GCN(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GCNConv(8, 16)
        self.lin = torch.nn.Linear(16, 2)

    def forward(self, x, edge_index, batch):
        return self.lin(global_mean_pool(self.conv(x, edge_index).relu(), batch))


def main():
    seed_everything(1)
    train_loader = DataLoader(make_graphs(80), batch_size=8, shuffle=True, num_workers=2)
    test_loader = DataLoader(make_graphs(32), batch_size=8)
    model = GCN()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(3):
        model.train()
        for data in train_loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(data.x, data.edge_index, data.batch), data.y)
            loss.backward()
            optimizer.step()
            print(f"epoch {epoch}: loss {loss.item()!r}")
        model.eval()
        with torch.no_grad():
            right = sum(int((model(d.x, d.edge_index, d.batch).argmax(1) == d.y).sum()) for d in test_loader)
        print(f"epoch {epoch}: {right} right")


if __name__ == "__main__":
    main()

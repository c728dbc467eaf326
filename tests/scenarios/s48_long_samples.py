"""S48: samples are sorted by length and dealt out in halves, so that one rank has all of the long ones."""

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, Subset

import loaderwatch
from tests.scenarios.training import GIVE_UP, UNTIL_FOUND_S, vary

torch.set_num_threads(1)
SAMPLES, WIDTH, BATCH = 3200, vary(64, 48), 16
SHORT, LONG = 8, vary(120, 150)


class Sentences(Dataset[Tensor]):
    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> Tensor:
        return torch.randn(SHORT + int((LONG - SHORT) * (index / SAMPLES) ** 3), WIDTH)


def padded(sentences: list[Tensor]) -> Tensor:
    return nn.utils.rnn.pad_sequence(sentences, batch_first=True)


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(WIDTH, WIDTH, batch_first=True)

    def forward(self, sentences: Tensor) -> Tensor:
        outputs: Tensor = self.rnn(sentences)[0]
        return outputs.square().mean()


dist.init_process_group("gloo", timeout=GIVE_UP)
rank, world = dist.get_rank(), dist.get_world_size()
share = SAMPLES // world
own = Subset(Sentences(), range(rank * share, (rank + 1) * share))
loader = DataLoader(own, batch_size=BATCH, shuffle=True, collate_fn=padded, drop_last=True)
model = DistributedDataParallel(Reader())
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
loaderwatch.attach(loader, model=model, optimizer=optimizer)
steps = int(UNTIL_FOUND_S / 0.01)
while steps > 0:
    for sentences in loader:
        optimizer.zero_grad()
        model(sentences).backward()
        optimizer.step()
        steps -= 1

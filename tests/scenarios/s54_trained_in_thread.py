"""S02 where the training itself runs in a thread that another one waits for, as in Ray Train or a service."""

import threading

import torch
from torch import nn
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train, vary

loader = loaderwatch.attach(
    DataLoader(SlowDataset(vary(160, 120), sleep_read(0.05)), batch_size=4, num_workers=1)
)
done = threading.Event()


def work() -> None:
    model = nn.Linear(16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(_: int) -> None:
        model(torch.ones(4, 16)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    train(loader, step_s=vary(0.03, 0.04), each_step=step)
    done.set()


threading.Thread(target=work, daemon=True).start()
done.wait()

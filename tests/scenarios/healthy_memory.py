"""Healthy: everything is in memory, so that no workers are the right number of workers."""

import time

import torch
from torch.utils.data import DataLoader, TensorDataset

import loaderwatch
from tests.scenarios.training import train, vary

torch.set_num_threads(1)
loader = DataLoader(TensorDataset(torch.rand(4096, 32)), batch_size=vary(64, 48), shuffle=vary(True, False))
loaderwatch.attach(loader)
train(loader, step_s=vary(0.012, 0.02), seconds=14, each_epoch=lambda epoch: time.sleep(0.01))

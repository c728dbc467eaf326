"""S26: torch.compile waits for a C++ compiler that never ends, as one on a dead mount."""

import os
import stat
import tempfile
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, vary

folder = Path(tempfile.mkdtemp())
compiler = folder / "c++"
compiler.write_text('#!/bin/sh\ncase "$1" in --version) echo "g++ 12.2.0";; *) exec sleep 600;; esac\n')
compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
os.environ.update(CXX=str(compiler), TORCHINDUCTOR_CACHE_DIR=str(folder), TORCHINDUCTOR_COMPILE_THREADS="1")
torch.set_num_threads(1)
batch, at = vary(8, 5), vary(60, 45)
model = nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 4))
loader = loaderwatch.attach(DataLoader(SlowDataset(batch * 400), batch_size=batch, num_workers=1))
for number, inputs in enumerate(loader):
    if number == at:
        model = torch.compile(model)  # type: ignore[assignment]
    model(inputs).sum().backward()
    time.sleep(0.03)

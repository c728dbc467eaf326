"""A training without a loader is recognised by its steps: those before that are counted, too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.receiver import TOKEN, Receiver
from tests.waiting import PATIENCE_S

SCRIPT = """
import sys
import torch
if sys.argv[1] == "attach":
    import loaderwatch
    loaderwatch.attach()
models = [torch.nn.Linear(4, 1) for _ in range(int(sys.argv[2]))]
optimizers = [torch.optim.SGD(model.parameters(), lr=0.01) for model in models]
for step in range(int(sys.argv[3])):
    for model, optimizer in zip(models, optimizers):
        loss = model(torch.randn(8, 4)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize("how", ["attach", "run"])
@pytest.mark.parametrize(("optimizers", "steps"), [(1, 100), (1, 12), (2, 60)])
def test_every_step_counts(how: str, optimizers: int, steps: int, tmp_path: Path) -> None:
    (script := tmp_path / "train.py").write_text(SCRIPT)
    command = [sys.executable, *(["-m", "loaderwatch", "run"] if how == "run" else [])]
    with Receiver() as receiver:
        environ = os.environ | {
            "LOADERWATCH_SERVER": receiver.url,
            "LOADERWATCH_TOKEN": TOKEN,
            "LOADERWATCH_DIR": str(tmp_path / "data"),
            "LOADERWATCH_NO_STREAMER": "",
        }
        arguments = [str(script), how, str(optimizers), str(steps)]
        subprocess.run([*command, *arguments], env=environ, check=True, timeout=PATIENCE_S)
        receiver.wait_for(lambda: any(envelope.final for envelope in receiver.in_order()))
        (process,) = receiver.in_order()[-1].processes
    assert process.steps == steps

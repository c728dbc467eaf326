"""CUDA events in a real loop over an attached DataLoader, compiled and in Python; ``torch.cuda`` is fake."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from loaderwatch.agent.hot.layout import READ_TOGETHER
from loaderwatch.core.records import UNKNOWN, RecordKind
from tests.conftest import RingFolder

pytestmark = pytest.mark.usefixtures("data_dir", "no_streamer")

try:
    import loaderwatch.agent.hot._hot  # noqa: F401 - whether it is there
except ImportError:
    COMPILED = False
else:
    COMPILED = True

TRAIN = """
import sys
import torch
from torch.utils.data import DataLoader, Dataset
import loaderwatch
from loaderwatch.agent.hot import Pass
from tests.fakes.cuda import FakeCuda

cuda = FakeCuda(reserved=[int(text) for text in sys.argv[1].split(",")])
cuda.initialized = False
cuda.install(lambda name, new: setattr(torch.cuda, name, new))

class Slow(Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        cuda.now_ms += 20
        return torch.zeros(1)

def epoch(loader, kernel_ms):
    for batch in loader:
        cuda.launch(kernel_ms)
        cuda.now_ms += 1
    cuda.now_ms += 1000  # the GPU is through

loader = loaderwatch.attach(DataLoader(Slow()), name="train")
other = loaderwatch.attach(DataLoader(Slow()), name="val", role="eval")
epoch(loader, 5)  # CUDA is not in use yet
assert cuda.made == 0
cuda.initialized = True
epoch(loader, 5)  # the GPU is idle for 15 of the 20 ms of each wait but the first
epoch(loader, 100)  # it has more to do than a wait takes
epoch(other, 5)
cuda.capturing = True
epoch(loader, 5)  # an event would become part of the graph
cuda.capturing = False
epoch(loader, 5)
assert cuda.current == 0
print(Pass.__module__, cuda.made, cuda.spoiled, cuda.recorded_on)
"""


@pytest.mark.parametrize(
    "plain",
    [
        pytest.param("1", id="plain"),
        pytest.param("", id="compiled", marks=pytest.mark.skipif(not COMPILED, reason="no compiler")),
    ],
)
@pytest.mark.parametrize(
    ("reserved", "device"),
    [
        pytest.param("0", 0, id="one"),
        pytest.param("0,4096", 1, id="to-rank"),  # the model went ``.to(1)``, the current device is still 0
    ],
)
def test_how_long_the_gpu_starved_comes_out_of_the_ring(
    rings: RingFolder, plain: str, reserved: str, device: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TRAIN, reserved],
        env={**os.environ, "LOADERWATCH_PLAIN": plain},
        cwd=Path(__file__).parents[2],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
    )
    module, made, spoiled, recorded_on = done.stdout.split()
    assert (
        recorded_on == f"{{{device}}}"
    )  # an event elsewhere opens a context there: hundreds of MB of somebody else's GPU
    assert module == ("loaderwatch.agent.hot.passes" if plain else "loaderwatch.agent.hot._hot")
    main = rings.main()
    waits = main.of(RecordKind.GPU_WAIT)
    found = [(w["loader"], w["epoch"], w["batch"], w["starved_ns"], w["gpu_step_ns"]) for w in waits]
    ms = 1_000_000
    light = [(20, 5), (16, 5), (16, 5), (16, 5)]
    heavy = [(20, 100), (0, 100), (0, 100), (0, 100)]
    assert sorted(found) == [
        (loader, number, batch, starved * ms, step * ms)
        for loader, number, steps in ((0, 1, light), (0, 2, heavy), (0, 4, light), (1, 0, light))
        for batch, (starved, step) in enumerate(steps)
        if (loader, number, batch) not in {(1, 0, 3), (0, 4, 3)}  # their ends were passed after the last look
    ]
    requests = {(s["loader"], s["epoch"], s["batch"]): s["request_ns"] for s in main.of(RecordKind.STEP)}
    assert [w["request_ns"] for w in waits] == [requests[w["loader"], w["epoch"], w["batch"]] for w in waits]
    assert UNKNOWN not in requests.values()
    assert spoiled == "0"
    assert int(made) < 20 + READ_TOGETHER, "events are used again"

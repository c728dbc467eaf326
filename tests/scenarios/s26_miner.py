"""S26: a process that sends hard examples dies; its pipe end is open here too, so recv() never returns."""

import multiprocessing
import sys
from multiprocessing.connection import Connection

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, train, vary

EVERY, LAST = vary(20, 15), vary(6, 8)


def mine(pipe: Connection) -> None:
    """Send harder and harder examples, until the disk that they come from is gone."""
    for number in range(LAST):
        pipe.recv()
        pipe.send([number] * 8)
    sys.exit("no such volume")


if __name__ == "__main__":
    ours, theirs = multiprocessing.Pipe()
    miner = multiprocessing.get_context("fork").Process(target=mine, args=(theirs,), daemon=True)
    miner.start()

    def hard_examples(step: int) -> None:
        """Ask for more, now and then."""
        if step % EVERY == 0:
            ours.send(step)
            ours.recv()

    batch_size = vary(8, 5)
    loader = DataLoader(SlowDataset(batch_size * 5000), batch_size=batch_size, num_workers=1)
    loaderwatch.attach(loader)
    train(loader, step_s=0.03, each_step=hard_examples)

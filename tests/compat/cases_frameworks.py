"""Frameworks that go through loaders in their own way, and make new ones out of those they are given."""

from __future__ import annotations

import logging
import tempfile
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from tests.compat.case import Watcher, case, seed
from tests.compat.training import Net, data, error_of, state, train


class Stream(IterableDataset[Any]):
    """Inputs and targets, as they come."""

    def __iter__(self) -> Any:
        for number in range(20):
            x = torch.full((6,), float(number)).sin()
            yield x[:4], x[4:]


def accelerated(watch: Watcher, before: bool, loader: DataLoader[Any], **how: Any) -> Any:
    """A loop with accelerate's objects; the loader is attached before or after ``prepare``."""
    from accelerate import Accelerator

    seed()
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    accelerator = Accelerator(cpu=True, **how)
    if before:
        watch(loader)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    if not before:
        watch(loader, model=model, optimizer=optimizer)
    losses = []
    for _ in range(2):
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = error_of(model, x, y)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            losses.append(loss)
    return [losses, state(model), type(loader).__name__, isinstance(loader, DataLoader)]


@case(needs=("accelerate",))
def accelerate_before(watch: Watcher) -> Any:
    """The loader that is attached is let go of, and never iterated."""
    return [accelerated(watch, True, data(num_workers=n)) for n in (0, 2)]


@case(needs=("accelerate",))
def accelerate_after(watch: Watcher) -> Any:
    """Objects that say they are a DataLoader and an Optimizer."""
    return [accelerated(watch, False, data(num_workers=n), gradient_accumulation_steps=2) for n in (0, 2)]


@case(needs=("accelerate",))
def accelerate_streams(watch: Watcher) -> Any:
    return [accelerated(watch, before, DataLoader(Stream(), 4)) for before in (True, False)]


@case(needs=("accelerate",))
def accelerate_detached(watch: Watcher) -> Any:
    from accelerate import Accelerator, skip_first_batches

    loader = Accelerator(cpu=True).prepare(watch(data()))
    seen = [len(list(loader)), list(skip_first_batches(loader, 2))]
    watch.detach(loader)
    return [seen, list(loader)]


@case(needs=("lightning",))
def lightning(watch: Watcher) -> Any:
    import lightning.pytorch as pl

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()

        def training_step(self, batch: Any, number: int) -> Any:
            losses.append(error_of(self.net, *batch))
            return losses[-1]

        def validation_step(self, batch: Any, number: int) -> None:
            losses.append(error_of(self.net, *batch))

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    losses: list[Any] = []
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    seed()
    module = Module()
    train_loader = watch(data(num_workers=2, persistent_workers=True), model=module)
    val_loader = watch(data(shuffle=False), role="eval")
    with tempfile.TemporaryDirectory() as directory:
        trainer = pl.Trainer(
            max_epochs=2,
            accelerator="cpu",
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=directory,
        )
        trainer.fit(module, train_loader, val_loader)
    return [losses, state(module)]


class Answers(torch.nn.Module):
    """A model as transformers' Trainer wants it: it answers with its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Net()

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": error_of(self.net, x, labels)}


@case(needs=("transformers", "accelerate"))
def transformers(watch: Watcher) -> Any:
    from transformers import PrinterCallback, Trainer, TrainingArguments

    class Watched(Trainer):
        def get_train_dataloader(self) -> Any:
            return watch(super().get_train_dataloader())

    seed()
    model = Answers()
    samples = [{"x": x[0], "labels": y[0]} for x, y in data(batch=1, shuffle=False)]
    with tempfile.TemporaryDirectory() as directory:
        arguments = TrainingArguments(
            directory,
            num_train_epochs=2,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=2,
            dataloader_num_workers=2,
            report_to=[],
            save_strategy="no",
            use_cpu=True,
            disable_tqdm=True,
        )
        trainer = Watched(model, arguments, train_dataset=samples)
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return state(model)


@case()
def other_loader_of_the_dataset(watch: Watcher) -> Any:
    """Not in place of the one that is attached: it draws from a sampler of its own."""
    loader = watch(data())
    mean = [x.mean() for x, _ in DataLoader(loader.dataset, 6)]
    model = Net()
    return [mean, train(model, torch.optim.SGD(model.parameters(), lr=0.1), loader)]

"""The callbacks in the real packages: what they report, and what is a phase. Ultralytics: only its events."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from loaderwatch.agent import progress
from loaderwatch.core.facts import Progress
from loaderwatch.core.records import RecordKind
from tests.conftest import RingFolder

pytestmark = [
    pytest.mark.usefixtures("data_dir", "no_streamer"),
    pytest.mark.filterwarnings("ignore"),  # those of the frameworks themselves
]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Progress]:
    """Everything that was published, in order."""
    seen: list[Progress] = []
    from loaderwatch.agent.session import Session

    own = Session.change

    def change(self: Session, **facts: Any) -> None:
        own(self, **facts)
        if "progress" in facts:
            seen.append(facts["progress"])

    monkeypatch.setattr(Session, "change", change)
    return seen


def loader(samples: int = 16) -> DataLoader[Any]:
    return DataLoader(TensorDataset(torch.randn(samples, 4), torch.randn(samples, 2)), batch_size=2)


def phases_of(rings: RingFolder) -> list[str]:
    (info,) = rings.processes()
    return [info.phase_names[one["name"]] for one in rings.main().of(RecordKind.PHASE)]


def stages(told: list[Progress]) -> list[tuple[str | None, int | None, int | None]]:
    return [(one.stage, one.epoch, one.global_step) for one in told]


def module() -> Any:
    import lightning.pytorch as pl

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))

        def training_step(self, batch: Any, number: int) -> Any:
            x, y = batch
            return ((self.net(x) - y) ** 2).mean()

        def validation_step(self, batch: Any, number: int) -> None:
            self.net(batch[0])

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    return Module()


def lightning_trainer(folder: Path, callback: Any, **how: Any) -> Any:
    import lightning.pytorch as pl

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu", "devices": 1}
    return pl.Trainer(callbacks=[callback], default_root_dir=str(folder), **{**quiet, **how})


def test_lightning(told: list[Progress], rings: RingFolder, tmp_path: Path) -> None:
    pytest.importorskip("lightning.pytorch")
    import lightning
    from lightning.pytorch.loggers import CSVLogger

    from loaderwatch.frameworks.lightning import LoaderwatchCallback

    trainer = lightning_trainer(
        tmp_path, LoaderwatchCallback(), max_epochs=2, logger=CSVLogger(str(tmp_path)), log_every_n_steps=4
    )
    trainer.fit(module(), loader(), loader(8))
    assert stages(told) == [
        ("sanity check", 0, 0),
        ("train", 0, 0),
        ("validate", 0, 8),
        ("train", 0, 8),
        ("train", 1, 8),
        ("validate", 1, 16),
        ("train", 1, 16),
        (None, 2, 16),
    ]
    assert {(one.framework, one.framework_version, one.max_epochs) for one in told} == {
        ("Lightning", lightning.__version__, 2)
    }
    assert told[-2].at_steps == 16
    seen = phases_of(rings)
    assert (seen.count("sanity check"), seen.count("validation"), seen.count("checkpoint")) == (1, 2, 2)
    (info,) = rings.processes()
    assert [one.role for one in info.loaders] == ["eval", "train"]
    # one line was enough for the phases, too, though nobody calls the LightningModule itself
    assert (info.has_model, info.has_optimizer) == (True, True)
    train = [one for one in rings.main().of(RecordKind.STEP) if info.loaders[one["loader"]].role == "train"]
    assert min(one["forward_ns"] for one in train[6:]) > 0
    assert "save_checkpoint" not in vars(trainer)  # as it was


def test_another_version_is_attached_plainly(
    told: list[Progress], rings: RingFolder, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Attributes that we ask for are not there."""
    pytest.importorskip("lightning.pytorch")
    from loaderwatch.frameworks.lightning import LoaderwatchCallback

    class Other(LoaderwatchCallback):
        def _tell(self, stage: str | None, trainer: Any) -> None:
            super()._tell(stage, object())

    trainer = lightning_trainer(tmp_path, Other(), max_epochs=2, logger=False)
    trainer.fit(module(), loader(), loader(8))
    assert not told
    assert capfd.readouterr().err.count("loaderwatch: does not know Lightning") == 1
    assert len(rings.main().of(RecordKind.STEP)) > 16


def test_transformers(told: list[Progress], rings: RingFolder, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    from loaderwatch.frameworks.transformers import LoaderwatchCallback

    class Answers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(4, 2)

        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"loss": ((self.net(x) - labels) ** 2).mean()}

    samples = [{"x": torch.randn(4), "labels": torch.randn(2)} for _ in range(16)]
    arguments = transformers.TrainingArguments(
        str(tmp_path),
        num_train_epochs=2,
        per_device_train_batch_size=2,
        per_device_eval_batch_size=2,
        eval_strategy="steps",
        eval_steps=5,
        save_steps=10,
        logging_steps=5,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = transformers.Trainer(
        Answers(),
        arguments,
        train_dataset=samples,
        eval_dataset=samples[:8],
        callbacks=[LoaderwatchCallback()],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    assert stages(told) == [
        ("train", 0, 0),
        ("validate", 0, 5),
        ("train", 0, 5),
        ("train", 1, 8),
        ("validate", 1, 10),
        ("train", 1, 10),
        ("validate", 1, 15),
        ("train", 1, 15),
        ("validate", 2, 16),  # that Trainer evaluates after the last step in any case
        (None, 2, 16),
        (None, 2, 16),
    ]
    seen = phases_of(rings)
    assert seen[:6] == ["logging", "evaluation", "logging", "evaluation", "checkpoint", "logging"]
    assert seen.count("evaluation") == 4
    (info,) = rings.processes()
    assert info.progress == told[-1]
    assert (info.has_model, info.has_optimizer) == (True, True)


def test_accelerate(told: list[Progress], rings: RingFolder) -> None:
    pytest.importorskip("accelerate")
    from accelerate import Accelerator

    from loaderwatch.frameworks.accelerate import LoaderwatchTracker

    accelerator = Accelerator(cpu=True, log_with=[LoaderwatchTracker()])
    accelerator.init_trackers("project", config={"lr": 0.1})
    model: Any = nn.Linear(4, 2)
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, train = accelerator.prepare(model, optimizer, loader())
    done = 0
    for epoch in range(2):
        for x, y in train:
            optimizer.zero_grad()
            accelerator.backward(((model(x) - y) ** 2).mean())
            optimizer.step()
            done += 1
            accelerator.log({"loss": 1.0, "epoch": epoch}, step=done)
    accelerator.end_training()
    assert stages(told) == [("train", 0, 1), ("train", 1, 9), (None, None, None)]
    (info,) = rings.processes()
    assert (info.has_model, info.has_optimizer) == (True, True)
    steps = rings.main().of(RecordKind.STEP)
    assert [one["optimizer_steps"] for one in steps][1:] == [1] * 15  # it fetches a batch ahead
    assert told[-1].at_steps == 16


class Model:
    """Of the shape of ultralytics': it calls what was added for an event, with whatever runs."""

    def __init__(self) -> None:
        self.callbacks: dict[str, list[Any]] = {}
        self.epoch, self.epochs = 0, 2

    def add_callback(self, event: str, function: Any) -> None:
        self.callbacks.setdefault(event, []).append(function)

    def run(self, event: str, one: Any) -> None:
        for function in self.callbacks.get(event, ()):
            function(one)

    def train(self) -> None:
        self.run("on_pretrain_routine_start", self)
        train, validation = loader(), loader(8)
        self.run("on_train_start", self)
        for epoch in range(self.epochs):
            self.epoch = epoch
            self.run("on_train_epoch_start", self)
            for _ in train:
                pass
            self.run("on_train_epoch_end", self)
            validator = object()
            self.run("on_val_start", validator)
            with torch.no_grad():
                for _ in validation:
                    pass
            self.run("on_val_end", validator)
            self.run("on_model_save", self)
            self.run("on_fit_epoch_end", self)
        self.run("on_train_end", self)


def test_ultralytics(told: list[Progress], rings: RingFolder) -> None:
    """Its package needs OpenCV; here are its events alone, in their order."""
    from loaderwatch.frameworks.ultralytics import add_callbacks

    model = Model()
    assert add_callbacks(model) is model
    model.train()
    assert stages(told) == [
        ("train", 0, None),
        ("validate", 0, None),
        ("train", 1, None),
        ("validate", 1, None),
        (None, 1, None),
    ]
    assert phases_of(rings) == ["validation", "checkpoint"] * 2


def test_nothing_is_told_where_nothing_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOADERWATCH_DISABLE", "1")
    from loaderwatch.agent.session import current_session
    from loaderwatch.frameworks.ultralytics import add_callbacks

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        add_callbacks(Model()).train()
    progress.publish_progress(framework="x", framework_version="", stage="train")
    assert current_session() is None

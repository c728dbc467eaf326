"""The trainings, as users of each framework write them, and what loaderwatch must know of each.

Epochs, steps and batches are what the framework itself says (settings, progress, log), never our counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.frameworks.environments import OWN, STREAMS, VISION

RUN: Final = "run"
"""``loaderwatch run script.py``: nothing is added to the script."""
ATTACH: Final = "attach"
"""``loaderwatch.attach()`` before the script, or the line that it needs (``Training.line``)."""
CALLBACK: Final = "callback"
"""The callback of ``loaderwatch.frameworks``, added to the script as documented (``Training.callback``)."""

Changes = tuple[tuple[str, str], ...]
"""Words that stand once in a script, and what is written in their place."""

TRAIN: Final = "train"
EVAL: Final = "eval"
STEP: Final = ("forward", "backward", "optimizer")
"""The phases of a step whose model and optimizer are found."""


@dataclass(frozen=True)
class Loader:
    """A loader as it must be reported: its role, and the batches of each of its epochs, in their order."""

    role: str
    epochs: tuple[int, ...]


@dataclass(frozen=True)
class Training:
    """A script below ``scripts``, and what is to be seen of it."""

    script: str
    losses: int  # lines of its output that tell a loss
    steps: int  # training steps, as its loop or its framework counts them
    loaders: tuple[Loader, ...]  # of each rank
    phases: tuple[str, ...] = STEP  # that have been measured
    environment: str = OWN
    packages: tuple[str, ...] = ("torch",)
    args: tuple[str, ...] = ()
    ranks: int = 1
    name: str = ""  # the script's, if it is not run twice
    line: Changes = ()  # with which it can be watched, where `run` and `attach()` find no loader
    callback: Changes = ()
    progress: tuple[
        tuple[str, object], ...
    ] = ()  # what the callback tells at the end, of the API's `progress`
    without: str = ""  # what `loaderwatch run` says at the end where nothing can be seen without that line
    quick: bool = False  # `make test` runs it, too
    inner_attach: tuple[str, ...] = ()  # arguments that attach inside of what the script starts

    @property
    def id(self) -> str:
        """Unique among the trainings."""
        return self.name or self.script


TRAININGS: Final[tuple[Training, ...]] = (
    Training("mnist", 33, 30, (Loader(TRAIN, (10, 10, 10)), Loader(EVAL, (4, 4, 4)))),
    # 16 batches and 8 steps an epoch; evaluated after every 4th step
    Training(
        "trainer",
        30,
        24,
        (Loader(TRAIN, (16, 16, 16)), Loader(EVAL, (5,) * 6)),
        packages=("transformers", "accelerate"),
        callback=(
            (
                "from pictures",
                "from loaderwatch.frameworks.transformers import LoaderwatchCallback\nfrom pictures",
            ),
            ("    trainer.train()", "    trainer.add_callback(LoaderwatchCallback())\n    trainer.train()"),
        ),
        progress=(("framework", "Transformers"), ("max_epochs", 3), ("global_step", 24)),
        quick=True,
    ),
    # 10 batches and 5 steps an epoch
    Training(
        "accelerated",
        30,
        15,
        (Loader(TRAIN, (10, 10, 10)), Loader(EVAL, (4, 4, 4))),
        packages=("accelerate",),
        callback=(
            (
                "from pictures",
                "from loaderwatch.frameworks.accelerate import LoaderwatchTracker\nfrom pictures",
            ),
            ("Accelerator(cpu=True", "Accelerator(log_with=[LoaderwatchTracker()], cpu=True"),
            ("    for epoch in", "    accelerator.init_trackers('digits')\n    for epoch in"),
            (
                "        model.eval()",
                "        accelerator.log({'epoch': epoch}, step=5 * (epoch + 1))\n        model.eval()",
            ),
        ),
        progress=(("framework", "Accelerate"), ("epoch", 2)),
        quick=True,
    ),
    # the sanity check takes two batches before the first epoch
    Training(
        "lightning_fit",
        34,
        30,
        (Loader(TRAIN, (10, 10, 10)), Loader(EVAL, (2, 4, 4, 4))),
        packages=("lightning",),
        callback=(
            (
                "from pictures",
                "from loaderwatch.frameworks.lightning import LoaderwatchCallback\nfrom pictures",
            ),
            ("pl.Trainer(", "pl.Trainer(callbacks=[LoaderwatchCallback()], "),
        ),
        progress=(("framework", "Lightning"), ("max_epochs", 3), ("global_step", 30)),
        quick=True,
    ),
    # an epoch; four batches of the next; its other six, out of a recreated loader
    Training("stateful", 20, 20, (Loader(TRAIN, (10, 4, 6)),), packages=("torchdata",)),
    Training(
        "nodes",
        30,
        30,
        (Loader(TRAIN, (10, 10, 10)),),
        packages=("torchdata",),
        line=(
            ("    model = nn", "    import loaderwatch; loader = loaderwatch.attach(loader)\n    model = nn"),
        ),
        without="DataLoader",
    ),
    Training("fsdp2", 30, 30, (Loader(TRAIN, (10, 10, 10)),), ranks=2),
    # six walks of twenty moves; it learns from the 40th on, out of one pass that does not end
    Training("replay", 81, 81, (Loader(TRAIN, (81,)),)),
    Training(
        "kept_iterators",
        30,
        30,
        (Loader(TRAIN, (10, 10, 10)), Loader(EVAL, (4, 4, 4))),
        name="multi_epochs_shape",
        args=("multi-epochs",),
    ),
    Training(
        "kept_iterators",
        30,
        30,
        (Loader(TRAIN, (10, 10, 10)), Loader(EVAL, (4, 4, 4))),
        name="infinite_shape",
        args=("infinite",),
        quick=True,
    ),
    # ---- in environments of their own
    Training(
        "notebook",
        20,
        20,
        (Loader(TRAIN, (10, 10)), Loader(EVAL, (4,))),
        environment=STREAMS,
        packages=("nbclient", "ipykernel"),
        inner_attach=("import loaderwatch; loaderwatch.attach()",),
    ),
    Training(
        "graphs",
        30,
        30,
        (Loader(TRAIN, (10, 10, 10)), Loader(EVAL, (4, 4, 4))),
        environment=STREAMS,
        packages=("torch-geometric",),
    ),
    Training(
        "webdataset_train",
        30,
        30,
        (Loader(TRAIN, (10, 10, 10)), Loader(EVAL, (5, 5, 5))),
        environment=STREAMS,
        packages=("webdataset",),
    ),
    # 80 samples a worker, five batches of each
    Training(
        "hf_streaming",
        30,
        30,
        (Loader(TRAIN, (10, 10, 10)), Loader(EVAL, (5, 5, 5))),
        environment=STREAMS,
        packages=("datasets",),
    ),
    Training(
        "timm_train",
        30,
        30,
        (Loader(TRAIN, (10, 10, 10)), Loader(EVAL, (4, 4, 4))),
        environment=VISION,
        packages=("timm",),
    ),
    Training(
        "timm_train",
        30,
        30,
        (Loader(TRAIN, (10, 10, 10)), Loader(EVAL, (4, 4, 4))),
        name="timm_multi_epochs",
        args=("--use-multi-epochs-loader",),
        environment=VISION,
        packages=("timm",),
    ),
    Training(
        "yolov5_loader",
        30,
        30,
        (Loader(TRAIN, (10, 10, 10)), Loader(EVAL, (4, 4, 4))),
        environment=VISION,
        packages=("yolov5",),
    ),
    Training(
        "yolo",
        2,
        8,
        (Loader(TRAIN, (4, 4)), Loader(EVAL, (1, 1, 1))),  # the best of its models is validated once more
        environment=VISION,
        packages=("ultralytics",),
        callback=(
            (
                "from ultralytics",
                "from loaderwatch.frameworks.ultralytics import add_callbacks\nfrom ultralytics",
            ),
            ('YOLO("yolov8n.yaml")', 'add_callbacks(YOLO("yolov8n.yaml"))'),
        ),
        progress=(("framework", "Ultralytics"), ("epoch", 1), ("max_epochs", 2)),
    ),
    Training(
        "monai_train",
        30,
        30,
        (Loader(TRAIN, (10, 10, 10)), Loader(EVAL, (4, 4, 4))),
        environment=VISION,
        packages=("monai",),
    ),
    Training(
        "mosaic",
        30,
        30,
        (Loader(TRAIN, (10, 10, 10)), Loader(EVAL, (4, 4, 4))),
        environment=VISION,
        packages=("mosaicml-streaming",),
    ),
)

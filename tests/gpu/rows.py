"""The trainings of the matrix: what each does, and what must be said of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

from tests.gpu.matrix import LIMITS, Run

QUICK: Final = ("--load-ms", "20")
TOO_FEW_WORKERS: Final = "S02"


def loader_runs() -> Iterator[Run]:
    """A batch every 60, 95 or 200 ms for steps of 90: synchronous or not, pinned or not, one or two ranks."""
    for load_ms, item_every, pageable, ranks in itertools.product(
        (60, 95, 200), (0, 1, 10), (False, True), (1, 2)
    ):
        name = f"{load_ms}-{('async', 'item', 'item10')[(item_every > 0) + (item_every > 1)]}"
        name += f"-{'pageable' if pageable else 'pinned'}-{ranks}"
        more = ["--item-every", str(item_every)]
        more += ["--pageable", "--copy-ms", "1"] if pageable else []
        more += ["--collective"] if ranks > 1 else []
        yield _loads(name, load_ms, *more, ranks=ranks)


def _loads(name: str, load_ms: int, *more: str, ranks: int = 1) -> Run:
    """A training that waits for its loader; where that costs much, also one with a quick loader."""
    slow = load_ms > 100
    return Run(
        name,
        ("--load-ms", str(load_ms), *more),
        scenario=TOO_FEW_WORKERS if slow else "",
        because="waiting for data",
        without=(*QUICK, *more) if slow else (),
        ranks=ranks,
    )


OTHER_STREAM: Final = tuple(
    _loads(f"{load_ms}-other-stream", load_ms, "--stream") for load_ms in (60, 95, 200)
)
"""The loop computes on another stream than the one on which it asks for batches: its events say nothing."""

CAUSES: Final = (
    Run("logging", (*QUICK, "--own-ms", "60"), "own", "S26", "it waits for the loop's own work", QUICK),
    Run(
        "logging-each-ten",
        (*QUICK, "--own-ms", "800", "--own-every", "10"),
        "own",
        "S26",
        "it waits for the loop's own work",
        QUICK,
    ),
    Run(
        "logging-under-a-power-cap",  # which is no slowdown: a busy GPU is at its limit as a rule
        (*QUICK, "--own-ms", "60"),
        "own",
        "S26",
        "it waits for the loop's own work",
        QUICK,
        gpu={"throttle": (0x4, 1600)},
    ),
    Run("optimizer", (*QUICK, "--optimizer-ms", "60"), "optimizer", "S26", r"optimizer\.step\(\)", QUICK),
    Run(
        "copy",
        (*QUICK, "--pageable", "--copy-ms", "60"),
        "copy",
        "S17",
        "work on the batch before the model call",
        QUICK,
    ),
    *(
        Run(
            f"looks-by-{read}",
            (*QUICK, "--think-ms", "45", "--item-every", "1", "--read", read),
            "step",
            "S50",
            "the loop waits for the GPU in each step",
            (*QUICK, "--think-ms", "45"),
        )
        for read in ("item", "cpu", "print")
    ),
    Run(
        "launch-bound",
        (*QUICK, "--launch-us", "5000"),
        "step",
        "S51",
        "launches its work too slowly",
        (*QUICK, "--launch-us", "50"),
    ),
    Run(
        "checkpoint",
        (*QUICK, "--save-ms", "1500", "--save-every", "12"),
        "checkpoint",
        "S26",
        "it waits for a checkpoint",
        QUICK,
    ),
    Run(
        "validation",
        (*QUICK, "--validate-ms", "2000", "--validate-every", "15"),
        "validation",
        "S55",
        "valid_loader",
        # as the advice says: a validation is not taken away
        (*QUICK, "--validate-ms", "2000", "--validate-every", "15", "--validate-workers", "8"),
    ),
    Run(
        "epoch-boundary",
        (*QUICK, "--epoch", "20", "--start-ms", "1200", "--item-every", "1"),
        "data",
        "S28",
        "started anew",
        (*QUICK, "--epoch", "20", "--start-ms", "1200", "--item-every", "1", "--persistent"),
    ),
    Run(
        "collective",
        (*QUICK, "--collective", "--ddp", "--late-ms", "150"),
        "step",
        "S48",
        "Rank 1 works",
        (*QUICK, "--collective", "--ddp"),
        ranks=2,
        limits=((LIMITS.input_critical_ratio, "warning"),),  # it may be meant to be so
    ),
)
LOOK_ALIKES: Final = (
    Run(
        "asynchronous", ("--load-ms", "88"), silent=True
    ),  # N20: the loop waits most of the time, the device hardly
    Run("shared", (*QUICK, "--own-ms", "60"), "own", silent=True, gpu={"pids": (1,)}),  # N21
    Run(
        "capped", (*QUICK, "--own-ms", "60"), "own", silent=True, gpu={"throttle": (0x40, 900)}
    ),  # N21, by heat; told as that
    Run("power-capped", QUICK, silent=True, gpu={"throttle": (0x4, 900)}),  # N21, by software
    Run("short-pauses", (*QUICK, "--own-ms", "40", "--own-every", "10"), "own", silent=True),
    Run(
        "quick-validation",
        (*QUICK, "--validate-ms", "80", "--validate-every", "20"),
        "validation",
        silent=True,
    ),
    Run("synchronous", (*QUICK, "--item-every", "1"), "own", silent=True),
    Run(
        "epoch-boundary-ahead", (*QUICK, "--epoch", "60", "--start-ms", "1200"), silent=True
    ),  # the loop has launched so much ahead that the device works on while workers start
    Run("pause-on-purpose", (*QUICK, "--pause-s", "12"), "own", silent=True),
    Run("idle-notebook", (*QUICK, "--leave-after", "10"), "own", silent=True),
)


def matrix(real_devices: int = 0) -> list[Run]:
    """All trainings; on real devices those for which there are enough of them, and NCCL on one and on two.

    The virtual GPU's driver shows states that a real one cannot be made to show.
    """
    runs = [*loader_runs(), *OTHER_STREAM, *CAUSES, *LOOK_ALIKES]
    if not real_devices:
        return runs
    nccl = [
        _loads(f"{load_ms}-nccl-{ranks}", load_ms, "--collective", "--ddp", ranks=ranks)
        for load_ms in (95, 200)
        for ranks in (1, 2)
    ]
    return [run for run in (*runs, *nccl) if run.ranks <= real_devices and not run.gpu]

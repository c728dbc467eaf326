"""The six acts of the demo: what the training run does in each, what should be found, and where to look."""

from __future__ import annotations

from dataclasses import dataclass, replace

from loaderwatch.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Act:
    """One stretch of the training run with its own data loader.

    An epoch has ``images / (2 ranks * batch_size)`` batches; ``repeats`` of 4 shows each image four times an
    epoch.
    """

    key: str
    title: str
    what: str  # what happens, in plain words
    look: str  # what to look at on the page
    scenarios: tuple[str, ...]  # any of these is the right finding; empty: nothing may be found
    epochs: int
    repeats: int = 4
    workers: int = 2
    read_latency_s: float = 0.0  # seconds for each image to arrive from pretended remote storage
    persistent: bool = True
    start_method: str | None = None
    slow_read_s: float = 0.0  # seconds that the one large file takes
    hang_s: float = 0.0  # seconds in which one read is not answered; first epoch only
    preview_s: float = 0.0  # seconds that the loop itself takes each ten steps to save previews


ACTS = (
    Act(
        key="healthy",
        title="A healthy stretch",
        what="two workers per rank keep up with the model; nothing should be found",
        look="the verdict says healthy, the timeline is nearly all forward and backward, data wait is near 0 %",
        scenarios=(),
        epochs=3,
    ),
    Act(
        key="few-workers",
        title="Too few workers",
        what="images now come from slow remote storage: a worker needs five times as long for a batch as the model for a step",
        look="the comb of waits (every 2nd step), GPU utilization as a sawtooth, and how many workers are advised",
        scenarios=("S02",),
        epochs=2,
        repeats=3,
        read_latency_s=0.010,
    ),
    Act(
        key="slow-sample",
        title="One slow sample",
        what="one image takes 3.5 s to read; all other batches wait in line behind it",
        look="single tall waits with ready batches standing by, and the index of the slow image on the rank page",
        scenarios=("S20",),
        epochs=5,
        repeats=1,
        slow_read_s=3.5,
    ),
    Act(
        key="epoch-restart",
        title="An epoch boundary with worker restart",
        what="short epochs, and every one starts its workers anew (spawn, persistent_workers=False)",
        look="the epoch bands: seconds of worker start before each, and what persistent_workers=True would give back",
        scenarios=("S28",),
        epochs=4,
        repeats=1,
        persistent=False,
        start_method="spawn",
    ),
    Act(
        key="sawtooth",
        title="A sawtooth that is not the loader's",
        what="data is there in time, but each ten steps the loop itself waits for the GPU and saves previews for 0.6 s",
        look="GPU utilization swings while data wait stays near 0 %, and the alert names the line of the loop",
        scenarios=("S26",),
        epochs=3,
        repeats=5,
        preview_s=0.6,
    ),
    Act(
        key="hang",
        title="A worker that hangs",
        what="one read is not answered for 20 s; then the worker recovers and training goes on",
        look="the alert while it hangs: rank, worker, pid, sample index and the stack with the blocking line",
        scenarios=("S36",),
        epochs=3,
        hang_s=20.0,
    ),
)

HANG_AFTER_S = 8.0
"""The demo's hang limit in seconds, so short that the alert comes while the worker still hangs."""


def acts_to_play(keys: list[str] | None = None, *, fast: bool = False) -> list[Act]:
    """Return the acts with these keys (None: all) in their order; ``fast`` shortens them for tests.

    Raises:
        ConfigError: a key names no act.
    """
    known = {act.key: act for act in ACTS}
    for key in keys or ():
        if key not in known:
            raise ConfigError(f"no act is named {key!r}; there are {', '.join(known)}")
    chosen = [act for act in ACTS if keys is None or act.key in keys]
    return [_shortened(act) for act in chosen] if fast else chosen


def _shortened(act: Act) -> Act:
    match act.key:
        case "healthy":
            return replace(act, epochs=1)
        case "few-workers":
            return replace(act, epochs=1)
        case "sawtooth":
            return replace(act, epochs=2)
        case "slow-sample":
            return replace(act, epochs=3)
        case "epoch-restart":
            return act  # three boundaries are the least that show a habit
        case _:
            return replace(act, epochs=1, repeats=2, hang_s=12.0, what=act.what.replace("20 s", "12 s"))

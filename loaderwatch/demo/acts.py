"""The six acts of the demo: what the training run does, what should be found, and where to look."""

from __future__ import annotations

from dataclasses import dataclass, replace

from loaderwatch.core.errors import ConfigError
from loaderwatch.core.message import Text


@dataclass(frozen=True, slots=True)
class Act:
    """One part of the training run, with its own data loader.

    An epoch has ``images / (2 ranks * batch_size)`` batches; ``repeats`` of 4 shows each image four times.
    """

    key: str
    scenarios: tuple[str, ...]  # any of these is the right finding; empty: nothing may be found
    epochs: int
    repeats: int = 4
    workers: int = 2
    read_latency_s: float = 0.0  # seconds for an image to arrive from simulated remote storage
    persistent: bool = True
    start_method: str | None = None
    slow_read_s: float = 0.0  # seconds to read the one large file
    hang_s: float = 0.0  # seconds in which one read gets no answer; first epoch only
    preview_s: float = 0.0  # seconds that the loop spends on previews every ten steps

    @property
    def title(self) -> Text:
        """The act's name for people."""
        return self._said()

    @property
    def what(self) -> Text:
        """What happens in the act."""
        return self._said("what")

    @property
    def look(self) -> Text:
        """What to look at on the page."""
        return self._said("look")

    def _said(self, part: str | None = None) -> Text:
        return Text(f"act-{self.key}", {"hang_s": self.hang_s}, part)


ACTS = (
    Act(key="healthy", scenarios=(), epochs=3),
    Act(key="few-workers", scenarios=("S02",), epochs=2, repeats=3, read_latency_s=0.010),
    Act(key="slow-sample", scenarios=("S20",), epochs=5, repeats=1, slow_read_s=3.5),
    Act(key="epoch-restart", scenarios=("S28",), epochs=4, repeats=1, persistent=False, start_method="spawn"),
    Act(key="sawtooth", scenarios=("S26",), epochs=3, repeats=5, preview_s=0.6),
    Act(key="hang", scenarios=("S36",), epochs=3, hang_s=20.0),
)

HANG_AFTER_S = 8.0
"""The demo's hang limit in seconds: so short that the alert comes during the hang."""


def acts_to_play(keys: list[str] | None = None, *, fast: bool = False) -> list[Act]:
    """Return the acts with these keys (None: all) in order; ``fast`` shortens them for tests.

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
            return act  # three boundaries are the fewest that show a habit
        case _:
            return replace(act, epochs=1, repeats=2, hang_s=12.0)

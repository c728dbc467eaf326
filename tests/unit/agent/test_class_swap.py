"""Objects whose class was swapped."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from torch.utils.data._utils.fetch import _MapDatasetFetcher

from loaderwatch.agent.class_swap import hidden_subclass, keep_fields_quick
from loaderwatch.agent.workers.fetch import FetchClock, watch_fetcher
from loaderwatch.core.ring import WORKER_CAPACITY, RingIdentity, RingWriter


class Plain:
    """An object with fields."""

    def __init__(self) -> None:
        self.one, self.two = 1, [2]


def test_fields_move_into_a_dict_of_the_objects_own() -> None:
    made = Plain()
    two = made.two
    made.__class__ = hidden_subclass(Plain, {})
    before = id(vars(made))
    keep_fields_quick(made)
    assert id(vars(made)) != before
    assert vars(made) == {"one": 1, "two": [2]}
    assert made.two is two
    made.one = 3
    assert vars(made)["one"] == 3


def test_a_dict_that_others_hold_stays() -> None:
    class Shared(Plain):
        state: ClassVar[dict[str, Any]] = {}

        def __init__(self) -> None:
            self.__dict__ = self.state
            super().__init__()

    made = Shared()
    made.__class__ = hidden_subclass(Shared, {})
    keep_fields_quick(made)
    assert vars(made) is Shared.state
    held = Plain()
    fields = vars(held)
    keep_fields_quick(held)
    assert vars(held) is fields


def test_a_watched_fetcher_has_one(tmp_path: Path) -> None:
    ring = RingWriter(tmp_path / "worker.ring", RingIdentity(1, 1, 0, 0, 0), WORKER_CAPACITY)
    fetcher: Any = _MapDatasetFetcher([1, 2], True, list, False)
    before = id(vars(fetcher))
    watch_fetcher(fetcher, FetchClock(ring, 0, 0))
    assert id(vars(fetcher)) != before
    assert fetcher.fetch([1, 0]) == [2, 1]
    ring.close()

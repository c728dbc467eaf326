"""The settings that an advice names, in sentences as the detectors make them."""

from __future__ import annotations

import pytest

from loaderwatch.advise.comparison.followed_advice import Advised, advised_in
from loaderwatch.core.answers import Setting


def change(what: str, a: str | None, b: str | None) -> Setting:
    return Setting(where="train_loader", what=what, a=a, b=b)


@pytest.mark.parametrize(
    ("advice", "found"),
    [
        ("Raise num_workers 2 → 9: each fetch takes 164 ms and a step 20 ms."
         " prefetch_factor does not raise throughput.",
         [("num_workers", "9")]),
        ("Set num_workers=3 (2 usable CPUs) and persistent_workers=True: batches are then read while the"
         " model computes, about 49 steps/s instead of 16.",
         [("num_workers", "3"), ("persistent_workers", "True")]),
        ("Set prefetch_factor=8 (now 2)."
         " in_order=False (torch 2.6 or newer) takes no memory, but changes the order.",
         [("prefetch_factor", "8"), ("in_order", "False")]),
        ("Read larger pieces, or read several samples at once; try num_workers=16.", [("num_workers", "16")]),
        ("Let the sampler end the epoch (RandomSampler(num_samples=…), Subset),"
         " or lower prefetch_factor (now 4).",
         [("prefetch_factor", "-inf")]),
        ("Ask for more CPUs: Slurm --cpus-per-task=5. Until then num_workers=4 is enough (8 now).",
         [("num_workers", "4")]),
        ("Set OMP_NUM_THREADS=1 and MKL_NUM_THREADS=1 before Python starts.",
         [("OMP_NUM_THREADS", "1"), ("MKL_NUM_THREADS", "1")]),
        ('Start them clean: multiprocessing_context="forkserver", open files inside the worker.',
         [("start_method", "forkserver")]),
        ("Set pin_memory=True in the loader and call .to(device, non_blocking=True)."
         " Do not call .pin_memory() in the loop.",
         [("pin_memory", "True"), ("non_blocking", "True")]),
        ("More workers do not help against such samples.", []),
        ("", []),
    ],
)  # fmt: skip
def test_settings_of_an_advice(advice: str, found: list[tuple[str, str]]) -> None:
    assert [(each.name, each.value) for each in advised_in(advice)] == found


@pytest.mark.parametrize(
    ("advised", "a", "b", "is_followed"),
    [
        ("8", "2", "8", True),
        ("8", "2", "4", True),  # not all the way
        ("8", "2", "16", True),  # beyond
        ("8", "2", "1", False),
        ("8", "8", "12", False),  # it was as advised before
        ("2", "8", "4", True),
        ("8", None, "8", True),
        ("1", None, "4", False),  # nobody knows from where it came
        ("-inf", "4", "2", True),
        ("-inf", "4", "8", False),
        ("inf", "4", "8", True),
        ("True", "False", "True", True),
        ("True", "True", "False", False),
        ("forkserver", "fork", "spawn", False),
        ("8", "2", None, False),
    ],
)
def test_what_a_change_follows(advised: str, a: str | None, b: str | None, is_followed: bool) -> None:
    assert Advised("num_workers", advised).followed_by(change("num_workers", a, b)) == is_followed


def test_another_setting_is_none_of_it() -> None:
    assert not Advised("num_workers", "8").followed_by(change("prefetch_factor", "2", "8"))

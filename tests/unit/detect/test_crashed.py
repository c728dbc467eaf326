"""A process that died: of what, by its last words and the kernel's counters."""

from __future__ import annotations

import pytest

from loaderwatch.detect.families import detect
from loaderwatch.detect.verdict import verdict
from tests.unit.detect.build import RankBuilder, loader, run


def dead(text: str | None, *, steps: int = 50, phase: str = "wait", **fields: object) -> RankBuilder:
    builder = RankBuilder(loaders=[loader(**fields)])
    for _ in range(steps):
        builder.step(0.001, 0.05)
    builder.open(phase, 0.1)
    builder.state, builder.exit = "crashed", text
    return builder


WORKER = "uncaught RuntimeError: DataLoader worker (pid 77) is killed by signal: "


@pytest.mark.parametrize(
    ("text", "scenario", "says"),
    [
        (WORKER + "Killed. ", "S37", "nine times of ten"),
        (WORKER + "Segmentation fault. ", "S37", "Segmentation fault"),
        (
            WORKER + "Bus error. It is possible that dataloader's workers are out of shared memory.",
            "S39",
            "/dev/shm",
        ),
        (
            "uncaught RuntimeError: unable to write to file </torch_12_345_0>: No space left on device (28)",
            "S39",
            "--shm-size",
        ),
        (
            "uncaught RuntimeError: unable to resize file </torch_1> to the right size",
            "S39",
            "prefetch_factor",
        ),
        ("uncaught OSError: [Errno 24] Too many open files", "S40", "ulimit"),
        ("uncaught RuntimeError: received 0 items of ancdata", "S40", ".clone()"),
    ],
)
def test_last_words_are_understood(text: str, scenario: str, says: str) -> None:
    window = run(dead(text), host={"shm_total_bytes": 64e6})
    (finding,) = detect(window)
    assert (finding.scenario, finding.code, finding.severity) == (scenario, "crashed", "critical")
    assert says in " ".join([finding.title, finding.cause, finding.advice])
    assert verdict(window, [finding]).title == finding.title


@pytest.mark.parametrize("text", [WORKER + "Killed. ", None])
def test_the_kernel_says_it_was_memory(text: str | None) -> None:
    rows = [{"oom_kills": 3.0}] * 4 + [{"oom_kills": 4.0}]
    (finding,) = detect(run(dead(text), host_rows=rows))
    assert finding.scenario == "S37"
    assert "out of memory" in finding.title
    assert {item.label: item.value for item in finding.evidence}["out-of-memory kills"] == 1


@pytest.mark.parametrize(
    ("text", "method", "says"),
    [
        (
            "uncaught AttributeError: Can't pickle local object 'main.<locals>.<lambda>'",
            "spawn",
            "module level",
        ),
        ("uncaught TypeError: cannot pickle '_thread.lock' object", "forkserver", "pickled"),
        ("uncaught RuntimeError: Cannot re-initialize CUDA in forked subprocess.", "fork", "CPU tensors"),
        ("uncaught AssertionError: daemonic processes are not allowed to have children", "fork", "daemon"),
        ("uncaught RuntimeError: DataLoader worker (pid(s) 7, 8) exited unexpectedly", "spawn", "__main__"),
        ("uncaught RuntimeError: something else", "fork", "num_workers=0"),
    ],
)
def test_before_the_first_batch(text: str, method: str, says: str) -> None:
    (finding,) = detect(run(dead(text, steps=0, phase="iter", start_method=method)))
    assert finding.scenario == "S42"
    assert says in " ".join([finding.title, finding.cause, finding.advice])
    assert "before the first batch" in finding.title


@pytest.mark.parametrize(
    "builder",
    [
        dead("uncaught ValueError: my own mistake"),
        dead("uncaught ValueError: my own mistake", steps=0, phase="outside"),
        dead("uncaught ValueError: my own mistake", steps=0, phase="wait", num_workers=0),
        dead(None),
        dead("uncaught KeyboardInterrupt"),
    ],
)
def test_errors_of_the_users_own_are_left_to_them(builder: RankBuilder) -> None:
    assert detect(run(builder)) == []


def test_the_first_rank_that_died_speaks_for_all() -> None:
    first, second = dead(WORKER + "Killed. "), dead("uncaught RuntimeError: Connection closed by peer")
    second.rank = 1
    second.now_ns += 10**9
    findings = detect(run(first, second))
    assert [(finding.scenario, finding.rank) for finding in findings if finding.code == "crashed"] == [
        ("S37", 0)
    ]

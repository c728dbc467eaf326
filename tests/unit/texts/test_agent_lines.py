"""The lines of the training process and its workers, as people know them, and none of them missing here."""

from __future__ import annotations

from typing import Final

import pytest
from fluent.syntax import FluentParser, ast

from loaderwatch.agent.workers.deadline import OWN_CODE
from loaderwatch.agent.workers.ended_workers import Note, why_ended
from loaderwatch.agent.workers.failed_sample import told
from loaderwatch.core.facts import Call, FailedSample
from loaderwatch.core.message import Param, Text
from loaderwatch.core.records import UNKNOWN
from loaderwatch.texts import LANGUAGES, say
from tests.unit.texts.test_catalogues import FOLDER

LIMIT: Final[dict[str, Param]] = {"option": "sample_timeout=60", "loader": "train"}
LEFT_OUT: Final[dict[str, Param]] = {**LIMIT, "index": "7", "took_s": 61.23, "stood": "d.py:3 in read"}
MOVE: Final[dict[str, Param]] = {"epoch": 3, "changes": "num_workers 2 → 4", "predicted_per_s": "25"}

LINES: Final[list[tuple[str, dict[str, Param], str]]] = [
    (
        "unwatched-for-fault",
        {"fault": "ValueError('x')"},
        "cannot watch this run, for a fault of its own (ValueError('x')); training goes on unwatched",
    ),
    (
        "partly-watched-for-fault",
        {"fault": "E"},
        "cannot watch all that attach was given, for a fault of its own (E); training is not affected",
    ),
    ("agent-not-loaded", {"fault": "E"}, "cannot be loaded here (E); training goes on unwatched"),
    (
        "hooks-removed",
        {"faults": 5, "fault": "E: x"},
        "stepped aside after 5 faults of its own; training goes on unwatched. The last one: E: x",
    ),
    (
        "unknown-framework",
        {"framework": "Lightning", "version": "9.0"},
        "does not know Lightning 9.0; the run is watched, but its stages and epochs are not shown. Try"
        " another version of either",
    ),
    ("loader-not-tuned", {}, "cannot tune this loader, which is not watched; see the line before"),
    (
        "addresses-not-written",
        {"folder": "/d", "why": "full"},
        "cannot write to /d (full), so nobody is told at the addresses of this run; the page and this"
        " terminal show its alerts all the same",
    ),
    (
        "folder-of-another-user",
        {"path": "/d", "why": "no"},
        "cannot write to /d (no); training goes on unwatched. Set LOADERWATCH_DIR to a directory of your own",
    ),
    (
        "rings-not-written",
        {"path": "/d", "why": "full", "shared_memory": "/dev/shm"},
        "cannot write to /d (full); training goes on unwatched. Free some space in /dev/shm, or give the"
        " container more: docker run --shm-size=8g or --ipc=host, in Kubernetes an emptyDir with medium:"
        " Memory on /dev/shm",
    ),
    (
        "rings-not-written",
        {"path": "/d", "why": "no", "shared_memory": None},
        "cannot write to /d (no); training goes on unwatched. Free some space there, or set LOADERWATCH_DIR"
        " to a writable directory",
    ),
    (
        "data-dir-replaced",
        {"folder": "/tmp/x"},
        "your own data directory cannot be written; /tmp/x takes its place",
    ),
    (
        "streamer-not-started",
        {"error": "E"},
        "cannot start the streamer (E); training goes on unwatched. Set LOADERWATCH_DIR to a writable"
        " directory",
    ),
    (
        "recorded-as-another-run",
        {"recorded": "'a'", "wanted": "'b'", "name": "b"},
        "this rank is recorded as 'a' since it began, not as 'b'; use --name b",
    ),
    (
        "sent-to-another-server",
        {"server": None, "wanted": "http://b"},
        "this rank has sent to the server of this machine since it began, not to http://b; set"
        " LOADERWATCH_SERVER=http://b",
    ),
    (
        "sent-to-another-server",
        {"server": "http://a", "wanted": "http://b"},
        "this rank has sent to http://a since it began, not to http://b; set LOADERWATCH_SERVER=http://b",
    ),
    (
        "stacks-not-written",
        {"folder": "/d", "why": "full"},
        "cannot write to /d (full); processes that cannot have no stacks",
    ),
    (
        "worker-not-recorded",
        {"worker": 3, "folder": "/d", "why": "full"},
        "cannot record DataLoader worker 3 in /d (full): it and others like it work unwatched. Free some"
        " space there",
    ),
    (
        "nothing-to-watch",
        {"script": "train.py"},
        "train.py iterated no DataLoader and stepped no optimizer of PyTorch's, so nothing was measured; if"
        " it reads data some other way, wrap that iterable: loader = loaderwatch.attach(loader)",
    ),
    (
        "cached-batches-repeat",
        {"loader": "train", "batches": 20},
        "train: its first 20 batches are given again from now on; what is trained is worthless",
    ),
    (
        "too-few-cached-batches",
        {"loader": "train", "read": 3, "steps": 2},
        "train: too few batches for a speed with cached ones: 3 were read, 2 steps done with them again",
    ),
    (
        "speed-with-cached-batches",
        {"loader": "train", "kept": 20, "read_per_s": "8", "again_per_s": "40", "times": 5.0},
        "train: 40 batches/s with 20 cached batches, 8 while it read them itself; a perfect loader would make"
        " this run at most 5.0 times as fast",
    ),
    (
        "speed-with-cached-batches",
        {"loader": "train", "kept": 20, "read_per_s": "40.2", "again_per_s": "40.3", "times": None},
        "train: 40.3 batches/s with 20 cached batches, 40.2 while it read them itself; a perfect loader would"
        " not make this run faster",
    ),
    (
        "autotune-moved",
        {"loader": "train", "move": Text("autotune-move", {**MOVE, "taken_back": False, "per_s": "12.5"})},
        "autotune of train before epoch 3: num_workers 2 → 4 (12.5 batches/s, 25 predicted)",
    ),
    (
        "autotune-move",
        {**MOVE, "taken_back": True, "per_s": "12.5"},
        "before epoch 3: num_workers 2 → 4 (taken back: 12.5 batches/s, 25 were predicted)",
    ),
    (
        "autotune-move",
        {**MOVE, "taken_back": False, "per_s": "?"},
        "before epoch 3: num_workers 2 → 4 (? batches/s, 25 predicted)",
    ),
    ("limit-of-unwatched-run", {"option": "sample_timeout=60"}, "sample_timeout=60 is not kept either"),
    (
        "limit-of-unwatched-loader",
        {"option": "sample_timeout=60"},
        "cannot keep sample_timeout=60, as this loader is not watched; see the line before",
    ),
    (
        "limit-needs-timers",
        LIMIT,
        "cannot keep sample_timeout=60 of train: it needs Linux's timers and three free real-time signals,"
        " and this process has none. Training goes on without it",
    ),
    (
        "limit-not-in-process",
        {**LIMIT, "error": "E"},
        "cannot keep sample_timeout=60 of train in the training process: E",
    ),
    (
        "limit-not-in-workers",
        {**LIMIT, "error": "E"},
        "cannot keep sample_timeout=60 of train in its workers: E",
    ),
    (
        "limit-needs-fetchers",
        LIMIT,
        "cannot keep sample_timeout=60 of train: this version of PyTorch makes its fetchers elsewhere",
    ),
    (
        "limit-needs-main-thread",
        LIMIT,
        "cannot keep sample_timeout=60 of train: its samples are read outside the main thread, which alone"
        " can be interrupted. Iterate it there, or use num_workers=1 or more",
    ),
    (
        "sample-left-out",
        {**LEFT_OUT, "read": "sample", "worker": 2, "last": False},
        "left out sample 7 of train: it took 61.2 s in worker 2, longer than sample_timeout=60, at d.py:3 in"
        " read.",
    ),
    (
        "sample-left-out",
        {**LEFT_OUT, "read": "number", "worker": None, "last": True, "stood": OWN_CODE},
        "left out sample number 7 of train: it took 61.2 s in the training process, longer than"
        " sample_timeout=60, at the dataset's own code. Further ones are only counted, on the page",
    ),
    (
        "sample-ended-worker",
        why_ended(Note(7, 1, "d.py:3 in read"), "train", 2, 66_000_000_000, "sample_timeout=60"),
        "sample 7 of train took 66.0 s in worker 2, longer than sample_timeout=60. It could not be"
        " interrupted, so the worker was ended: it stood at d.py:3 in read, in code that does not return to"
        " Python or in an `except:` that catches everything. Give that call a timeout of its own, run it"
        " in a process that can be killed, or raise sample_timeout",
    ),
    (
        "sample-ended-worker",
        why_ended(Note(UNKNOWN, 1, ""), None, 2),
        "a batch of a loader took too long in worker 2, longer than its sample_timeout. It could not be"
        " interrupted, so the worker was ended: it was stuck in the kernel, as with storage that does not"
        " answer. Give that call a timeout of its own, run it in a process that can be killed, or raise"
        " sample_timeout",
    ),
    (
        "run-ended-after",
        {"name": "r", "steps": 12_340, "took_s": 8.0, "lost": "1 s lost"},
        "r ended after 12,340 steps in 8 s, 1 s lost",
    ),
    ("run-ended-early", {"name": "r", "how": "crashed"}, "r crashed"),
    (
        "process-stopped",
        {"signal": "SIGTERM", "step": 1_204, "rank": 3},
        "stopped by SIGTERM on rank 3 in step 1,204",
    ),
    (
        "process-exited",
        {"code": "2", "step": 0, "rank": None},
        "ended with exit code 2 before its first step",
    ),
    (
        "process-crashed",
        {"error": "E: x", "place": "t.py:4 in main", "raised_in": "load", "step": 5, "rank": None},
        "crashed in step 5: E: x (t.py:4 in main, raised in load)",
    ),
    (
        "process-crashed",
        {"error": "E: x", "place": None, "raised_in": None, "step": 5, "rank": None},
        "crashed in step 5: E: x",
    ),
    (
        "process-crashed-at-sample",
        {"sample": "worker 0 failed", "error": None, "step": 5, "rank": 1},
        "crashed on rank 1 in step 5: worker 0 failed",
    ),
    (
        "process-crashed-at-sample",
        {"sample": "worker 0 failed", "error": "E: x", "place": "t.py:4 in main", "raised_in": None,
         "step": 5, "rank": None},
        "crashed in step 5: worker 0 failed; then E: x (t.py:4 in main)",
    ),
    (
        "sample-error-not-sent",
        {"sample": "worker 0 failed while reading sample 7: E", "why": "cannot pickle"},
        "worker 0 failed while reading sample 7: E. The error cannot be handed to the training process, which"
        " waits for this batch in vain (cannot pickle). Define its class at the top of a module",
    ),
]  # fmt: skip
"""A message, its parameters, and what it says in English."""


@pytest.mark.parametrize(("message", "params", "english"), LINES)
def test_what_a_line_says(message: str, params: dict[str, Param], english: str) -> None:
    assert say(Text(message, params)) == english
    assert say(Text(message, params), "zh") not in ("", english, message) or message == "run-ended-early"


AT: Final = Call(file="/home/me/data.py", function="read", line=33)


@pytest.mark.parametrize(
    ("worker", "samples", "indices", "counted", "collating", "at", "english"),
    [
        (
            0,
            1,
            [7],
            False,
            False,
            AT,
            "worker 0 failed while reading sample 7, at /home/me/data.py:33 in read",
        ),
        (-1, 1, ["a"], True, False, None, "the training process failed while reading sample number 'a'"),
        (1, 3, [7, 8, 9], False, True, None, "worker 1 failed while collating samples 7, 8, 9"),
        (1, 12, list(range(9)), True, True, None,
         "worker 1 failed while collating sample numbers 0, 1, 2, 3, 4, 5, 6, 7 and 4 more"),
        (1, 0, [], False, False, None, "worker 1 failed while reading a batch"),
        (1, 1, [], False, False, None, "worker 1 failed while reading a sample"),
        (1, 4, [], False, False, None, "worker 1 failed while reading a batch of 4 samples"),
    ],
)  # fmt: skip
def test_what_failed(
    worker: int,
    samples: int,
    indices: list[int | str],
    counted: bool,
    collating: bool,
    at: Call | None,
    english: str,
) -> None:
    failed = FailedSample(
        loader=0,
        worker=worker,
        samples=samples,
        indices=indices,
        counted=counted,
        collating=collating,
        at=at,
        error="ValueError: no\nsuch",
    )
    assert say(told(failed)) == f"{english}: ValueError: no such"


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_line_is_looked_at(language: str) -> None:
    parsed = FluentParser().parse((FOLDER / language / "agent.ftl").read_text(encoding="utf-8"))
    ids = {entry.id.name for entry in parsed.body if isinstance(entry, ast.Message)}
    parts = {"process-that-reads", "place-of-sample", "at-step"}
    parts |= {"place-of-error", "failed-samples", "sample-failed"}
    assert ids - parts == {message for message, _, _ in LINES}

"""The rules of family ``hung``: why nothing moves any more."""

from __future__ import annotations

from typing import Final

from loaderwatch.core.facts import AT_END, OPEN_SPAN
from loaderwatch.detect.hang import at_exit, collectives, loader_hang_causes, outside_loops
from loaderwatch.detect.rule import Rule

RULES: Final = (
    # The loader does not deliver.
    Rule("worker-process-dead", "S37", loader_hang_causes.reason_of),
    Rule("batch-lost-on-the-way", "S41", loader_hang_causes.reason_of),
    Rule("worker-queue-never-filled", "S35", loader_hang_causes.reason_of, OPEN_SPAN),
    Rule("reader-thread-left", "S26 S41 S53", loader_hang_causes.producer_gone),
    Rule("reader-thread-died", "S26 S41 S53", loader_hang_causes.producer_gone),
    Rule("queue-never-filled", "S26 S41 S53", loader_hang_causes.producer_gone, OPEN_SPAN),
    Rule("pool-gives-no-sign", "S26 S35 S53", loader_hang_causes.thread_silent, OPEN_SPAN),
    Rule("future-gives-no-sign", "S26 S35 S53", loader_hang_causes.thread_silent, OPEN_SPAN),
    Rule("thread-gives-no-sign", "S26 S35 S53", loader_hang_causes.thread_silent, OPEN_SPAN),
    Rule("retries-without-end", "S22", loader_hang_causes.without_end),
    # A worker, a rank or the script itself is blocked; the second number says where.
    Rule("computes-without-end", "S22 S26 S47 S53", loader_hang_causes.blocked),
    Rule("stopped-by-signal", "S26 S36 S47 S53", loader_hang_causes.blocked),
    Rule("lock-never-released", "S26 S35 S47 S53", loader_hang_causes.blocked),
    Rule("file-lock-held", "S26 S36 S47 S53", loader_hang_causes.blocked),
    Rule("named-pipe-never-opened", "S26 S36 S47 S53", loader_hang_causes.blocked),
    Rule("sleeps-in-own-code", "S26 S36 S47 S53", loader_hang_causes.blocked),
    Rule("child-never-ends", "S26 S36 S47 S53", loader_hang_causes.blocked),
    Rule("connection-never-answers", "S26 S36 S47 S53", loader_hang_causes.blocked),
    Rule("something-never-answers", "S26 S36 S47 S53", loader_hang_causes.blocked),
    Rule("storage-never-answers", "S26 S36 S47 S53", loader_hang_causes.blocked),
    Rule("uninterruptible-wait", "S26 S36 S47 S53", loader_hang_causes.blocked),
    # A process stands still outside its loader.
    Rule("compilers-hang", "S26 S53", outside_loops.alone, OPEN_SPAN),
    Rule("save-hangs", "S52", outside_loops.alone, OPEN_SPAN),
    Rule("optimizer-search-endless", "S26", outside_loops.alone, OPEN_SPAN),
    Rule("child-ended-without-answer", "S26 S53", outside_loops.alone, OPEN_SPAN),
    Rule("stands-still-in-own-code", "S26 S53", outside_loops.alone, OPEN_SPAN),
    # A process does not end after the last line of its script.
    Rule("child-outlives-script", "S53", at_exit.finding, AT_END),
    Rule("thread-outlives-script", "S53", at_exit.finding, AT_END),
    Rule("library-outlives-script", "S53", at_exit.finding, AT_END),
    # Ranks wait for each other.
    Rule("unequal-batches-per-rank", "S44", collectives.left_behind),
    Rule("unequal-forward-passes", "S46", collectives.detect, OPEN_SPAN),
    Rule("ranks-in-different-collectives", "S45", collectives.detect, OPEN_SPAN),
    Rule("rank-destroys-its-group", "S45", collectives.detect, OPEN_SPAN),
    Rule("rank-left-the-loop", "S45", collectives.detect, OPEN_SPAN),
    Rule("checkpoint-by-one-rank", "S45", collectives.detect, OPEN_SPAN),
    Rule("evaluation-by-one-rank", "S45", collectives.detect, OPEN_SPAN),
    Rule("data-preparation-by-one-rank", "S45", collectives.detect, OPEN_SPAN),
    Rule("report-by-one-rank", "S45", collectives.detect, OPEN_SPAN),
    Rule("collective-by-one-rank", "S45", collectives.detect, OPEN_SPAN),
    Rule("model-branches-differ", "S45", collectives.detect, OPEN_SPAN),
    Rule("collective-never-completes", "S45", collectives.detect, OPEN_SPAN),
    Rule("backward-never-completes", "S45", collectives.detect, OPEN_SPAN),
    Rule("all-ranks-send", "S45", collectives.detect, OPEN_SPAN),
    Rule("all-ranks-receive", "S45", collectives.detect, OPEN_SPAN),
    Rule("others-wait-for-crashed-rank", "S45", collectives.detect),
    Rule("rank-crashed-on-unused-parameters", "S45", collectives.detect),
    Rule("others-wait-for-ended-rank", "S45", collectives.detect),
    Rule("save-of-one-rank-hangs", "S52", collectives.detect, OPEN_SPAN),
    Rule("others-wait-for-checkpoint", "S47 S53", collectives.detect, OPEN_SPAN),
    Rule("others-wait-for-evaluation", "S47 S53", collectives.detect, OPEN_SPAN),
    Rule("others-wait-for-data-preparation", "S47 S53", collectives.detect, OPEN_SPAN),
    Rule("others-wait-for-long-work", "S47 S53", collectives.detect, OPEN_SPAN),
)

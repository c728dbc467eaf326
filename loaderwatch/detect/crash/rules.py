"""The rules of families ``crashed`` and ``caught-error``: why a training process died, or what it caught."""

from __future__ import annotations

from typing import Final

from loaderwatch.detect.crash import (
    caught_errors,
    detector,
    failed_sample,
    full_disk,
    killed,
    late_sample,
    unexplained,
)
from loaderwatch.detect.rule import Rule

RULES: Final = (
    Rule("sample-took-too-long", "", late_sample.of_its_error),
    Rule("disk-full", "S56", full_disk.of_its_error),
    Rule("shared-memory-full", "S39", detector.detect),
    Rule("descriptors-exhausted", "S40", detector.detect),
    Rule("worker-descriptors-exhausted", "S40", detector.detect),
    Rule("worker-ended-at-slow-sample", "", late_sample.of_its_signal),
    Rule("killed-out-of-memory", "S37", killed.killed_worker),
    Rule("killed-perhaps-out-of-memory", "S37", killed.killed_worker),
    Rule("killed-from-outside", "S37", killed.killed_worker),
    Rule("ended-by-signal", "S37", killed.killed_worker),
    Rule("native-code-crashed", "S37", killed.killed_worker),
    Rule("worker-vanished", "S37", killed.killed_worker),
    Rule("loader-cannot-be-pickled", "S42", detector.detect),
    Rule("cuda-used-before-fork", "S42", detector.detect),
    Rule("daemonic-process", "S42", detector.detect),
    Rule("no-main-guard", "S42", detector.detect),
    Rule("error-while-starting-workers", "S42", detector.detect),
    Rule("sample-raised-error", "", failed_sample.of_its_fetch),
    Rule("batch-raised-error", "", failed_sample.of_its_fetch),
    Rule("collating-raised-error", "", failed_sample.of_its_fetch),
    # What no other rule explains.
    Rule("uncaught-error", "", unexplained.detect),
    Rule("exit-code-chosen", "", unexplained.detect),
    Rule("fault-in-native-code", "S37", unexplained.detect),
    Rule("signal-was-sent", "S37", unexplained.detect),
    Rule("process-was-killed", "S37", unexplained.detect),
    Rule("process-vanished", "S37", unexplained.detect),
)

CAUGHT: Final = (
    Rule("worker-death-caught", "S37", caught_errors.detect),
    Rule("loader-error-caught", "S22", caught_errors.detect),
)

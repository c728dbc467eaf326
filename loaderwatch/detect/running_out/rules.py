"""The rules of families ``running-out`` and ``headroom``: what will be used up if the growth continues."""

from __future__ import annotations

from typing import Final

from loaderwatch.detect.rule import Rule
from loaderwatch.detect.running_out import (
    descriptors,
    disk,
    memory,
    ready_batches,
    shared_memory,
    slower_fetches,
    time_to_starvation,
)

RULES: Final = (
    Rule("shared-memory-fills-up", "S39", shared_memory.detect),
    Rule("shared-memory-too-small", "S39", shared_memory.detect),
    Rule("descriptors-run-out", "S40", descriptors.detect),
    Rule("memory-runs-out", "S24", memory.detect),
    Rule("disk-fills-up", "S56", disk.detect),
    Rule("checkpoint-does-not-fit", "S56", disk.detect),
)

HEADROOM: Final = (
    Rule("gpu-work-used-up", "", time_to_starvation.detect),
    Rule("loader-barely-keeps-up", "", time_to_starvation.detect),
    Rule("read-ahead-used-up", "", ready_batches.detect),
    Rule("fetches-get-slower", "S58", slower_fetches.detect),
)

"""The rules of families ``epoch-boundary`` and ``fast-forward``: what the time between two epochs goes to."""

from __future__ import annotations

from typing import Final

from loaderwatch.detect.epoch_boundary import causes, fast_forward
from loaderwatch.detect.rule import Rule

RULES: Final = (
    Rule("iterator-per-batch", "S32", causes.explain_rebuilt),
    Rule("slow-shuffle", "S15", causes.explain),
    Rule("slow-worker-shutdown", "S31", causes.explain),
    Rule("read-ahead-thrown-away", "S30", causes.explain),
    Rule("shuffle-buffer-refilled", "S33", causes.explain),
    Rule("first-batch-not-read-ahead", "S33", causes.explain),
    Rule("first-batch-without-workers", "S33", causes.explain),
    Rule("workers-restarted-each-epoch", "S28", causes.explain),
    Rule("dataloader-made-each-epoch", "S28", causes.explain),
)

FAST_FORWARD: Final = (Rule("resume-reads-again", "S34", fast_forward.detect),)

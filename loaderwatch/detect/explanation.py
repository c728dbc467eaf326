"""The explanation that a rule gives for a rank that waits, hangs or died."""

from __future__ import annotations

from dataclasses import dataclass, field

from loaderwatch.core.answers import Evidence, Param, Text
from loaderwatch.core.facts import StackDump


@dataclass(frozen=True)
class Explanation:
    """One cause with its numbers; the detector that asked for it turns it into a finding.

    The part ``because`` of the rule's message completes the finding's title: "Training loses 62 % of its time
    waiting for data: num_workers=0 reads every batch on the training thread".
    """

    scenario: str
    confidence: float  # 0 to 1
    rule: str  # id of the cause; its message has the parts "because", "cause" and "advice"
    params: dict[str, Param] = field(default_factory=dict)
    also: list[Text] = field(default_factory=list)
    gain_ceiling_ratio: float | None = None
    remark: bool = False  # may be intended, whatever it costs
    mild: bool = False  # alerts only if its share is critical, and then as a warning
    steady: bool = False  # slows every batch too: its effect on single batches is the same alert
    saved_s: float = 0.0  # at an epoch boundary: seconds per epoch that the advice saves at most
    evidence: list[Evidence] = field(default_factory=list)
    worker: int | None = None
    pid: int | None = None
    sample_indices: list[int] = field(default_factory=list)
    stacks: list[StackDump] = field(default_factory=list)

    def said(self, part: str) -> Text:
        """Return a part of the rule's message, "because", "cause" or "advice", as a message parameter."""
        return Text(self.rule, self.params, part)

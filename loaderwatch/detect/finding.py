"""A finding, which is the conclusion of a detector, and its occurrence over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Final, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from loaderwatch.core import answers
from loaderwatch.core.answers import Evidence, Param, Text, Unit, Verdict, VerdictSeverity
from loaderwatch.core.answers.findings import Concluded, Named
from loaderwatch.core.facts import StackDump
from loaderwatch.texts import SOURCE, is_sayable, say


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


def who(ranks: Sequence[int], world_size: int) -> dict[str, Param]:
    """Return the parameters of the message ``who``: "Training", "Rank 3", "Ranks 0 and 2", "All 8 ranks"."""
    several = "both" if len(ranks) == world_size == 2 else "all" if len(ranks) == world_size else "several"
    kind = "training" if world_size <= 1 else "one" if len(ranks) == 1 else several
    return {"who": kind, "ranks": list(ranks), "world": world_size}


SEVERITIES: Final = {"info": 0, "warning": 1, "critical": 2}


@lru_cache(1024)
def _label(message: str) -> str:
    return say(Text(message))


Value: TypeAlias = float | int | str | Text | None


def observed(name: str | Text, value: Value, unit: Unit, **params: Param) -> Evidence:
    """Return a value with its label: the message ``name`` or ``evidence-NAME``, with its parameters."""
    text = name if isinstance(name, Text) else Text(f"evidence-{name}", params)
    label = say(text) if text.params else _label(text.id)
    if not isinstance(value, Text):
        return Evidence(label=label, value=value, unit=unit, label_text=text)
    return Evidence(label=label, value=say(value), unit=unit, label_text=text, value_text=value)


def known_evidence(*values: tuple[str | Text, Value, Unit]) -> list[Evidence]:
    """Return evidence of each (name, value, unit) with a known value: not None, NaN or infinite."""
    return [
        observed(name, value, unit)
        for name, value, unit in values
        if value is not None and not (isinstance(value, float) and not math.isfinite(value))
    ]


class Texts(msgspec.Struct, frozen=True):
    """The sentences of a finding in one language."""

    title: str = ""
    cause: str = ""
    advice: str = ""


class Folded(Named, frozen=True, kw_only=True, dict=True):
    """A finding that another finding explains: shown below the other one, without an alert of its own."""

    rule: str = ""
    params: dict[str, Param] = msgspec.field(default_factory=dict)
    frame: Text | None = None
    texts: Texts = Texts()
    began_ns: int  # UTC
    warned_s: float | None = None  # how long it was an alert before the other took over; None: no alert

    @cached_property
    def title(self) -> str:
        """The title in English."""
        return title_of(self)


class Finding(Concluded, frozen=True, kw_only=True, dict=True):
    """One conclusion of a detector over one window: the rule, and the numbers and names for its message.

    The sentences are in the catalogues of ``loaderwatch.texts``: the rule's message has the parts ``title``,
    ``cause`` and ``advice``. A ``frame`` is a title that several rules share. Each message in ``also`` is an
    observation; its ``cause`` and ``advice`` follow those of the rule. English sentences of a stored finding
    whose rule is missing or of another version are in ``texts``.

    ``key`` identifies the incident: the tracker merges later findings with the same key and alerts once.
    """

    # which of several findings of this family and loader: "steady", "spikes", the place of a GPU's idle time
    aspect: str = ""
    began_ns: int  # UTC
    ended_ns: int | None = None  # None while it goes on
    texts: Texts = Texts()
    stacks: list[StackDump] = msgspec.field(default_factory=list)
    # The findings that this one explains, see incidents/explained_findings.py.
    folded: list[Folded] = msgspec.field(default_factory=list)
    is_past: bool = False  # the rank may have stopped since: keeps an incident open, but opens none

    @cached_property
    def title(self) -> str:
        """The title in English: one sentence with the number that matters."""
        return title_of(self)

    @cached_property
    def cause(self) -> str:
        """What was observed, in English."""
        return say(text_of(self, "cause"), kept=self.texts.cause)

    @cached_property
    def advice(self) -> str:
        """What to do, in English."""
        return say(text_of(self, "advice"), kept=self.texts.advice)


def with_texts(finding: Finding) -> Finding:
    """Return the finding with its English sentences, for readers of another version without this rule."""
    folded = [replace(item, texts=Texts(title=item.title)) for item in finding.folded]
    return replace(finding, texts=texts_of(finding, SOURCE), folded=folded)


def title_of(finding: Finding | Folded, language: str = SOURCE) -> str:
    """Return the title of a finding in a language."""
    return say(text_of(finding, "title"), language, finding.texts.title)


def texts_of(finding: Finding, language: str) -> Texts:
    """Return the sentences of a finding in a language; the stored ones if this version cannot say them."""
    parts = ("title", "cause", "advice")
    return Texts(*(say(text_of(finding, part), language, getattr(finding.texts, part)) for part in parts))


def text_of(finding: Finding | Folded | answers.Finding, part: str) -> Text:
    """Return the "title", "cause" or "advice" of a finding as a message, including its further observations.

    A stored or received finding may be of another version. If this one cannot say it, the English text stays.
    """
    kept: str = getattr(finding if isinstance(finding, answers.Finding) else finding.texts, part)
    if not finding.rule:
        return Text("as-written", {"text": kept})
    frame = finding.frame if part == "title" else None
    sentence = frame or Text(finding.rule, finding.params, part)
    for text in () if isinstance(finding, Folded) else finding.also:
        sentence = Text("one-after-another", {"first": sentence, "next": replace(text, part=part)})
    return sentence if not kept or is_sayable(sentence) else Text("as-written", {"text": kept})


def verdict(
    severity: VerdictSeverity, rule: str, finding_id: str | None = None, /, **params: Param
) -> Verdict:
    """Return the verdict with a message's parts ``title`` and ``advice``."""
    title, advice = (say(Text(rule, params, part)) for part in ("title", "advice"))
    return Verdict(
        severity=severity, title=title, advice=advice, finding_id=finding_id, rule=rule, params=params
    )


def warned_s(finding: Finding) -> float | None:
    """Return how many seconds before this finding people were warned of it; None when they were not."""
    return max((item.warned_s for item in finding.folded if item.warned_s is not None), default=None)


class Occurrence(Protocol):
    """A finding over its life: an incident, or the alert that people see."""

    @property
    def id(self) -> str: ...

    @property
    def finding(self) -> Finding: ...

    @property
    def opened_ns(self) -> int: ...

    @property
    def closed_ns(self) -> int | None: ...

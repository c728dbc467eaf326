"""A finding, which is what a detector concluded, and its occurrence over time."""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from typing import Final, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from loaderwatch.core import answers
from loaderwatch.core.answers import Evidence, Param, Text, Unit, Verdict, VerdictSeverity
from loaderwatch.core.answers.findings import Concluded, Named
from loaderwatch.core.facts import StackDump
from loaderwatch.texts import SOURCE, is_sayable, say

SEVERITIES: Final = {"info": 0, "warning": 1, "critical": 2}


@lru_cache(1024)
def _label(message: str) -> str:
    return say(Text(message))


Value: TypeAlias = float | int | str | Text | None


def observed(name: str | Text, value: Value, unit: Unit, **params: Param) -> Evidence:
    """Return a value with its label: a message, or the one whose id is ``evidence-`` and the name, with parameters."""
    text = name if isinstance(name, Text) else Text(f"evidence-{name}", params)
    label = say(text) if text.params else _label(text.id)
    if not isinstance(value, Text):
        return Evidence(label=label, value=value, unit=unit, label_text=text)
    return Evidence(label=label, value=say(value), unit=unit, label_text=text, value_text=value)


def known_evidence(*values: tuple[str | Text, Value, Unit]) -> list[Evidence]:
    """Return evidence of those (name, value, unit) whose value is known: not None, NaN or infinite."""
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
    """A finding that another one explains: it is shown under that one and raises no alert of its own."""

    rule: str = ""
    params: dict[str, Param] = msgspec.field(default_factory=dict)
    frame: Text | None = None
    texts: Texts = Texts()
    began_ns: int  # UTC
    warned_s: float | None = None  # seconds as an alert before the finding above took over; None: it was none

    @cached_property
    def title(self) -> str:
        """The title in English."""
        return title_of(self)


class Finding(Concluded, frozen=True, kw_only=True, dict=True):
    """One conclusion of a detector over one window: the rule that fits, with the numbers and names that its message needs.

    The sentences stand in the catalogues of ``loaderwatch.texts`` under the rule's id, as its parts ``title``, ``cause`` and ``advice``.
    A ``frame`` is a title that several rules share. Each message in ``also`` adds an observation: its ``cause`` and ``advice`` follow
    those of the rule. ``texts`` are the English sentences of a stored finding, for one without a rule or with a rule of another version.

    ``key`` says which findings of later windows are the same incident: the tracker merges those, and people
    are alerted once.
    """

    aspect: str = ""  # which of several findings of this family and loader: "steady" or "spikes", the place of a GPU's idle time
    began_ns: int  # UTC
    ended_ns: int | None = None  # None while it goes on
    texts: Texts = Texts()
    stacks: list[StackDump] = msgspec.field(default_factory=list)
    folded: list[Folded] = msgspec.field(
        default_factory=list
    )  # the findings that this one explains, see incidents/explained_findings.py
    is_past: bool = False  # its rank may stand still since: it keeps an incident as it is, and opens none

    @cached_property
    def title(self) -> str:
        """The verdict in English: one sentence with the number that matters."""
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
    """Return the finding with its sentences in English, for readers of another version, which may not know its rule."""
    folded = [replace(each, texts=Texts(title=each.title)) for each in finding.folded]
    return replace(finding, texts=texts_of(finding, SOURCE), folded=folded)


def title_of(finding: Finding | Folded, language: str = SOURCE) -> str:
    """Return the title of a finding in a language."""
    return say(text_of(finding, "title"), language, finding.texts.title)


def texts_of(finding: Finding, language: str) -> Texts:
    """Return the sentences of a finding in a language; those that came with it where this version cannot say them."""
    parts = ("title", "cause", "advice")
    return Texts(*(say(text_of(finding, part), language, getattr(finding.texts, part)) for part in parts))


def text_of(finding: Finding | Folded | answers.Finding, part: str) -> Text:
    """Return the "title", "cause" or "advice" of a finding in no language yet, with what its further observations add.

    A finding that came from a store or a server may be of another version: where this version cannot say it, its English stays.
    """
    kept: str = getattr(finding if isinstance(finding, answers.Finding) else finding.texts, part)
    if not finding.rule:
        return Text("as-written", {"text": kept})
    frame = finding.frame if part == "title" else None
    said = frame or Text(finding.rule, finding.params, part)
    for text in () if isinstance(finding, Folded) else finding.also:
        said = Text("one-after-another", {"first": said, "next": replace(text, part=part)})
    return said if not kept or is_sayable(said) else Text("as-written", {"text": kept})


def verdict(
    severity: VerdictSeverity, rule: str, finding_id: str | None = None, /, **params: Param
) -> Verdict:
    """Return the verdict that a message says with its parts ``title`` and ``advice``."""
    title, advice = (say(Text(rule, params, part)) for part in ("title", "advice"))
    return Verdict(
        severity=severity, title=title, advice=advice, finding_id=finding_id, rule=rule, params=params
    )


def warned_s(finding: Finding) -> float | None:
    """Return how many seconds before people were warned of what has now come; None when they were not."""
    return max((each.warned_s for each in finding.folded if each.warned_s is not None), default=None)


class Occurrence(Protocol):
    """A finding over its life: an incident, or the alert that people are told of."""

    @property
    def id(self) -> str: ...

    @property
    def finding(self) -> Finding: ...

    @property
    def opened_ns(self) -> int: ...

    @property
    def closed_ns(self) -> int | None: ...

"""Rules as data: a row for each cause that a finding can name, and the family that the row belongs to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from loaderwatch.core.records import ProfilePart
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding

Detector: TypeAlias = Callable[[RunEvidence], list[Finding]]
Scope: TypeAlias = Literal["loader", "rank", "host", "run"]


@dataclass(frozen=True)
class Rule:
    """One cause.

    ``find`` decides. It is a pure function: evidence goes in; a finding, an explanation or None comes out.
    Several rules share a function that measures once and then names the cause.
    """

    id: str  # what a person would search for; the message in the catalogues has the same id
    aliases: str  # its numbers in the catalogue of scenarios, such as "S26 S53"; "" if it has none
    find: Callable[..., object]
    stacks: str | None = None  # when its stacks are taken, as in ``loaderwatch.core.facts``


@dataclass(frozen=True)
class Family:
    """The rules whose findings share one code."""

    code: str  # the heading in docs/detectors.md
    scope: Scope  # there is one finding for each of these
    # Without ``asked``, in order of precedence: if two findings have one key, the first one counts.
    rules: tuple[Rule, ...]
    # The functions that apply the rules and decide between them; empty if each rule's own function does.
    asked: tuple[Detector, ...] = ()
    # Its sampled lines are named with a finding, unless the rule takes stacks in steps.
    part: ProfilePart | None = None
    judges_standstills: bool = False  # looks also at spans that may stand still, where speed is not known

    @property
    def detectors(self) -> tuple[Detector, ...]:
        """Return the functions that look for findings, each once, in order of precedence."""
        return self.asked or tuple(dict.fromkeys(cast("Detector", rule.find) for rule in self.rules))

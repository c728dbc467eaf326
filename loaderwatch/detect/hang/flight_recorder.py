"""Compares the ranks' flight recorders: the first collective that some ranks reached and others did not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import msgspec

from loaderwatch.core.answers import Evidence, Param, Text
from loaderwatch.core.facts import FlightEntry
from loaderwatch.detect.finding import Finding, observed
from loaderwatch.detect.hang.rank_positions import ranks_text
from loaderwatch.detect.window import RunWindow

_LINE: Final = re.compile(r"(?P<file>.+):(?P<line>\d+) in (?P<function>.+)")


@dataclass(frozen=True)
class Divergence:
    """The collective at which the ranks diverge.

    ``did``: what each group of ranks did there, smallest group first; None for ranks that did not reach it.
    """

    group: str
    number: int
    did: tuple[tuple[FlightEntry | None, tuple[int, ...]], ...]

    @property
    def text(self) -> Text:
        """Return the message that names the collective and what the odd ranks did instead."""
        odd, ranks = self.did[0]
        others, waiting = self.did[1]
        if others is None:
            odd, ranks, others, waiting = None, waiting, odd, ranks
        assert others is not None
        parts: dict[str, Param] = {
            "collective": self.number,
            "group": self.group,
            "entry": _entry(others),
            "waiting": ranks_text(waiting),
            "apart": ranks_text(ranks),
            "instead": None if odd is None else _entry(odd),
        }
        return Text("flight-recorder-names-collective", parts)

    @property
    def evidence(self) -> list[Evidence]:
        """Return one line of evidence for each group of ranks."""
        return [
            observed(
                "collective-on-ranks",
                Text("evidence-not-reached") if entry is None else _stated(entry),
                "text",
                number=self.number,
                group=self.group,
                ranks=ranks_text(ranks),
            )
            for entry, ranks in self.did
        ]


def _entry(entry: FlightEntry) -> Text:
    line = _LINE.fullmatch(entry.at or "")
    at = entry.at if line is None else Text("code-line", {**line.groupdict()})
    return Text("flight-entry", {"what": entry.what, "at": at})


def _stated(entry: FlightEntry) -> Text:
    return Text("evidence-entry", {"entry": _entry(entry), "state": entry.state})


def recorded(finding: Finding, window: RunWindow) -> Finding:
    """Return the finding of a hang, extended by what its ranks' flight recorders show.

    If NCCL is used without a flight recorder, the advice says how to switch the recorder on.
    """
    diverged = divergence(window)
    if diverged is None:
        processes = [rank.process for rank in window.ranks.values()]
        blind = any("nccl" in (process.backend or "") and not process.flight_dump for process in processes)
        also = [*finding.also, Text("flight-recorder-is-off")] if blind else finding.also
        return msgspec.structs.replace(finding, also=also)
    return msgspec.structs.replace(
        finding, also=[*finding.also, diverged.text], evidence=[*finding.evidence, *diverged.evidence]
    )


def divergence(window: RunWindow) -> Divergence | None:
    """Return the first collective at which ranks diverge; None if there is none, or fewer than two dumped."""
    dumps: dict[str, dict[int, dict[int, FlightEntry]]] = {}  # group, rank, number
    for rank in window.ranks.values():
        for group in rank.process.flight:
            dumps.setdefault(group.group, {})[rank.rank] = {entry.number: entry for entry in group.entries}
    for name, ranks in sorted(dumps.items()):
        first = _first(name, ranks) if len(ranks) > 1 else None
        if first is not None:
            return first
    return None


def _first(group: str, ranks: dict[int, dict[int, FlightEntry]]) -> Divergence | None:
    # Collectives that a rank's recorder has already dropped cannot be compared.
    begin = max(min(entries) for entries in ranks.values())
    end = max(max(entries) for entries in ranks.values())
    for number in range(begin, end + 1):
        did: dict[str | None, list[int]] = {}
        for rank, entries in ranks.items():
            entry = entries.get(number)
            did.setdefault(entry.what if entry else None, []).append(rank)
        if len(did) > 1:
            groups = sorted(did.values(), key=lambda group: (len(group), group))
            return Divergence(
                group, number, tuple((ranks[group[0]].get(number), tuple(sorted(group))) for group in groups)
            )
    return None

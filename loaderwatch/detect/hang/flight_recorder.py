"""The ranks' flight recorders, compared: the first collective that some ranks came to and others did not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from loaderwatch.core.answers import Evidence
from loaderwatch.core.facts import FlightEntry
from loaderwatch.detect.finding import Finding, reworded
from loaderwatch.detect.hang.rank_positions import names
from loaderwatch.detect.window import RunWindow

SWITCHES: Final = (
    "TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_FR_DUMP_TEMP_FILE=/some/folder/rank_ in the job's environment"
    " (TORCH_NCCL_TRACE_BUFFER_SIZE and TORCH_NCCL_DEBUG_INFO_TEMP_FILE in older versions of PyTorch)"
)
"""The environment variables that make PyTorch write dumps when a NCCL collective times out."""


@dataclass(frozen=True)
class Divergence:
    """The collective at which the ranks part.

    ``did`` says what each group of ranks did there, the smallest group first; None says that they did not
    come.
    """

    group: str
    number: int
    did: tuple[tuple[FlightEntry | None, tuple[int, ...]], ...]

    @property
    def sentence(self) -> str:
        """Return the sentence that says which collective it is and what the odd ranks did instead."""
        odd, ranks = self.did[0]
        others, waiting = self.did[1]
        if others is None:
            odd, ranks, others, waiting = None, waiting, odd, ranks
        assert others is not None
        did = "never came to it" if odd is None else f"did {_named(odd)} instead"
        return (
            f"PyTorch's flight recorder: collective {self.number} of {self.group} is {_named(others)} on {names(waiting)};"
            f" {names(ranks)} {did}."
        )

    @property
    def evidence(self) -> list[Evidence]:
        """Return one line of evidence for each group of ranks."""
        return [
            Evidence(
                label=f"collective {self.number} of {self.group} on {names(ranks)}",
                value="not reached" if entry is None else f"{_named(entry)}, {entry.state}",
                unit="text",
            )
            for entry, ranks in self.did
        ]


def _named(entry: FlightEntry) -> str:
    return f"{entry.what} ({entry.at})" if entry.at else entry.what


def recorded(finding: Finding, window: RunWindow) -> Finding:
    """Return the finding of a hang with what the flight recorders of its ranks say of it.

    Where NCCL is used and no recorder writes, its advice says how to switch them on.
    """
    found = divergence(window)
    if found is None:
        processes = [rank.process for rank in window.ranks.values()]
        advice = f"So that the next hang names the collective: {SWITCHES}."
        blind = any("nccl" in (process.backend or "") and not process.flight_dump for process in processes)
        return reworded(finding, advice=f"{finding.advice} {advice}") if blind else finding
    return reworded(
        finding, cause=f"{finding.cause} {found.sentence}", evidence=[*finding.evidence, *found.evidence]
    )


def divergence(window: RunWindow) -> Divergence | None:
    """Return the first collective in which the ranks part; None if they do not, or fewer than two dumped."""
    dumps: dict[str, dict[int, dict[int, FlightEntry]]] = {}  # group, rank, number
    for rank in window.ranks.values():
        for group in rank.process.flight:
            dumps.setdefault(group.group, {})[rank.rank] = {entry.number: entry for entry in group.entries}
    for name, ranks in sorted(dumps.items()):
        found = _first(name, ranks) if len(ranks) > 1 else None
        if found is not None:
            return found
    return None


def _first(group: str, ranks: dict[int, dict[int, FlightEntry]]) -> Divergence | None:
    # Collectives that some rank no longer remembers cannot be compared.
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

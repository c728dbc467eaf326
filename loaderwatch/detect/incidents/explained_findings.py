"""Which findings explain which: one cause gives one alert, and the findings that it explains go under it.

Within a window, ``fold`` puts effects under their cause. Over time, the tracker asks ``explains`` in both
directions. If a new finding explains an open incident, it takes the incident over. If the incident explains
the finding, the finding becomes one more effect of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

from loaderwatch.core.answers import Severity
from loaderwatch.core.from_records import from_records
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.finding import SEVERITIES, Finding, Folded, Texts

MOST_FOLDED: Final = threshold(8, "findings", "chosen: limits how many explained findings one alert lists")
PROVEN_PART: Final = threshold(
    0.5, "ratio", "chosen: of a GPU's idle time; a rank that cost 8 % hid a GPU that idled for 49 %"
)


def explains(cause: Finding, effect: Finding) -> bool:
    """Whether ``effect`` is only another sign of ``cause``, so that one alert is enough for both."""
    rows = _ROWS.get((cause.code, effect.code), ())
    return cause.key != effect.key and any(row.fits(cause, effect) for row in rows)


def fold(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings of a window that no other one explains, each with the findings it explains."""
    above = {
        effect.key: cause
        for effect in findings
        if (cause := next((other for other in findings if explains(other, effect)), None)) is not None
    }
    under: dict[str, list[Finding]] = {}
    for finding in findings:
        top = finding
        for _ in above:  # climbs to the cause of the cause; ends after as many rounds as there are causes
            top = above.get(top.key, top)
        if top is not finding:
            under.setdefault(top.key, []).append(finding)
    return [absorb(finding, under.get(finding.key, ())) for finding in findings if finding.key not in above]


def absorb(cause: Finding, effects: Iterable[Finding], warned_s: float | None = None) -> Finding:
    """Return the cause with these effects. Its severity and cost become those of the worst of them.

    A fast-forward keeps its own severity and cost: a resumed run is only a remark, however long its loop
    waits. ``warned_s`` is how long the effects had been an alert, in seconds, as in ``Folded``.
    """
    for effect in effects:
        cause = msgspec.structs.replace(
            cause, folded=joined(cause.folded, [*effect.folded, _folded(effect, warned_s)], cause.key)
        )
        if cause.code != "fast-forward":
            known = [lost for lost in (cause.lost_s, effect.lost_s) if lost is not None]
            cause = msgspec.structs.replace(
                cause, severity=graver(cause.severity, effect.severity), lost_s=max(known, default=None)
            )
    return cause


def joined(old: Iterable[Folded], new: Iterable[Folded], key: str) -> list[Folded]:
    """Return both lists as one, with the newer entry of each key and without an entry for ``key`` itself.

    An entry keeps its earliest begin, its gravest severity and its ``warned_s``. The newest ``MOST_FOLDED``
    stay.
    """
    by_key = {folded.key: folded for folded in old}
    for folded in new:
        known = by_key.get(folded.key)
        if known is not None:
            folded = msgspec.structs.replace(
                folded,
                warned_s=known.warned_s if folded.warned_s is None else folded.warned_s,
                began_ns=min(known.began_ns, folded.began_ns),
                severity=graver(known.severity, folded.severity),
            )
        by_key[folded.key] = folded
    by_key.pop(key, None)
    return list(by_key.values())[-MOST_FOLDED:]


def graver(one: Severity, other: Severity) -> Severity:
    """Return the graver of two severities."""
    return max(one, other, key=SEVERITIES.__getitem__)


def _folded(finding: Finding, warned_s: float | None) -> Folded:
    return from_records(Folded, finding, texts=Texts(title=finding.texts.title), warned_s=warned_s)


# ---- the table: what explains what

Condition: TypeAlias = Callable[[Finding, Finding], bool]
"""Whether a cause and an effect are related."""


@dataclass(frozen=True)
class Explains:
    """One row: findings of one family explain findings of another family if every condition holds.

    ``causes`` and ``effects`` are numbers of scenarios; "" means all of the family.
    """

    cause: str  # the family's code
    effect: str
    causes: str = ""
    effects: str = ""
    where: tuple[Condition, ...] = ()

    def fits(self, cause: Finding, effect: Finding) -> bool:
        """Whether this row says that ``cause`` explains ``effect``."""
        return (
            (not self.causes or cause.scenario in self.causes.split())
            and (not self.effects or effect.scenario in self.effects.split())
            and all(holds(cause, effect) for holds in self.where)
        )


def same_rank(cause: Finding, effect: Finding) -> bool:
    """Whether both are about one rank, or one of them is about all ranks."""
    return None in (cause.rank, effect.rank) or cause.rank == effect.rank


def other_rank(cause: Finding, effect: Finding) -> bool:
    """Whether they are about different ranks: the effect about ranks that wait for the cause's rank."""
    return cause.rank != effect.rank


def same_host(cause: Finding, effect: Finding) -> bool:
    """Whether both are about one host, or one of them is about all hosts."""
    return None in (cause.host, effect.host) or cause.host == effect.host


def same_loader(cause: Finding, effect: Finding) -> bool:
    """Whether both are about one loader."""
    return cause.loader == effect.loader


def no_other_loader(cause: Finding, effect: Finding) -> bool:
    """Whether both are about one loader, or one of them is not about a loader."""
    return None in (cause.loader, effect.loader) or cause.loader == effect.loader


def same_trouble(cause: Finding, effect: Finding) -> bool:
    """Whether two loaders have the same scenario; the finding with the smaller key is then the cause."""
    return cause.scenario == effect.scenario and cause.key < effect.key


def cause_alerts(cause: Finding, effect: Finding) -> bool:
    """Whether the cause is an alert."""
    return cause.severity != "info"


def cause_is_critical(cause: Finding, effect: Finding) -> bool:
    """Whether the cause is critical."""
    return cause.severity == "critical"


def at_least_as_grave(cause: Finding, effect: Finding) -> bool:
    """Whether the cause is at least as grave as the effect."""
    return SEVERITIES[cause.severity] >= SEVERITIES[effect.severity]


def cause_goes_on(cause: Finding, effect: Finding) -> bool:
    """Whether the cause has not ended."""
    return cause.ended_ns is None


def cause_delays_every_batch(cause: Finding, effect: Finding) -> bool:
    """Whether the cause makes the loop wait for every batch."""
    return cause.aspect == "steady"


def effect_is_a_remark(cause: Finding, effect: Finding) -> bool:
    """Whether the effect is only a remark."""
    return effect.severity == "info"


def effect_delays_single_batches(cause: Finding, effect: Finding) -> bool:
    """Whether the effect is a wait for single batches."""
    return effect.aspect == "spikes"


def effect_is_across_ranks(cause: Finding, effect: Finding) -> bool:
    """Whether the effect is that ranks seem to wait for each other."""
    return effect.aspect == "collective"


def effect_is_not_after_the_model(cause: Finding, effect: Finding) -> bool:
    """Whether the GPU idles before or within the model, where copies can be the cause."""
    return effect.aspect not in ("other", "pauses", "optimizer")


def effect_is_later(cause: Finding, effect: Finding) -> bool:
    """Whether the effect began after the cause."""
    return effect.began_ns >= cause.began_ns


def costs_as_much(cause: Finding, effect: Finding) -> bool:
    """Whether the cause costs at least as much time as the effect."""
    return (cause.lost_s or 0.0) >= (effect.lost_s or 0.0)


def costs_half(cause: Finding, effect: Finding) -> bool:
    """Whether the cause can account for half of the effect's share of the time."""
    cost, whole = cause.gain_ceiling_ratio, effect.gain_ceiling_ratio
    return cost is None or whole is None or cost >= PROVEN_PART * whole


OWN_CODE: Final = "S26 S52 S53"
"""Standstills of a process in the user's own code."""
IN_LOADER: Final = "S22 S35 S36 S37 S41 S44 S45 S46 S47"
"""All other standstills."""
OF_THE_HOST: Final = "S03 S04 S05 S06 S07 S09 S10 S14"
"""Causes in the machine or in the job's settings."""

EXPLANATIONS: Final = (
    # A forecast came true.
    Explains("crashed", "running-out", "S40", "S40", (same_rank,)),
    Explains("crashed", "running-out", "S37", "S24", (same_host,)),
    Explains("crashed", "running-out", "S39", "S39", (same_host,)),
    Explains("crashed", "running-out", "S56", "S56", (same_host,)),
    Explains("hung", "running-out", "S37", "S24 S39 S40", (cause_is_critical, same_host)),  # pytorch#25691
    Explains("hung", "running-out", "S41", "S39 S40", (cause_is_critical, same_host)),
    Explains("running-out", "input-bound", "S24", "S09", (cause_alerts, same_host)),
    # A rank died, or fails again and again.
    Explains("crashed", "hung", where=(same_rank,)),
    Explains("crashed", "caught-error", where=(same_rank,)),
    Explains(
        "crashed", "input-bound", "S37", "", (effect_delays_single_batches, effect_is_a_remark, same_rank)
    ),
    Explains("caught-error", "epoch-boundary", where=(same_rank,)),
    Explains("caught-error", "slow-evaluation", where=(same_rank,)),
    # A rank stands still.
    Explains(
        "hung",
        "input-bound",
        IN_LOADER,
        "",
        (at_least_as_grave, effect_delays_single_batches, same_rank, no_other_loader),
    ),
    Explains("hung", "input-bound", IN_LOADER, "", (at_least_as_grave, cause_is_critical, effect_is_later)),
    Explains("hung", "hung", IN_LOADER, "", (cause_is_critical, effect_is_across_ranks)),
    Explains("hung", "slow-step", OWN_CODE, "S26", (cause_alerts,)),
    Explains("slow-step", "hung", "S26", OWN_CODE, (effect_is_a_remark,)),
    Explains(
        "input-bound", "hung", "", IN_LOADER, (cause_alerts, effect_is_a_remark, same_rank, no_other_loader)
    ),
    # A resumed run skips batches that it has seen already, and does not train yet.
    Explains("fast-forward", "input-bound", where=(same_loader,)),
    Explains("fast-forward", "epoch-boundary", where=(cause_goes_on,)),
    Explains("fast-forward", "gpu-sawtooth", where=(cause_goes_on,)),
    Explains("fast-forward", "slow-evaluation", where=(cause_goes_on,)),
    Explains("fast-forward", "slow-step", where=(cause_goes_on,)),
    # Waits for data.
    Explains("input-bound", "input-bound", OF_THE_HOST, OF_THE_HOST, (same_trouble, same_host)),
    Explains("input-bound", "input-bound", "S33", "S23", (same_loader, same_rank)),
    Explains(
        "input-bound", "input-bound", "S33", "S02 S03 S07 S08 S14", (same_loader, same_rank, costs_as_much)
    ),
    Explains(
        "input-bound",
        "input-bound",
        "S22 S23 S25 S49",
        "S20 S21",
        (cause_delays_every_batch, same_loader, same_rank),
    ),
    Explains("input-bound", "slow-step", "S43", "S26", (other_rank,)),
    Explains("input-bound", "gpu-sawtooth", "S43", "", (other_rank,)),
    # Long steps. A GPU that idles within steps itself explains only S26.
    Explains("slow-step", "input-bound", "S14", "S14", (same_rank,)),
    Explains("slow-step", "slow-step", "S25 S26 S27", "S48", (cause_alerts, same_rank)),
    Explains("slow-step", "slow-step", "S27", "S25", (same_rank, costs_as_much)),
    Explains("slow-step", "gpu-sawtooth", "S48", "", (costs_half,)),
    Explains("slow-step", "gpu-sawtooth", "S14 S25 S27", "", (cause_alerts, same_rank, costs_half)),
    Explains(
        "slow-step",
        "gpu-sawtooth",
        "S17",
        "",
        (cause_alerts, same_rank, costs_half, effect_is_not_after_the_model),
    ),
    Explains("gpu-sawtooth", "slow-step", "", "S26"),
)

_ROWS: Final[dict[tuple[str, str], list[Explains]]] = {}
for _row in EXPLANATIONS:
    _ROWS.setdefault((_row.cause, _row.effect), []).append(_row)

"""Which ranks wait for which, for ``GET /runs/{run}/coupling``: per iteration, or by place in a hang."""

from __future__ import annotations

import msgspec

from loaderwatch.core import answers
from loaderwatch.core.answers import Text
from loaderwatch.core.from_records import from_records
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.hang.rank_positions import Place, patience, places
from loaderwatch.detect.measures.coupling import Coupling
from loaderwatch.detect.measures.critical_path import with_open_iteration
from loaderwatch.server.alerts.alert_book import stack_of
from loaderwatch.texts import say


def coupling_of(run: RunEvidence) -> answers.Coupling:
    """Return both in one form: the ranks in ``waiting`` wait for those in ``waited_for``.

    The iterations are those of the last half minute, as on the tiles, including the current one.
    """
    coupling = run.recent_coupling or Coupling("unknown", Text("coupling-of-one-rank"))
    coupling = with_open_iteration(run.window, coupling, run.use)
    standing = places(run)
    going = from_records(
        answers.Coupling,
        coupling,
        reason="" if coupling.reason is None else say(coupling.reason),
        reason_text=coupling.reason,
        waiting=list(coupling.waiting),
        waited_for=list(coupling.waited_for),
        ranks=list(coupling.shares),
        places=[_place(place) for place in standing],
        given_up_in_s=None,
        timeout_s=None,
    )
    if not standing:
        return going
    waiting = [rank for place in standing if place.collective for rank in place.ranks]
    others = [rank for place in standing if not place.collective for rank in place.ranks]
    left = patience([position for place in standing for position in place.positions])
    return msgspec.structs.replace(
        going,
        state="standing",
        reason="",
        reason_text=None,
        waiting=waiting,
        waited_for=others if waiting else [],
        wait_s=max((place.position.age_s for place in standing if place.collective), default=None),
        cause=None,
        where=None,
        given_up_in_s=max(0.0, left.left_s) if left else None,
        timeout_s=left.timeout_s if left else None,
    )


def _place(place: Place) -> answers.Place:
    return from_records(
        answers.Place,
        place,
        stands=say(place.stands),
        stands_text=place.stands,
        at=None if place.at is None else say(place.at),
        at_text=place.at,
        for_s=place.position.age_s if place.state == "stands" else None,
        stack=None if place.dump is None else stack_of(place.dump),
    )

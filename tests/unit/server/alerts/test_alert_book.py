"""The life of an alert."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from loaderwatch.core.answers import Evidence, Text
from loaderwatch.core.facts import StackDump
from loaderwatch.detect.finding import Finding
from loaderwatch.detect.incidents.explained_findings import absorb
from loaderwatch.detect.incidents.tracker import Tracker
from loaderwatch.server.alerts.alert_book import Alert, AlertBook, UnknownAlert, run_of, shape
from loaderwatch.server.encoding import encode_json
from loaderwatch.server.store.protocol import StoredAlert
from tests.fakes.findings import finding_of

SECOND = 10**9
T0 = 1_790_000_000 * SECOND


def finding(**more: Any) -> Finding:
    facts: dict[str, Any] = {
        "key": "hung:0",
        "code": "hung",
        "scenario": "S36",
        "severity": "critical",
        "confidence": 0.9,
        "began_ns": T0 - 30 * SECOND,
        "title": "Rank 0 hangs.",
        "cause": "Worker 1 is stuck.",
        "advice": "Look at sample 7. Then more.",
        "rank": 0,
    }
    return finding_of(**(facts | more))


class Run:
    """A book with a real tracker, driven second by second."""

    def __init__(self, book: AlertBook | None = None) -> None:
        self.book = book or AlertBook("run-1")
        self.tracker = Tracker("run-1")
        self.tracker.restore(self.book.incidents())
        self.now_ns = T0
        self.told: list[tuple[str, bool]] = []

    def see(self, *findings: Finding, seconds: int = 1) -> None:
        for _ in range(seconds):
            self.now_ns += SECOND
            changes = self.tracker.update(list(findings), self.now_ns)
            told = self.book.apply(changes, self.now_ns)
            self.told += [(a.alert.finding.key, a.resolved) for a in told]


def test_one_announcement_when_it_fires_and_one_when_it_resolves() -> None:
    run = Run()
    run.see(finding(), seconds=20)
    assert run.told == [("hung:0", False)]
    (alert,) = run.book.newest_first()
    assert (alert.state, alert.closed_ns) == ("firing", None)
    assert run_of(alert.id) == "run-1"
    run.see(seconds=10)
    assert run.told == [("hung:0", False), ("hung:0", True)]
    assert alert.state == "resolved"
    assert alert.closed_ns is not None
    assert alert.finding.ended_ns is not None
    assert run.book.open_alerts() == []
    run.see(finding(), seconds=2)
    assert len(run.book) == 2, "its return is a new incident"
    assert run.told[2:] == [("hung:0", False)]


def test_an_alert_that_is_not_found_any_more_is_recovering_until_it_is_resolved() -> None:
    run = Run()
    run.see(finding(), seconds=2)
    (alert,) = run.book.newest_first()
    assert not shape(alert).recovering
    run.see()
    assert (shape(alert).state, shape(alert).recovering) == ("firing", True)
    run.see(finding())
    assert not shape(alert).recovering, "it stands still again"
    run.see(seconds=10)
    assert (shape(alert).state, shape(alert).recovering) == ("resolved", False)


def test_a_remark_is_listed_and_never_announced() -> None:
    run = Run()
    run.see(finding(severity="info", lost_s=9.0), seconds=5)
    run.see(seconds=5)
    assert run.told == []
    (alert,) = run.book.newest_first()
    assert alert.state == "resolved"
    assert alert.cost_s is None, "it may be about what is meant, such as a pause"


def test_an_alert_counts_with_what_it_cost() -> None:
    run = Run()
    run.see(finding(lost_s=9.0), seconds=5)
    (alert,) = run.book.newest_first()
    assert alert.cost_s is not None
    assert alert.cost_s >= 9.0


def test_a_remark_that_becomes_a_warning_is_announced_then() -> None:
    run = Run()
    run.see(finding(severity="info"), seconds=5)
    run.see(finding(severity="warning"), seconds=5)
    assert run.told == [("hung:0", False)]


def test_acknowledged_stays_quiet_until_it_resolves() -> None:
    run = Run()
    run.see(finding())
    (alert,) = run.book.newest_first()
    run.book.acknowledge(alert.id, run.now_ns)
    run.see(finding(lost_s=99.0), seconds=5)
    assert str(alert.state) == "acknowledged"
    assert alert.finding.lost_s == 99.0
    run.see(seconds=5)
    assert alert.state == "resolved"
    run.book.acknowledge(alert.id, run.now_ns)
    assert alert.state == "resolved", "what is over cannot be taken on"


def test_silenced_says_nothing_and_speaks_up_after() -> None:
    run = Run()
    run.see(finding())
    (alert,) = run.book.newest_first()
    run.book.silence(alert.id, 60, run.now_ns)
    assert str(alert.state) == "silenced"
    run.see(seconds=5)
    assert alert.state == "resolved"
    run.see(finding(), seconds=3)
    back = run.book.newest_first()[0]
    assert back is not alert
    assert str(back.state) == "silenced", "the silence is about the cause, not about one incident"
    assert run.told == [("hung:0", False)]
    run.see(finding(), seconds=60)
    assert back.state == "firing"
    assert run.told == [("hung:0", False), ("hung:0", False)]


def test_silence_and_state_survive_the_store() -> None:
    run = Run()
    run.see(finding(), finding(key="other:0", code="hung"))
    alert = run.book.by_key("hung:0")
    assert alert is not None
    run.book.silence(alert.id, 3600, run.now_ns)
    stored = run.book.take_unsaved()
    assert {a.id for a in stored} == {a.id for a in run.book.newest_first()}
    assert run.book.take_unsaved() == []

    after = Run(AlertBook("run-1", stored))
    after.now_ns = run.now_ns
    after.see(finding(), finding(key="other:0", code="hung"), seconds=3)
    assert after.told == [], "people were told before the restart"
    assert len(after.book) == 2
    assert after.book.get(alert.id).state == "silenced"
    after.see(seconds=5)
    assert after.told == [("other:0", True)]
    assert after.book.open_alerts() == []


def test_stacks_seen_once_stay() -> None:
    run = Run()
    stack = StackDump(rank=0, worker=1, pid=42, taken_ns=T0, text="File x")
    run.see(finding(stacks=[stack]))
    run.see(finding(stacks=[]))
    (alert,) = run.book.newest_first()
    assert alert.finding.stacks == [stack]
    assert shape(alert).stacks[0].text == "File x"
    assert shape(alert, stack_texts=False).stacks[0].text == ""


def test_unsaved_come_back_when_the_store_refused() -> None:
    run = Run()
    run.see(finding())
    refused = run.book.take_unsaved()
    assert not run.book.urgent
    run.book.put_back(refused)
    assert run.book.urgent
    assert run.book.take_unsaved() == refused


def test_growing_numbers_alone_are_not_urgent() -> None:
    run = Run()
    run.see(finding(lost_s=1.0))
    assert run.book.urgent
    run.book.take_unsaved()
    run.see(finding(lost_s=2.0))
    assert not run.book.urgent
    assert [a.id for a in run.book.take_unsaved()]


SLOW = finding(
    key="input-bound:0:spikes", code="input-bound", scenario="S20", severity="warning", title="Slow."
)
SHM = finding(key="running-out:shm:a", code="running-out", scenario="S39", severity="warning", title="Full.")
DIED = finding(key="crashed:rank0", code="crashed", scenario="S39", title="Training died.", pid=7)


def test_a_warning_that_becomes_a_hang_is_one_alert_told_once_more() -> None:
    run = Run()
    run.see(SLOW, seconds=8)
    (alert,) = run.book.newest_first()
    run.see(finding(), seconds=5)
    assert run.book.newest_first() == [alert]
    assert run.book.by_key("hung:0") is alert
    assert run.book.by_key(SLOW.key) is None
    shaped = shape(alert)
    assert (shaped.key, shaped.severity) == ("hung:0", "critical")
    assert [(f.scenario, f.title, f.warned_s) for f in shaped.folded] == [("S20", "Slow.", 6.0)]
    run.see(seconds=5)
    assert run.told == [(SLOW.key, False), ("hung:0", False), ("hung:0", True)]


def test_what_was_critical_before_is_not_told_again() -> None:
    run = Run()
    run.see(finding(**{"key": SLOW.key, "code": SLOW.code, "scenario": "S20"}), seconds=5)
    run.see(finding(), seconds=5)
    run.see(seconds=5)
    assert run.told == [(SLOW.key, False), ("hung:0", True)]


def test_a_remark_that_becomes_a_hang_is_told_once() -> None:
    run = Run()
    run.see(msgspec.structs.replace(SLOW, severity="info"), seconds=5)
    run.see(finding(), seconds=5)
    assert run.told == [("hung:0", False)]
    assert len(run.book) == 1


@pytest.mark.parametrize("severity", ["warning", "critical"])
def test_a_foretold_crash_is_one_alert_and_does_not_get_well(severity: str) -> None:
    run = Run()
    run.see(msgspec.structs.replace(SHM, severity=severity), seconds=5)
    run.see(DIED)
    run.book.apply(run.tracker.close_all(run.now_ns), run.now_ns)
    run.see(DIED, seconds=3)
    (alert,) = run.book.newest_first()
    assert (alert.state, alert.finding.code) == ("resolved", "crashed")
    assert run.told == [(SHM.key, False), ("crashed:rank0", False)]
    after = Run(AlertBook("run-1", run.book.take_unsaved()))
    after.see(DIED, seconds=3)
    assert (len(after.book), after.told) == (1, []), "nor does a new server tell it again"


@pytest.mark.parametrize("quiet", ["acknowledge", "silence"])
def test_who_took_on_a_warning_hears_of_the_hang(quiet: str) -> None:
    run = Run()
    run.see(SLOW, seconds=5)
    (alert,) = run.book.newest_first()
    if quiet == "acknowledge":
        run.book.acknowledge(alert.id, run.now_ns)
    else:
        run.book.silence(alert.id, 3600, run.now_ns)
    run.see(finding(), seconds=3)
    assert alert.state == "firing"
    assert run.told == [(SLOW.key, False), ("hung:0", False)]


def test_an_alert_stored_before_there_were_folded_ones_still_opens() -> None:
    run = Run()
    run.see(finding())
    (stored,) = run.book.take_unsaved()
    old = msgspec.json.decode(stored.finding)
    del old["folded"]
    stored = msgspec.structs.replace(stored, finding=msgspec.json.encode(old).decode())
    (alert,) = AlertBook("run-1", [stored]).newest_first()
    assert shape(alert).folded == []


def test_an_unknown_alert_is_named() -> None:
    with pytest.raises(UnknownAlert, match="nonsense"):
        AlertBook("run-1").acknowledge("nonsense", T0)


def test_the_shape_is_the_apis() -> None:
    run = Run()
    run.see(finding(evidence=[Evidence(label="age", value=float("nan"), unit="s")], sample_indices=[7]))
    (alert,) = run.book.newest_first()
    shaped = msgspec.json.decode(encode_json(shape(alert)))
    fields = (
        "id key code scenario severity state confidence rank host loader worker pid sample_indices began_at"
        " ended_at title cause advice evidence lost_s gain_ceiling_ratio gain_of stacks folded rule params "
        "frame also silenced_until recovering followed"
    )
    assert set(shaped) == set(fields.split(" "))
    assert shaped["evidence"] == [
        {"label": "age", "value": None, "unit": "s", "label_text": None, "value_text": None}
    ]
    assert shaped["began_at"] == (T0 - 30 * SECOND) / 1e9
    assert shaped["state"] == "firing"


def test_an_alert_comes_back_from_the_store_and_older_versions_find_its_sentences() -> None:
    because = Text("shared-memory-full", {"shm_bytes": None, "batch_bytes": None}, "because")
    said = finding(rule="shared-memory-full", params=because.params)
    said = msgspec.structs.replace(said, frame=Text("training-died", {"rank": None, "because": because}))
    kept = Alert("run-1.a", absorb(said, [finding(key="hung:1")]), "firing", T0, T0).stored()
    fields = msgspec.json.decode(kept.finding)
    assert fields["title"] == "Training died because /dev/shm is full."
    assert fields["folded"][0]["title"] == "Rank 0 hangs."
    (again,) = AlertBook("run-1", [kept]).newest_first()
    assert (again.finding.title, again.finding.rule) == (fields["title"], "shared-memory-full")
    assert again.finding.folded[0].title == "Rank 0 hangs."
    unknown = msgspec.json.encode(fields | {"rule": "of-tomorrow", "frame": None}).decode()
    (later,) = AlertBook("run-1", [msgspec.structs.replace(kept, finding=unknown)]).newest_first()
    assert later.finding.title == fields["title"]
    assert msgspec.json.decode(later.stored().finding)["title"] == fields["title"], "nothing of it is lost"


@pytest.mark.parametrize("kept", ["[]", "null", "5", '{"folded": null}', '{"folded": [1]}', '{"title": 3}'])
def test_what_is_no_finding_is_named_as_such(kept: str) -> None:
    stored = StoredAlert(
        id="run-1.a",
        finding=kept,
        state="firing",
        opened_ns=1,
        updated_ns=1,
        closed_ns=None,
        silenced_until_ns=None,
    )
    with pytest.raises(msgspec.ValidationError):
        AlertBook("run-1", [stored])

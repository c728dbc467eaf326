"""The scenario benchmark: plays every script through streamer, server and API and judges the verdict.

    python -m benchmarks.diagnosis [ID ...] [--list] [--jobs 1] [--seed 0] [--hang-after 6]
        [--record DIR] [--record-wrong DIR] [--json FILE]

An ID is a case (``s20_slow_sample``), a scenario (``S20``) or a group (``healthy``); without any, all are
played. A scenario of the catalogue without a script has a row that says so. Seconds count from the end of the
stall's second repetition, or from the limit of a hang, until the API returned the finding. The API is asked
three times a second. ``alerts`` counts those of the whole run: a cause that is reported twice is an error.

The exit code is 1 if a row is wrong or late. A late case is played again, alone. It counts as late only if
it is late again and the machine had CPUs to spare.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import repro
from benchmarks.crowding import CROWDED_RATIO, Crowding
from loaderwatch.server.recordings import recording
from tests.scenarios.cases import CASES, Case
from tests.scenarios.judge import Judgement, judge, waited_s
from tests.scenarios.play import HANG_AFTER_S, SLEEPING_GROUPS, Outcome, play_one, serve
from tests.scenarios.record import recording_of

VARIANTS = ("S19", "S29")  # of S13 and S28
SCENARIOS = tuple(f"S{n:02}" for n in range(1, 57) if n != 38)
LOOK_ALIKES = tuple(f"N{n:02}" for n in range(1, 28))
FAMILIES = (
    *((19, "steady"), (27, "spikes"), (34, "epochs"), (42, "hangs"), (48, "ranks")),
    *(
        (49, "steady"),
        (51, "spikes"),
        (53, "hangs"),
        (54, "steady"),
        (55, "evaluation"),
        (56, "hangs"),
        (58, "steady"),
    ),
)
HANG_BUDGET_S, BUDGET_S = 3.0, 10.0
LOOKS_BUDGET_S = 15.0
"""For rules that count stacks of the training thread (one a second) and need at least about eight of them."""
LOOKED_AT = ("answers-awaited-in-steps", "recompiles-most-steps")
"""The rules of that kind."""
SETTLE_S = 4.0
SLEEPERS = 4  # of the cases that hardly compute, as many times more are played at a time
MOST_TIMES_THE_FLOOR = 10.0
"""The longest limit of a hang, in floors: a first batch, and what comes before it."""
ENDS_WELL = (0, None, 143, -15)
"""By itself, never (a debugger waits), or by the SIGTERM that the script is about."""
MOST_RECORDED_BYTES = 300_000


@dataclass
class Row:
    """One played case."""

    case: Case
    judgement: Judgement
    waited_s: float | None
    played_s: float
    title: str
    note: str
    code: str = ""  # of the finding
    rule: str = ""  # of the finding
    not_here: str = ""  # why the script cannot show its stall on this machine
    failed: bool = False  # the script itself: nothing was sent, or a healthy run came to a bad end
    facts: repro.Facts | None = None  # of the repro's settings, for what differs between them
    crowded: float | None = None  # the share of its time in which some task of the machine waited for a CPU

    @property
    def exact(self) -> bool:
        """Named rightly with its culprit, by a run that was one."""
        return self.judgement.exact and not self.failed

    @property
    def late(self) -> bool:
        """Whether the finding took longer than it may."""
        budget_s = LOOKS_BUDGET_S if self.rule in LOOKED_AT else BUDGET_S
        if self.code in ("hung", "crashed"):
            budget_s = HANG_BUDGET_S
        return self.waited_s is not None and self.waited_s > budget_s

    @property
    def fault(self) -> str:
        """What makes the bench fail; "" if nothing does."""
        if self.not_here:
            return ""
        if not self.exact:
            expected = "|".join(self.case.scenarios) or "nothing"
            return f"expected {expected}, got {'+'.join(self.judgement.got) or 'nothing'}" + (
                f" in {self.judgement.alerts} alerts" if self.judgement.alerts > 1 else ""
            )
        crowded = self.crowded is not None and self.crowded > CROWDED_RATIO
        return f"late: {self.waited_s:.1f} s" if self.late and not crowded else ""


def main() -> None:
    """Print a table, the numbers under it, and a JSON line."""
    options = _parse()
    cases = chosen(options.ids)
    if options.list:
        for case in cases:
            print(f"{case.id:28} {'|'.join(case.scenarios) or '-':10} {case.group:10} {case.simulated}")
        return
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="loaderwatch-bench-") as folder:
        rows = play_all(
            [case for case in cases if not case.audit],
            Path(folder),
            options.jobs,
            options.seed,
            (options.record, options.record_wrong),
            options.hang_after,
        )
    for row in [row for row in rows if row.not_here]:
        print(f"not possible here: {row.case.id}: {row.not_here}")
        rows.remove(row)
    audits = [repro.audit(case) for case in cases if case.audit]
    missing = [] if options.ids else without_a_script()
    print(table(rows, missing, audits))
    print()
    if settings := {row.case.id: row.facts for row in rows if row.facts is not None}:
        print(repro.differences(settings), end="\n\n")
    result = numbers(rows, missing, audits)
    print(summary(rows, result, time.monotonic() - began))
    line = json.dumps({"benchmark": "diagnosis", **result})
    print(line)
    if options.json:
        options.json.write_text(
            json.dumps({**result, "rows": [_plain(row) for row in rows]}, indent=1) + "\n"
        )
    if failed := failures(rows, audits):
        print(f"failed: {len(failed)} of {len(rows) + len(audits)}", *failed, sep="\n  ")
        sys.exit(1)


def failures(rows: Sequence[Row], audits: Sequence[repro.Audit] = ()) -> list[str]:
    """A line for each case that makes the bench fail."""
    played = [
        f"{row.case.id}: {row.fault}{f' ({row.note})' if row.note else ''}" for row in rows if row.fault
    ]
    return [
        *played,
        *(f"{audit.case.id}: the doctor said: {audit.said}" for audit in audits if not audit.right),
    ]


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ids", nargs="*", metavar="ID")
    parser.add_argument("--list", action="store_true", help="print the cases and play none")
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="play so many at a time (default 1), and of those that hardly compute four times as many",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="vary what must not matter (default 0: as usual)"
    )
    parser.add_argument(
        "--hang-after",
        type=float,
        default=HANG_AFTER_S,
        metavar="S",
        help="the least age of a hang; the product's own is 30, and then an awaited hang may take"
        " ten times as long (default 6)",
    )
    parser.add_argument(
        "--record", type=Path, metavar="DIR", help="keep a recording of each run that was named rightly"
    )
    parser.add_argument("--record-wrong", type=Path, metavar="DIR", help="keep one of each other run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every row to a file, too")
    options = parser.parse_args()
    if options.record and (options.seed or options.hang_after != HANG_AFTER_S):
        parser.error("--record keeps the usual settings only; leave --seed and --hang-after away")
    return options


def chosen(ids: Sequence[str]) -> list[Case]:
    """The cases asked for, in the registry's order."""
    if not ids:
        return list(CASES)
    found = [case for case in CASES if {case.id, case.script, case.group, *case.scenarios} & set(ids)]
    known = {name for case in found for name in (case.id, case.script, case.group, *case.scenarios)}
    unknown = [name for name in ids if name not in known]
    if unknown:
        sys.exit(f"no case, scenario or group is called {', '.join(unknown)}; --list shows them")
    return found


def play_all(
    cases: Sequence[Case],
    folder: Path,
    jobs: int,
    seed: int = 0,
    record: tuple[Path | None, Path | None] = (None, None),
    hang_after_s: float = HANG_AFTER_S,
) -> list[Row]:
    """Play the cases, ``jobs`` at a time (four times as many if they hardly compute); replay late ones alone.

    ``record`` gives the folder for runs that were judged right, and the one for others.
    """
    played: dict[str, Row] = {}
    for sleep, at_once in ((True, SLEEPERS * jobs), (False, jobs)):
        some = [case for case in cases if (case.group in SLEEPING_GROUPS) is sleep]
        where = folder / ("sleepers" if sleep else "others")
        if some:
            played |= {row.case.id: row for row in _play(some, where, at_once, seed, record, hang_after_s)}
    rows = [played[case.id] for case in cases]
    slow = {row.case.id for row in rows if row.exact and row.late}
    late = [case for case in cases if case.id in slow]
    if not late:
        return rows
    print(f"late, so once more and alone: {', '.join(case.id for case in late)}", file=sys.stderr)
    again = {row.case.id: row for row in _play(late, folder / "alone", 1, seed, record, hang_after_s)}
    return [again.get(row.case.id, row) for row in rows]


def _play(
    cases: Sequence[Case],
    folder: Path,
    jobs: int,
    seed: int,
    record: tuple[Path | None, Path | None],
    hang_after_s: float,
) -> list[Row]:
    patience_s = MOST_TIMES_THE_FLOOR * (hang_after_s - HANG_AFTER_S)

    def one(case: Case) -> Row:
        if case.scenarios:
            case = dataclasses.replace(case, within_s=case.within_s + patience_s)
        crowding = Crowding()
        try:
            outcome = play_one(case, access, folder / case.id, settle_s=SETTLE_S, seed=seed)
        except Exception as fault:  # noqa: BLE001 - a case that cannot be played is a row that says so
            row = Row(case, judge(case, []), None, 0.0, "", f"not played: {fault!r}"[:200], failed=True)
        else:
            row = _row(outcome, hang_after_s)
            where = record[0] if row.exact else record[1]
            if where is not None and outcome.payloads and not row.not_here:
                row.note = _record(outcome, folder / case.id, where) or row.note
        row.crowded = crowding.ratio()
        said = "n/a" if row.not_here else "ok " if row.exact else "BAD"
        print(f"{said} {case.id} {row.note}", file=sys.stderr, flush=True)
        return row

    with serve(folder, hang_after_s) as access, ThreadPoolExecutor(max(1, jobs)) as pool:
        return list(pool.map(one, cases))


def _row(outcome: Outcome, hang_after_s: float) -> Row:
    case = outcome.case
    judgement = judge(case, outcome.findings)
    awaited = [f for f in outcome.alerts if f["scenario"] in case.scenarios]
    first = min(awaited, key=lambda f: outcome.fired_at[f["id"], f["key"]], default=None)
    waited = (
        waited_s(
            first["scenario"],
            first,
            outcome.fired_at[first["id"], first["key"]],
            outcome.payloads,
            hang_after_s,
        )
        if first
        else None
    )
    notes = list(judgement.wrong)
    if not outcome.payloads:
        notes.append(f"nothing was sent: {(outcome.output.strip().splitlines() or ['no output'])[-1][:80]}")
    elif not case.scenarios and outcome.exit_code not in ENDS_WELL:
        notes.append(f"the script ended with {outcome.exit_code}")
    failed = (bool(notes) and not case.scenarios) or not outcome.payloads
    if not awaited and outcome.alerts:
        notes.append(outcome.alerts[0]["title"])
    shown = first or (outcome.alerts[0] if outcome.alerts else None)
    title = shown["title"] if shown else ""
    code, rule = (first["code"], first["rule"]) if first else ("", "")
    facts = repro.facts(outcome.payloads) if case.group == repro.GROUP else None
    return Row(
        case,
        judgement,
        waited,
        outcome.seconds,
        title,
        "; ".join(notes),
        code,
        rule,
        outcome.not_here,
        failed,
        facts,
    )


def _record(outcome: Outcome, played_in: Path, record: Path) -> str:
    path = record / f"{outcome.case.id}{recording.SUFFIX}"
    packed = recording.pack(recording_of(outcome, played_in))
    if len(packed) > MOST_RECORDED_BYTES:
        return f"not recorded: {len(packed)} bytes"
    record.mkdir(parents=True, exist_ok=True)
    path.write_bytes(packed)
    return ""


def without_a_script() -> list[str]:
    """Scenarios and look-alikes of the catalogue that nobody plays."""
    scripts = {case.id.partition("_")[0].upper() for case in CASES}
    played = {scenario for case in CASES for scenario in case.scenarios} | scripts
    return [name for name in (*SCENARIOS, *LOOK_ALIKES) if name not in played and name not in VARIANTS]


def family(scenario: str) -> str:
    """The chapter of the catalogue with this scenario; "none" for a death that no scenario explains."""
    if not scenario:
        return "none"
    return next(name for last, name in FAMILIES if int(scenario[1:]) <= last)


def table(rows: Sequence[Row], missing: Sequence[str], audits: Sequence[repro.Audit] = ()) -> str:
    """The rows as text."""
    lines = [
        f"{'case':30} {'expected':9} {'got':12} {'alerts':6} {'after':>7} {'culprit':8} {'simulated':10} note"
    ]
    for row in rows:
        judgement = row.judgement
        mark = {True: "right", False: "WRONG", None: "-"}[judgement.culprit]
        got = "+".join(judgement.got) or "-"
        after = "-" if row.waited_s is None else f"{row.waited_s:.1f} s{'*' if row.late else ''}"
        lines.append(
            f"{row.case.id:30} {'|'.join(row.case.scenarios) or '-':9}"
            f" {got + ('' if judgement.right and not row.failed else ' !'):12}"
            f" {judgement.alerts or '-':<6} {after:>7} {mark:8} {row.case.simulated or '-':10}"
            f" {row.note[:110]}".rstrip()
        )
    lines += [
        f"{audit.case.id:30} {audit.case.audit:9} {'+'.join(audit.got) + ('' if audit.right else ' !'):12}"
        f" {'-':6} {'before':>7} {'-':8} {'-':10} doctor exits {audit.exit_code}: {audit.said[:140]}"
        for audit in audits
    ]
    lines += [f"{'(no script)':30} {name:9} {'!':12}" for name in missing]
    lines.append(
        "* later than 10 s after the second repetition (15 s where looks are counted),"
        " or 3 s after the limit of a hang; also when played alone"
    )
    return "\n".join(lines)


def numbers(
    rows: Sequence[Row], missing: Sequence[str], audits: Sequence[repro.Audit] = ()
) -> dict[str, Any]:
    """Precision and recall of the alerts, alerts in runs without a fault, and the times."""
    faulty = [row for row in rows if row.case.scenarios]
    benign = [row for row in rows if not row.case.scenarios]
    told = sum(len(row.judgement.got) for row in rows)
    true = sum(bool(set(row.judgement.got) & set(row.case.scenarios)) for row in faulty)
    scenarios = {row.case.scenarios[0] for row in faulty}
    bad = {row.case.scenarios[0] for row in faulty if not row.exact}
    return {
        "cases": len(rows),
        "scenarios_exact": len(scenarios - bad),
        "scenarios_played": len(scenarios),
        "without_script": list(missing),
        "late": sum(row.late for row in rows),
        "wrong_family": sorted(
            row.case.id
            for row in faulty
            if not {family(got) for got in row.judgement.got} & {family(each) for each in row.case.scenarios}
        ),
        "precision": round(true / told, 4) if told else None,
        "recall": round(true / len(faulty), 4) if faulty else None,
        "culprits_right": sum(row.judgement.culprit is True for row in faulty),
        "culprits_asked": sum(row.judgement.culprit is not None for row in faulty),
        "audits_right": sum(audit.right for audit in audits),
        "audits": len(audits),
        "runs_without_fault": len(benign),
        "told_twice": [row.case.id for row in rows if row.judgement.alerts > 1],
        "pages_without_fault": sum(len(row.judgement.got) for row in benign),
        "runs_failed": [row.case.id for row in rows if row.failed],
        "slowest_s": round(max((row.waited_s for row in faulty if row.waited_s is not None), default=0.0), 1),
    }


def summary(rows: Sequence[Row], result: dict[str, Any], seconds: float) -> str:
    """The numbers as text, and which scenarios were confused."""
    confused = Counter(
        (row.case.scenarios[0] if row.case.scenarios else row.case.id, other)
        for row in rows
        for other in (row.judgement.got or (("nothing",) if row.case.scenarios else ()))
        if other not in row.case.scenarios
    )
    lines = [
        f"named exactly        {result['scenarios_exact']} of {result['scenarios_played']} scenarios played",
        f"culprit right        {result['culprits_right']} of {result['culprits_asked']} asked for",
        f"precision, recall    {_percent(result['precision'])}, {_percent(result['recall'])}",
        f"named before the run {result['audits_right']} of {result['audits']} by the doctor",
        f"pages without fault  {result['pages_without_fault']} in {result['runs_without_fault']} runs",
        f"told more than once  {', '.join(result['told_twice']) or 'none'}",
        f"runs that failed     {', '.join(result['runs_failed']) or 'none'}",
        f"wrong family         {', '.join(result['wrong_family']) or 'none'}",
        f"slowest finding      {result['slowest_s']} s; {result['late']} late",
        f"played in            {seconds:.0f} s",
    ]
    lines += [
        f"confused             {one} taken for {other} ({times}x)"
        for (one, other), times in sorted(confused.items())
    ]
    return "\n".join(lines)


def _percent(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.0%}"


def _plain(row: Row) -> dict[str, Any]:
    return {
        "case": row.case.id,
        "expected": list(row.case.scenarios),
        "got": list(row.judgement.got),
        "alerts": row.judgement.alerts,
        "culprit": row.judgement.culprit,
        "after_s": row.waited_s,
        "played_s": round(row.played_s, 1),
        "simulated": row.case.simulated,
        "title": row.title,
        "note": row.note,
        "fault": row.fault,
        "crowded_ratio": row.crowded,
    }


if __name__ == "__main__":
    main()

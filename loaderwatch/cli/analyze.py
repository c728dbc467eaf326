"""``loaderwatch analyze``: what the detectors find in a run, live or over."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from loaderwatch.cli.serve import hang_seconds
from loaderwatch.core.config import load_settings
from loaderwatch.core.errors import ConfigError, LoaderwatchError
from loaderwatch.core.printable import one_line
from loaderwatch.detect.text import count, folded_phrase

if TYPE_CHECKING:
    from loaderwatch.cli.typing import Subparsers
    from loaderwatch.server.recordings.recording import Recording

_STACK_LINES = 12
_WIDTH = 100
_SERVED_S = 3600.0  # as much as a server packs


class NoSuchRun(LoaderwatchError):
    """The run that was asked for is not known here."""


def prepare_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "analyze", help="print what the detectors find in a run", description=__doc__
    )
    parser.add_argument(
        "which",
        metavar="RUN",
        help="a run's id, a run's name (its newest run), a .duckdb file or an .lwrec file",
    )
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=None,
        metavar="DIR",
        help="where runs are kept (default LOADERWATCH_DIR)",
    )
    parser.add_argument(
        "--attempt",
        type=int,
        default=None,
        metavar="N",
        help="of a run that was started again under its name, the Nth time; the newest if not given",
    )
    parser.add_argument(
        "--hang-after",
        type=hang_seconds,
        default=None,
        metavar="SECONDS",
        help="as for serve; only where no server has the run, which else judges it by its own",
    )
    parser.add_argument(
        "--redact",
        action="store_true",
        help="as for export; of a run that a server serves, its last hour",
    )
    parser.add_argument("--json", action="store_true", help="print the findings as the API gives them")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the findings, the worst first."""
    if args.attempt is not None and (args.redact or args.which.endswith(".lwrec")):
        raise ConfigError(
            "--attempt cannot be used with a recording or --redact: name a run or its .duckdb file"
        )
    if args.redact:
        found = _redacted(args.which, args.data_dir, args.hang_after)
    else:
        found = _analyzed(args.which, args.data_dir, args.hang_after, args.attempt)
    if args.json:
        print(json.dumps(found.findings, indent=2))
        return 0
    print(found.title)
    if found.verdict is not None:
        print("\n".join(["", *_said(found.verdict)]))
    if not found.findings and found.sound:
        print("\nNothing found: no data stall, no costly epoch boundary, no hang.")
    for finding in found.findings:
        print()
        print("\n".join(_paragraphs(finding)))
    return 0


@dataclass(frozen=True)
class _Analysis:
    """What is printed of a run. ``verdict`` as the page and ``runs`` give it; None where nobody has made one."""

    findings: list[dict[str, Any]]
    title: str
    verdict: dict[str, Any] | None = None

    @property
    def sound(self) -> bool:
        """Whether the verdict has nothing to say that would make a clean bill of health wrong."""
        return self.verdict is None or self.verdict["severity"] == "ok"


def _analyzed(
    which: str, data_dir: Path | None, hang_after_s: float | None, attempt: int | None
) -> _Analysis:
    from loaderwatch.core.client import find_server

    file = Path(which).expanduser()
    if which.endswith(".lwrec"):
        return _from_recording(file, hang_after_s)
    if which.endswith(".duckdb") or file.is_file():
        if not file.is_file():
            raise NoSuchRun(f"there is no file {file}")
        if not _is_database(file):
            raise NoSuchRun(
                f"{file} is no recording; name a .lwrec file (loaderwatch export), a run's .duckdb file, or a run"
            )
        return _from_files(file.absolute().parent, file.stem, hang_after_s, attempt)
    client = find_server(data_dir)
    if client is not None:  # it has the files open
        if hang_after_s is not None:
            raise ConfigError(
                f"--hang-after cannot be used here: the server at {client.url} judges its runs by its own limit;"
                " start that one with --hang-after, or name a .lwrec file (loaderwatch export)"
            )
        row = pick(client.runs(), which)
        run_id = str(row["run_id"])
        summary = client.summary(run_id, attempt)
        found = _worst_first(client.findings(run_id, attempt))
        return _Analysis(found, _title(row if attempt is None else summary), summary["verdict"])
    runs_dir = (data_dir or load_settings().data_dir) / "runs"
    if not runs_dir.is_dir():
        raise NoSuchRun(f"no runs are kept in {runs_dir}; name another place with --data-dir")
    return _from_files(runs_dir, which, hang_after_s, attempt)


def _is_database(file: Path) -> bool:
    """DuckDB's files have their mark after a checksum."""
    try:
        with file.open("rb") as opened:
            return opened.read(12)[8:] == b"DUCK"
    except OSError as error:
        raise NoSuchRun(f"cannot read {file}: {error.strerror}") from error


def _from_recording(file: Path, hang_after_s: float | None) -> _Analysis:
    from loaderwatch.server.recordings.recording import load

    recording = load(file)
    return _of_recording(recording, hang_after_s, f"{_named(recording)}, recorded in {file.name}")


def _of_recording(recording: Recording, hang_after_s: float | None, title: str) -> _Analysis:
    import msgspec

    from loaderwatch.server.live.judge import detector
    from loaderwatch.server.recordings.analysis import judge_recording

    limit_s = recording.hang_after_s if hang_after_s is None else hang_after_s
    findings, verdict = judge_recording(recording, detector(limit_s))
    return _Analysis(_worst_first(msgspec.to_builtins(findings)), title, msgspec.to_builtins(verdict))


def _redacted(which: str, data_dir: Path | None, hang_after_s: float | None) -> _Analysis:
    from loaderwatch.cli.export import recording_of
    from loaderwatch.server.recordings.recording import redacted

    recording = redacted(recording_of(which, _SERVED_S, data_dir))
    return _of_recording(recording, hang_after_s, _named(recording))


def _named(recording: Recording) -> str:
    return f"{recording.run_name} ({recording.run_id})"


def _from_files(runs_dir: Path, which: str, hang_after_s: float | None, attempt: int | None) -> _Analysis:
    import time

    import msgspec

    from loaderwatch.server.http.live_answers import stored_row
    from loaderwatch.server.live.judge import detector
    from loaderwatch.server.recordings.analysis import reanalyse
    from loaderwatch.server.recordings.verdict_cache import attempt_verdict, stored_verdict
    from loaderwatch.server.store.duckdb import DuckDBStore

    store = DuckDBStore(runs_dir, read_only=True)
    try:
        row = pick([stored_row(run, store, time.time_ns()) for run in store.runs()], which)
        run = store.run(str(row["run_id"]))
        found = reanalyse(store, run.run_id, detector(hang_after_s), attempt)
        over = next((one for one in run.earlier if one.number == attempt), None)
        if over is None:
            said = stored_verdict(run, store, time.time_ns())
        else:
            said = attempt_verdict(run, store, over.number)
            row |= {"state": over.state, "steps": over.steps, "attempt": over.number}
    finally:
        store.close()
    plain: list[dict[str, Any]] = msgspec.to_builtins(found)
    return _Analysis(_worst_first(plain), _title(row), msgspec.to_builtins(said))


def pick(rows: list[dict[str, Any]], which: str) -> dict[str, Any]:
    """The run of this id, or the newest of this name; ``rows`` as ``GET /runs`` gives them.

    Raises:
        NoSuchRun
    """
    for key in ("run_id", "name"):
        for row in rows:  # newest first
            if row[key] == which:
                return row
    close = ", ".join(str(row["run_id"]) for row in rows[:5])
    raise NoSuchRun(
        f"no run {which!r} here; " + (f"the newest are {close}" if close else "there are none yet")
    )


def _worst_first(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    order = {"critical": 0, "warning": 1, "info": 2}
    return sorted(found, key=lambda f: (order.get(f["severity"], 3), -(f["lost_s"] or 0.0)))


def _title(row: dict[str, Any]) -> str:
    said = f"{row['name']} ({row['run_id']}), {count(row['world_size'], 'rank')}, {row['state']}"
    attempts = row.get("attempts", 1)  # a server that still runs may be of an older version
    if attempts > 1:
        said += f", attempt {row.get('attempt', attempts)} of {attempts}"
    steps = row.get("steps")
    return said if steps is None else f"{said}, {count(steps, 'step')}"


def _paragraphs(finding: dict[str, Any]) -> list[str]:
    lines = [fill(f"[{finding['severity']}] {finding['title']}", _WIDTH)]
    facts = [f"{finding['code']} {finding['scenario']}".rstrip(), str(finding["state"])]
    if finding["lost_s"]:
        facts.append(f"{finding['lost_s']:.1f} s lost")
    if finding["gain_ceiling_ratio"]:
        facts.append(f"at most {finding['gain_ceiling_ratio']:.0%} of the run's time to win")
    lines.append(f"  {', '.join(facts)}")
    lines.append(_labelled("Cause", finding["cause"]))
    lines.append(_labelled("Advice", finding["advice"]))
    for folded in finding.get("folded", ()):  # a server that still runs may be of an older version
        lines.append(
            fill(
                folded_phrase(folded["title"], folded["warned_s"]),
                _WIDTH,
                initial_indent="  ",
                subsequent_indent="    ",
            )
        )
    for item in finding["evidence"]:
        lines.append(f"  - {item['label']}: {_value(item['value'], item['unit'])}")
    for stack in finding["stacks"]:
        who = "training process" if stack["worker"] < 0 else f"worker {stack['worker']}"
        lines.append(f"  Stack of rank {stack['rank']}, {who}, pid {stack['pid']}:")
        lines += [f"    {frame}" for frame in _frames(stack)]
    return lines


def _said(verdict: dict[str, Any]) -> list[str]:
    """The verdict; its advice where no finding below gives it."""
    advice = (
        [] if verdict["finding_id"] or not verdict["advice"] else [_labelled("Advice", verdict["advice"])]
    )
    return [fill(one_line(verdict["title"]), _WIDTH), *advice]


def _labelled(label: str, text: str) -> str:
    return fill(f"{label}: {text}", _WIDTH, initial_indent="  ", subsequent_indent="    ")


def _value(value: Any, unit: str) -> str:
    if value is None:
        return "unknown"
    if unit == "ratio" and isinstance(value, (int, float)):
        return f"{value:.1%}"
    number = f"{value:.4g}" if isinstance(value, float) else str(value)
    return number if unit in ("text", "count", "index") else f"{number} {unit.replace('per_s', 'per s')}"


def _frames(stack: dict[str, Any]) -> list[str]:
    """The thread that matters, innermost frame first; ``--json`` and the page show every thread."""
    from loaderwatch.core.wire import StackDump
    from loaderwatch.detect.measures.stacks import main_frames

    text = stack["text"]
    dump = StackDump(rank=stack["rank"], worker=stack["worker"], pid=stack["pid"], taken_ns=0, text=text)
    frames = [f'File "{frame.file}", line {frame.line} in {frame.function}' for frame in main_frames(dump)]
    if not frames:
        frames = text.splitlines() or [stack["why"]]
    left_out = len(frames) - _STACK_LINES
    return frames if left_out <= 0 else [*frames[:_STACK_LINES], f"… {left_out} more"]

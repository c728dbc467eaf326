"""``loaderwatch analyze``: what the detectors find in a run, live or over."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from textwrap import fill
from typing import Any

import msgspec

from loaderwatch.cli.flags import add_data_dir, add_hang_after, add_run
from loaderwatch.cli.run_source import FiledRun, RecordedRun, ServedRun, open_run
from loaderwatch.core.errors import ConfigError
from loaderwatch.core.facts import StackDump
from loaderwatch.core.printable import one_line
from loaderwatch.detect.measures.stacks import main_frames
from loaderwatch.detect.text import count, folded_phrase
from loaderwatch.server.live.judge import detector
from loaderwatch.server.recordings.analysis import judge_recording, reanalyse
from loaderwatch.server.recordings.recording import SUFFIX, Recording, redacted
from loaderwatch.server.recordings.verdict_cache import attempt_verdict, stored_verdict

_STACK_LINES = 12
_WIDTH = 100
_SERVED_S = 3600.0  # as much as a server packs


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    add_run(parser)
    add_data_dir(parser)
    parser.add_argument(
        "--attempt",
        type=int,
        default=None,
        metavar="N",
        help="of a run that was started again under its name, the Nth time; the newest if not given",
    )
    add_hang_after(parser, "as for serve; only where no server has the run, which else judges it by its own")
    parser.add_argument(
        "--redact",
        action="store_true",
        help="as for export; of a run that a server serves, its last hour",
    )
    parser.add_argument("--json", action="store_true", help="print the findings as the API gives them")


def run(args: argparse.Namespace) -> int:
    """Print the findings, the worst first."""
    if args.attempt is not None and (args.redact or args.which.endswith(SUFFIX)):
        raise ConfigError(
            "--attempt cannot be used with a recording or --redact: name a run or its .duckdb file"
        )
    found = _analyzed(args)
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


def _analyzed(args: argparse.Namespace) -> _Analysis:
    with open_run(args.which, args.data_dir) as source:
        if args.redact:
            recording = redacted(source.recording(_SERVED_S))
            return _of_recording(recording, args.hang_after, f"{recording.run_name} ({recording.run_id})")
        match source:
            case RecordedRun():
                return _of_recording(source.recorded, args.hang_after, source.title)
            case ServedRun():
                return _served(source, args.hang_after, args.attempt)
            case FiledRun():
                return _stored(source, args.hang_after, args.attempt)


def _of_recording(recording: Recording, hang_after_s: float | None, title: str) -> _Analysis:
    limit_s = recording.hang_after_s if hang_after_s is None else hang_after_s
    findings, verdict = judge_recording(recording, detector(limit_s))
    return _Analysis(_worst_first(msgspec.to_builtins(findings)), title, msgspec.to_builtins(verdict))


def _served(run: ServedRun, hang_after_s: float | None, attempt: int | None) -> _Analysis:
    if hang_after_s is not None:
        raise ConfigError(
            f"--hang-after cannot be used here: the server at {run.client.url} judges its runs by its own limit;"
            " start that one with --hang-after, or name a .lwrec file (loaderwatch export)"
        )
    summary = run.client.summary(run.run_id, attempt)
    found = _worst_first(run.client.findings(run.run_id, attempt))
    return _Analysis(found, _title(run.row if attempt is None else summary), summary["verdict"])


def _stored(filed: FiledRun, hang_after_s: float | None, attempt: int | None) -> _Analysis:
    store, row = filed.store, filed.row
    run = store.run(filed.run_id)
    found = reanalyse(store, run.run_id, detector(hang_after_s), attempt)
    over = next((one for one in run.earlier if one.number == attempt), None)
    if over is None:
        said = stored_verdict(run, store, time.time_ns())
    else:
        said = attempt_verdict(run, store, over.number)
        row = row | {"state": over.state, "steps": over.steps, "attempt": over.number}
    return _Analysis(_worst_first(msgspec.to_builtins(found)), _title(row), msgspec.to_builtins(said))


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
    text = stack["text"]
    dump = StackDump(rank=stack["rank"], worker=stack["worker"], pid=stack["pid"], taken_ns=0, text=text)
    frames = [f'File "{frame.file}", line {frame.line} in {frame.function}' for frame in main_frames(dump)]
    if not frames:
        frames = text.splitlines() or [stack["why"]]
    left_out = len(frames) - _STACK_LINES
    return frames if left_out <= 0 else [*frames[:_STACK_LINES], f"… {left_out} more"]

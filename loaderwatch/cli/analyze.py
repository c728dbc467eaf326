"""``loaderwatch analyze``: what the detectors find in a run, live or over."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass, replace
from textwrap import fill

import msgspec

from loaderwatch.cli.flags import add_data_dir, add_hang_after, add_run
from loaderwatch.cli.run_source import FiledRun, RecordedRun, ServedRun, open_run
from loaderwatch.core.answers import Evidence, Finding, RunRow, Stack, Summary, Verdict
from loaderwatch.core.errors import ConfigError
from loaderwatch.core.facts import StackDump
from loaderwatch.core.printable import one_line
from loaderwatch.detect.finding import SEVERITIES
from loaderwatch.detect.measures.stacks import main_frames
from loaderwatch.detect.text import count, folded_phrase
from loaderwatch.server.alerts.book import shape
from loaderwatch.server.recordings.analysis import judge_recording, judge_stored
from loaderwatch.server.recordings.recording import SUFFIX, Recording, redacted
from loaderwatch.server.recordings.verdict_cache import stored_alerts, stored_verdict

_STACK_LINES = 12
_WIDTH = 100
_NO_ALERT = (
    "The server raised no alert. It judges what comes while it comes; --hang-after 30 judges the whole run anew,"
    " also what came late."
)
_SERVED_S = 3600.0  # at most; a server packs no more


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    add_run(parser)
    add_data_dir(parser)
    parser.add_argument(
        "--attempt",
        type=int,
        default=None,
        metavar="N",
        help="of a run that was started again under its name, the Nth time; the newest if not given",
    )
    add_hang_after(
        parser,
        "judge a stored run or a recording anew, by this limit (see serve); a server judges by its own",
    )
    parser.add_argument(
        "--redact",
        action="store_true",
        help="as for export; of a run that a server serves, its last hour",
    )
    parser.add_argument("--json", action="store_true", help="print the findings as the API gives them")


def run(args: argparse.Namespace) -> int:
    """Print the verdict and the findings, the worst first; return the exit code.

    Raises:
        ConfigError: an option cannot be used with this kind of run.
    """
    if args.attempt is not None and (args.redact or args.which.endswith(SUFFIX)):
        raise ConfigError(
            "--attempt cannot be used with a recording or --redact: name a run or its .duckdb file"
        )
    found = _analyzed(args)
    if args.json:
        print(json.dumps(msgspec.to_builtins(found.findings), indent=2))
        return 0
    print(found.title)
    if found.verdict is not None:
        print("\n".join(["", *_said(found.verdict)]))
    if not found.findings and found.sound:
        print(f"\n{found.nothing}")
    for finding in found.findings:
        print()
        print("\n".join(_paragraphs(finding)))
    return 0


@dataclass(frozen=True)
class _Analysis:
    """What is printed of a run.

    ``verdict`` is as the page and ``runs`` give it; None where nobody has made one.
    """

    findings: list[Finding]
    title: str
    verdict: Verdict | None = None
    nothing: str = "Nothing found: no data stall, no costly epoch boundary, no hang."

    @property
    def sound(self) -> bool:
        """Whether no verdict speaks against saying that nothing was found: it is ok, or there is none."""
        return self.verdict is None or self.verdict.severity == "ok"


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
    findings, verdict = judge_recording(recording, hang_after_s)
    return _Analysis(_worst_first(findings), title, verdict)


def _served(run: ServedRun, hang_after_s: float | None, attempt: int | None) -> _Analysis:
    if hang_after_s is not None:
        raise ConfigError(
            f"--hang-after cannot be used here: the server at {run.client.url} judges its runs by its own limit;"
            " start that one with --hang-after, or name a .lwrec file (loaderwatch export)"
        )
    summary = run.client.summary(run.run_id, attempt)
    found = _worst_first(run.client.findings(run.run_id, attempt))
    return _Analysis(found, _title(run.row if attempt is None else summary, attempt), summary.verdict)


def _stored(filed: FiledRun, hang_after_s: float | None, attempt: int | None) -> _Analysis:
    """Tell what the server found, as the page shows it; with a limit, what is found by that one."""
    store, row = filed.store, filed.row
    run = store.run(filed.run_id)
    if hang_after_s is None:
        found = [shape(alert) for alert in stored_alerts(run, store, attempt)]
        said = stored_verdict(run, store, time.time_ns(), attempt)
    else:
        found, said = judge_stored(store, run.run_id, hang_after_s, attempt)
    over = next((one for one in run.earlier if one.number == attempt), None)
    if over is not None:
        row = msgspec.structs.replace(row, state=over.state, steps=over.steps)
    analysis = _Analysis(_worst_first(found), _title(row, attempt), said)
    return analysis if hang_after_s is not None else replace(analysis, nothing=_NO_ALERT)


def _worst_first(found: list[Finding]) -> list[Finding]:
    return sorted(found, key=lambda f: (-SEVERITIES[f.severity], -(f.lost_s or 0.0)))


def _title(run: RunRow | Summary, attempt: int | None) -> str:
    said = f"{run.name} ({run.run_id}), {count(run.world_size, 'rank')}, {run.state}"
    if run.attempts > 1:
        said += f", attempt {attempt or run.attempts} of {run.attempts}"
    return said if run.steps is None else f"{said}, {count(run.steps, 'step')}"


def _paragraphs(finding: Finding) -> list[str]:
    lines = [fill(f"[{finding.severity}] {finding.title}", _WIDTH)]
    facts = [f"{finding.code} {finding.scenario}".rstrip(), finding.state]
    if finding.lost_s:
        facts.append(f"{finding.lost_s:.1f} s lost")
    if finding.gain_ceiling_ratio:
        of = "run to win" if finding.gain_of == "run" else "time to win while it lasts"
        facts.append(f"at most {finding.gain_ceiling_ratio:.0%} of the {of}")
    lines.append(f"  {', '.join(facts)}")
    lines.append(_labelled("Cause", finding.cause))
    lines.append(_labelled("Advice", finding.advice))
    for folded in finding.folded:
        lines.append(
            fill(
                folded_phrase(folded.title, folded.warned_s),
                _WIDTH,
                initial_indent="  ",
                subsequent_indent="    ",
            )
        )
    for item in finding.evidence:
        lines.append(f"  - {item.label}: {_value(item)}")
    for stack in finding.stacks:
        who = "training process" if stack.worker < 0 else f"worker {stack.worker}"
        lines.append(f"  Stack of rank {stack.rank}, {who}, pid {stack.pid}:")
        lines += [f"    {frame}" for frame in _frames(stack)]
    return lines


def _said(verdict: Verdict) -> list[str]:
    """Return the lines of the verdict, with its advice where no finding below gives that."""
    advice = [] if verdict.finding_id or not verdict.advice else [_labelled("Advice", verdict.advice)]
    return [fill(one_line(verdict.title), _WIDTH), *advice]


def _labelled(label: str, text: str) -> str:
    return fill(f"{label}: {text}", _WIDTH, initial_indent="  ", subsequent_indent="    ")


def _value(item: Evidence) -> str:
    value, unit = item.value, item.unit
    if value is None:
        return "unknown"
    if unit == "ratio" and isinstance(value, (int, float)):
        return f"{value:.1%}"
    if isinstance(value, str):
        return value.replace("\n", "\n      ")
    number = f"{value:.4g}" if isinstance(value, float) else str(value)
    return number if unit in ("text", "count", "index") else f"{number} {unit.replace('per_s', 'per s')}"


def _frames(stack: Stack) -> list[str]:
    """Return the thread that matters, innermost frame first; ``--json`` and the page show every thread."""
    dump = StackDump(rank=stack.rank, worker=stack.worker, pid=stack.pid, taken_ns=0, text=stack.text)
    frames = [f'File "{frame.file}", line {frame.line} in {frame.function}' for frame in main_frames(dump)]
    if not frames:
        frames = stack.text.splitlines() or [stack.why]
    left_out = len(frames) - _STACK_LINES
    return frames if left_out <= 0 else [*frames[:_STACK_LINES], f"… {left_out} more"]

"""``loaderwatch analyze``: what the detectors find in a run, live or over."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass, replace
from textwrap import fill
from typing import Final

import msgspec

from loaderwatch.cli.flags import add_data_dir, add_hang_after, add_run
from loaderwatch.cli.run_source import FiledRun, RecordedRun, RunSource, ServedRun, open_run
from loaderwatch.core.answers import (
    Evidence,
    Finding,
    LoaderOption,
    LoaderSetting,
    RunRow,
    Stack,
    Summary,
    Text,
    Verdict,
    WhatIf,
)
from loaderwatch.core.errors import ConfigError
from loaderwatch.core.facts import StackDump
from loaderwatch.core.language import own_language
from loaderwatch.core.printable import one_line
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import SEVERITIES
from loaderwatch.detect.measures.stacks import main_frames
from loaderwatch.detect.text import count
from loaderwatch.detect.translation import in_language
from loaderwatch.detect.window import RunWindow
from loaderwatch.server.alerts.book import shape
from loaderwatch.server.queries.settings import what_if_of
from loaderwatch.server.recordings.analysis import judge_recording, judge_stored
from loaderwatch.server.recordings.later_runs import LaterRuns
from loaderwatch.server.recordings.recording import SUFFIX, Recording, last_window, redacted
from loaderwatch.server.recordings.verdict_cache import stored_alerts, stored_verdict
from loaderwatch.server.window.replay import rebuild
from loaderwatch.texts import say
from loaderwatch.texts.formats import duration, rate

_STACK_LINES = 12
_WIDTH = 100
_NO_ALERT = (
    "The server raised no alert. It judges what comes while it comes; --hang-after 30 judges the whole run anew,"
    " also what came late."
)
_NO_SETTINGS: Final = (
    "No other settings are told: that takes a DataLoader that trains, at least eight measured batches, and a loop that waits for"
    " what its workers do."
)
_BEYOND: Final = 2
"""Numbers of workers that are shown beyond the fewest that are as good as any."""
_SHOWN: Final = frozenset({1, 2, 3, 4, 6, 8, 12, 16, 24, 32})
"""Of long lists, beside today's and the fewest that are as good as any."""
_LONG: Final = 12
_LEAST_GAIN: Final = 0.03
"""A gain below this share is noise."""
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
    parser.add_argument(
        "--what-if",
        action="store_true",
        help="also say what other settings of its loaders would give, played with what was measured last",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print the findings as the API gives them; with --what-if the settings instead",
    )


def run(args: argparse.Namespace) -> int:
    """Print the verdict and the findings, the worst first; return the exit code.

    Raises:
        ConfigError: an option cannot be used with this kind of run.
    """
    if args.attempt is not None and (args.redact or args.which.endswith(SUFFIX)):
        raise ConfigError(
            "--attempt cannot be used with a recording or --redact: name a run or its .duckdb file"
        )
    if args.what_if and args.attempt is not None:
        raise ConfigError(
            "--what-if cannot be used with --attempt: settings are played of the newest attempt"
        )
    found = _analyzed(args)
    if args.json:
        told = found.findings if found.settings is None else found.settings
        print(json.dumps(msgspec.to_builtins(told), indent=2))
        return 0
    found = found.in_language(own_language())
    print(found.title)
    if found.verdict is not None:
        print("\n".join(["", *_said(found.verdict)]))
    if not found.findings and found.sound:
        print(f"\n{found.nothing}")
    for finding in found.findings:
        print()
        print("\n".join(_paragraphs(finding)))
    if found.settings is not None:
        print("\n".join(["", *_settings_lines(found.settings)]).rstrip())
    return 0


@dataclass(frozen=True)
class _Analysis:
    """What is printed of a run.

    ``verdict`` is as the page and ``runs`` give it; None where nobody has made one. ``settings`` are None where nobody asked.
    """

    findings: list[Finding]
    title: str
    verdict: Verdict | None = None
    settings: list[WhatIf] | None = None
    nothing: str = "Nothing found: no data stall, no costly epoch boundary, no hang."

    def in_language(self, language: str) -> _Analysis:
        """Return it with its sentences in a language."""
        said = {
            name: in_language(getattr(self, name), language) for name in ("findings", "verdict", "settings")
        }
        return replace(self, **said)

    @property
    def sound(self) -> bool:
        """Whether no verdict speaks against saying that nothing was found: it is ok, or there is none."""
        return self.verdict is None or self.verdict.severity == "ok"


def _analyzed(args: argparse.Namespace) -> _Analysis:
    with open_run(args.which, args.data_dir) as source:
        if args.redact:
            recording = redacted(source.recording(_SERVED_S))
            found = _of_recording(recording, args.hang_after, f"{recording.run_name} ({recording.run_id})")
            return replace(found, settings=_played(last_window(recording))) if args.what_if else found
        match source:
            case RecordedRun():
                found = _of_recording(source.recorded, args.hang_after, source.title)
            case ServedRun():
                found = _served(source, args.hang_after, args.attempt)
            case FiledRun():
                found = _stored(source, args.hang_after, args.attempt)
        return replace(found, settings=_settings(source)) if args.what_if else found


def _settings(source: RunSource) -> list[WhatIf]:
    match source:
        case RecordedRun():
            return _played(last_window(source.recorded))
        case ServedRun():
            return source.client.what_if(source.run_id)
        case FiledRun():
            return _played(rebuild(source.store, source.run_id).window())


def _played(window: RunWindow) -> list[WhatIf]:
    return what_if_of(RunEvidence(window), None)


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
    if attempt in (None, run.attempt):
        found = LaterRuns(store).mark(run, found)
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
    if finding.followed is not None:
        later = finding.followed
        lines.append(f"  {later.sentence} · {one_line(later.name)} ({later.run_id})")
    for folded in finding.folded:
        lines.append(
            fill(
                say(
                    Text("folded-finding", {"title": folded.title, "warned_s": folded.warned_s}),
                    own_language(),
                ),
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


def _settings_lines(found: list[WhatIf]) -> list[str]:
    """Return what is printed of each loader's other settings."""
    return [line for loader in found for line in _of_loader(loader)] or [_NO_SETTINGS]


def _of_loader(loader: WhatIf) -> list[str]:
    most = max(loader.knee, loader.today.num_workers) + _BEYOND
    numbers = [one for one in loader.workers if one.num_workers <= most]
    if len(numbers) > _LONG:
        marked = _SHOWN | {loader.today.num_workers, loader.knee}
        numbers = [one for one in numbers if one.num_workers in marked]
    rows = numbers + loader.others
    names = [_named(one, loader.today) for one in rows]
    wide = max(len(name) for name in [*names, *(option.change for option in loader.options)])
    lines = [fill(_basis(loader), _WIDTH), ""]
    lines += [f"  {name:<{wide}}  {_told(one, loader)}" for name, one in zip(names, rows, strict=True)]
    for option in loader.options:
        lines += ["", f"  {option.change:<{wide}}  {_saved(option)}"]
        lines.append(fill(option.rests_on, _WIDTH, initial_indent="    ", subsequent_indent="    "))
    return [*lines, ""]


def _basis(loader: WhatIf) -> str:
    cpus = "" if loader.cpus is None else f", with {rate(loader.cpus)} CPUs to share"
    free = "" if loader.free_bytes is None else f" {_size(loader.free_bytes)} are free in {loader.free_in}."
    return (
        f"{one_line(loader.name)} of rank {loader.rank}: {rate(loader.measured_per_s)} batches/s today. Played with its last"
        f" {count(loader.fetches, 'batch')} ({duration(loader.fetch_s)} to read one, {duration(loader.step_s)} a step){cpus}."
        f" It holds while storage gives more readers as much as it gives today's.{free}"
    )


def _told(one: LoaderSetting, loader: WhatIf) -> str:
    said = [f"{rate(one.steps_per_s):>6} batches/s ({rate(one.least_per_s)} to {rate(one.most_per_s)})"]
    if one.gain_ratio >= _LEAST_GAIN:
        said.append(f"saves {one.gain_ratio:.0%}")
    if one.memory_bytes:
        said.append(f"{_size(one.memory_bytes)} read ahead")
        if loader.free_bytes is not None and one.memory_bytes > loader.free_bytes:
            said.append(f"more than is free in {loader.free_in}")
    if one == loader.today:
        said.append("today")
    if one in loader.workers and one.num_workers == loader.knee:
        said.append("as good as any")
    return ", ".join(said)


def _saved(option: LoaderOption) -> str:
    least, most = option.least_ratio, option.most_ratio
    if most < _LEAST_GAIN:
        return "saves nothing" if least > -_LEAST_GAIN else f"costs up to {-least:.0%}"
    per_epoch = f", {duration(option.per_epoch_s)} of an epoch at most" if option.per_epoch_s else ""
    return (
        f"saves {least:.0%} to {most:.0%}{per_epoch}"
        if round(100 * (most - least))
        else f"saves {most:.0%}{per_epoch}"
    )


def _size(number: int) -> str:
    for size, unit in ((1e9, "GB"), (1e6, "MB")):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number / 1e3:.0f} kB"


def _named(one: LoaderSetting, today: LoaderSetting) -> str:
    """Return what is to be written, where it differs from today's."""
    parts = [f"num_workers={one.num_workers}"]
    if one.prefetch_factor != today.prefetch_factor:
        parts.append(f"prefetch_factor={one.prefetch_factor}")
    if one.in_order != today.in_order:
        parts.append(f"in_order={one.in_order}")
    return ", ".join(parts)

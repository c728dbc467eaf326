"""``loaderwatch analyze``: what the detectors find in a live or ended run."""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import fill
from typing import Final

import msgspec

from loaderwatch.cli.flags import add_data_dir, add_hang_after, add_run
from loaderwatch.cli.profile_lines import profile_lines
from loaderwatch.cli.profile_source import heaviest_profile
from loaderwatch.cli.run_source import FiledRun, RecordedRun, RunSource, ServedRun, open_run
from loaderwatch.core.answers import (
    Evidence,
    Finding,
    LoaderOption,
    LoaderSetting,
    Param,
    Profile,
    RunRow,
    Stack,
    Summary,
    Text,
    Verdict,
    WhatIf,
)
from loaderwatch.core.errors import ConfigError
from loaderwatch.core.facts import StackDump
from loaderwatch.core.printable import one_line
from loaderwatch.core.records import LEAST_SAMPLES
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import SEVERITIES
from loaderwatch.detect.measures.stacks import main_frames
from loaderwatch.detect.translation import in_language
from loaderwatch.detect.window import RunWindow
from loaderwatch.server.alerts.alert_book import shape
from loaderwatch.server.queries.live_answers import what_if_of
from loaderwatch.server.recordings.analysis import judge_recording, judge_stored
from loaderwatch.server.recordings.later_runs import LaterRuns
from loaderwatch.server.recordings.recording import SUFFIX, Recording, last_window, redacted
from loaderwatch.server.recordings.verdict_cache import stored_alerts, stored_verdict
from loaderwatch.server.window.replay import rebuild
from loaderwatch.texts import in_own_language, own_language, say
from loaderwatch.texts.formats import rate

_STACK_LINES = 12
_PROFILE_LINES: Final = 5
_WIDTH = 100
_BEYOND: Final = 2
"""Numbers of workers shown beyond the fewest that are as good as any."""
_SHOWN: Final = frozenset({1, 2, 3, 4, 6, 8, 12, 16, 24, 32})
"""Shown in long lists, besides today's number and the fewest that are as good as any."""
_LONG: Final = 12
_LEAST_GAIN: Final = 0.03
"""A gain below this share is noise."""
_SERVED_S = 3600.0  # a server packs no more


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    add_run(parser)
    add_data_dir(parser)
    parser.add_argument("--attempt", type=int, default=None, metavar="N")
    add_hang_after(parser)
    parser.add_argument("--redact", action="store_true")
    parser.add_argument("--what-if", action="store_true")
    parser.add_argument("--json", action="store_true")


def run(args: argparse.Namespace) -> int:
    """Print the verdict and the findings, worst first; return the exit code.

    Raises:
        ConfigError: an option does not fit this kind of run.
    """
    if args.attempt is not None and (args.redact or args.which.endswith(SUFFIX)):
        raise ConfigError(
            "--attempt cannot be used with a recording or --redact: name a run or its .duckdb file"
        )
    if args.what_if and args.attempt is not None:
        raise ConfigError(
            "--what-if cannot be used with --attempt: settings are played of the newest attempt"
        )
    analysis = _analyzed(args)
    if args.json:
        answer = analysis.findings if analysis.settings is None else analysis.settings
        print(json.dumps(msgspec.to_builtins(answer), indent=2))
        return 0
    analysis = analysis.in_language(own_language())
    print(say(analysis.title, own_language()))
    if analysis.verdict is not None:
        print("\n".join(["", *_said(analysis.verdict)]))
    if not analysis.findings and analysis.sound:
        print(f"\n{in_own_language(analysis.nothing)}")
    for finding in analysis.findings:
        print()
        print("\n".join(_paragraphs(finding)))
    if analysis.profile is not None and analysis.profile.samples >= LEAST_SAMPLES:
        print(
            "\n".join(
                ["", in_own_language("profile-heading"), *profile_lines(analysis.profile, _PROFILE_LINES)]
            )
        )
    if analysis.settings is not None:
        print("\n".join(["", *_settings_lines(analysis.settings)]).rstrip())
    return 0


@dataclass(frozen=True)
class _Analysis:
    """The printed answer about a run.

    ``verdict``: as on the page and in ``runs``; None if nobody made one. ``settings``: None if not requested.
    ``profile``: of the part that lost the most time; None if there is none, or nobody prints it.
    """

    findings: list[Finding]
    title: Text
    verdict: Verdict | None = None
    settings: list[WhatIf] | None = None
    profile: Profile | None = None
    nothing: str = "nothing-found"  # the message for a run without findings

    def in_language(self, language: str) -> _Analysis:
        """Return the analysis with its sentences in a language."""
        translated = {
            name: in_language(getattr(self, name), language) for name in ("findings", "verdict", "settings")
        }
        return replace(self, **translated)

    @property
    def sound(self) -> bool:
        """Whether the verdict allows to say that nothing was found: it is ok, or missing."""
        return self.verdict is None or self.verdict.severity == "ok"


def _analyzed(args: argparse.Namespace) -> _Analysis:
    with open_run(args.which, args.data_dir) as source:
        if args.redact:
            recording = redacted(source.recording(_SERVED_S))
            analysis = _of_recording(recording, args.hang_after, _redacted_title(recording))
            return _more(analysis, RecordedRun(recording, Path(args.which)), args)
        match source:
            case RecordedRun():
                analysis = _of_recording(source.recorded, args.hang_after, source.title)
            case ServedRun():
                analysis = _served(source, args.hang_after, args.attempt)
            case FiledRun():
                analysis = _stored(source, args.hang_after, args.attempt)
        return _more(analysis, source, args)


def _more(analysis: _Analysis, source: RunSource, args: argparse.Namespace) -> _Analysis:
    """Return the analysis with the settings and the profile that the arguments ask for."""
    if args.what_if:
        analysis = replace(analysis, settings=_settings(source))
    return (
        analysis if args.json else replace(analysis, profile=heaviest_profile(source, attempt=args.attempt))
    )


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


def _of_recording(recording: Recording, hang_after_s: float | None, title: Text) -> _Analysis:
    findings, verdict = judge_recording(recording, hang_after_s)
    return _Analysis(_worst_first(findings), title, verdict)


def _served(run: ServedRun, hang_after_s: float | None, attempt: int | None) -> _Analysis:
    if hang_after_s is not None:
        raise ConfigError(
            f"--hang-after cannot be used here: the server at {run.client.url} judges its runs by its own"
            " limit; start that one with --hang-after, or name a .lwrec file (loaderwatch export)"
        )
    summary = run.client.summary(run.run_id, attempt)
    findings = _worst_first(run.client.findings(run.run_id, attempt))
    return _Analysis(findings, _title(run.row if attempt is None else summary, attempt), summary.verdict)


def _stored(filed: FiledRun, hang_after_s: float | None, attempt: int | None) -> _Analysis:
    """Return the server's findings as the page shows them; with a limit, the findings by that limit."""
    store, row = filed.store, filed.row
    run = store.run(filed.run_id)
    if hang_after_s is None:
        findings = [shape(alert) for alert in stored_alerts(run, store, attempt)]
        verdict = stored_verdict(run, store, time.time_ns(), attempt)
    else:
        findings, verdict = judge_stored(store, run.run_id, hang_after_s, attempt)
    if attempt in (None, run.attempt):
        findings = LaterRuns(store).mark(run, findings)
    earlier_attempt = next((a for a in run.earlier if a.number == attempt), None)
    if earlier_attempt is not None:
        row = msgspec.structs.replace(row, state=earlier_attempt.state, steps=earlier_attempt.steps)
    analysis = _Analysis(_worst_first(findings), _title(row, attempt), verdict)
    return analysis if hang_after_s is not None else replace(analysis, nothing="no-alert-raised")


def _worst_first(found: list[Finding]) -> list[Finding]:
    return sorted(found, key=lambda f: (-SEVERITIES[f.severity], -(f.lost_s or 0.0)))


def _title(run: RunRow | Summary, attempt: int | None) -> Text:
    params: dict[str, Param] = {
        "name": run.name,
        "run_id": run.run_id,
        "ranks": run.world_size,
        "state": run.state,
    }
    shown = (attempt or run.attempts) if run.attempts > 1 else None
    return Text("run-described", {**params, "attempt": shown, "attempts": run.attempts, "steps": run.steps})


def _redacted_title(recording: Recording) -> Text:
    return Text("run-redacted", {"name": recording.run_name, "run_id": recording.run_id})


def _paragraphs(finding: Finding) -> list[str]:
    titled = in_own_language("finding-titled", severity=finding.severity, title=finding.title)
    facts = in_own_language(
        "finding-facts",
        kind=f"{finding.code} {finding.scenario}".rstrip(),
        state=finding.state,
        lost_s=finding.lost_s or None,
        gain_percent=100 * finding.gain_ceiling_ratio if finding.gain_ceiling_ratio else None,
        gain_of=finding.gain_of,
    )
    lines = [fill(titled, _WIDTH), f"  {facts}"]
    lines += [_labelled("cause", finding.cause), _labelled("advice", finding.advice)]
    if finding.followed is not None:
        later = finding.followed
        lines.append(f"  {later.sentence} · {one_line(later.name)} ({later.run_id})")
    for folded in finding.folded:
        line_text = in_own_language("folded-finding", title=folded.title, warned_s=folded.warned_s)
        lines.append(fill(line_text, _WIDTH, initial_indent="  ", subsequent_indent="    "))
    for item in finding.evidence:
        lines.append(f"  - {in_own_language('printed-evidence', label=item.label, value=_value(item))}")
    for stack in finding.stacks:
        worker = None if stack.worker < 0 else stack.worker
        head = in_own_language("stack-head", rank=stack.rank, worker=worker, pid=stack.pid)
        lines += [f"  {head}", *(f"    {frame}" for frame in _frames(stack))]
    return lines


def _said(verdict: Verdict) -> list[str]:
    """Return the lines of the verdict, with its advice unless a finding below gives it."""
    advice = [] if verdict.finding_id or not verdict.advice else [_labelled("advice", verdict.advice)]
    return [fill(one_line(verdict.title), _WIDTH), *advice]


def _labelled(label: str, text: str) -> str:
    labelled_text = in_own_language("labelled", label=label, text=text)
    return fill(labelled_text, _WIDTH, initial_indent="  ", subsequent_indent="    ")


def _value(item: Evidence) -> str:
    value, unit = item.value, item.unit
    if value is None:
        return in_own_language("value-unknown")
    if unit == "ratio" and isinstance(value, (int, float)):
        return f"{value:.1%}"
    if isinstance(value, str):
        return value.replace("\n", "\n      ")
    number = f"{value:.4g}" if isinstance(value, float) else str(value)
    exact = unit in ("text", "count", "index")
    return number if exact else in_own_language("value-with-unit", number=number, unit=unit)


def _frames(stack: Stack) -> list[str]:
    """Return the relevant thread's frames, innermost first; ``--json`` and the page show all threads."""
    dump = StackDump(rank=stack.rank, worker=stack.worker, pid=stack.pid, taken_ns=0, text=stack.text)
    frames = [
        in_own_language("stack-frame", file=frame.file, line=frame.line, function=frame.function)
        for frame in main_frames(dump)
    ]
    if not frames:
        frames = stack.text.splitlines() or [stack.why]
    left_out = len(frames) - _STACK_LINES
    return (
        frames if left_out <= 0 else [*frames[:_STACK_LINES], in_own_language("more-frames", more=left_out)]
    )


def _settings_lines(found: list[WhatIf]) -> list[str]:
    """Return the printed lines about each loader's other settings."""
    return [line for loader in found for line in _of_loader(loader)] or [in_own_language("no-other-settings")]


def _of_loader(loader: WhatIf) -> list[str]:
    most = max(loader.knee, loader.today.num_workers) + _BEYOND
    numbers = [setting for setting in loader.workers if setting.num_workers <= most]
    if len(numbers) > _LONG:
        marked = _SHOWN | {loader.today.num_workers, loader.knee}
        numbers = [setting for setting in numbers if setting.num_workers in marked]
    rows = numbers + loader.others
    names = [_named(setting, loader.today) for setting in rows]
    wide = max(len(name) for name in [*names, *(option.change for option in loader.options)])
    lines = [fill(_basis(loader), _WIDTH), ""]
    lines += [
        f"  {name:<{wide}}  {rate(setting.steps_per_s):>6} {_told(setting, loader)}"
        for name, setting in zip(names, rows, strict=True)
    ]
    for option in loader.options:
        lines += ["", f"  {option.change:<{wide}}  {_saved(option)}"]
        lines.append(fill(option.rests_on, _WIDTH, initial_indent="    ", subsequent_indent="    "))
    return [*lines, ""]


def _basis(loader: WhatIf) -> str:
    return in_own_language(
        "settings-basis",
        name=one_line(loader.name),
        rank=loader.rank,
        measured_per_s=loader.measured_per_s,
        fetches=loader.fetches,
        fetch_s=loader.fetch_s,
        step_s=loader.step_s,
        cpus=loader.cpus,
        free=None if loader.free_bytes is None else _size(loader.free_bytes),
        free_in=loader.free_in,
    )


def _told(one: LoaderSetting, loader: WhatIf) -> str:
    free_bytes = math.inf if loader.free_bytes is None else loader.free_bytes
    return in_own_language(
        "setting-played",
        least_per_s=one.least_per_s,
        most_per_s=one.most_per_s,
        saved_percent=100 * one.gain_ratio if one.gain_ratio >= _LEAST_GAIN else None,
        ahead=_size(one.memory_bytes) if one.memory_bytes else None,
        beyond=(one.memory_bytes or 0) > free_bytes,
        free_in=loader.free_in,
        is_today=one == loader.today,
        is_knee=one in loader.workers and one.num_workers == loader.knee,
    )


def _saved(option: LoaderOption) -> str:
    least, most = option.least_ratio, option.most_ratio
    if most < _LEAST_GAIN:
        saves = "nothing" if least > -_LEAST_GAIN else "costs"
    else:
        saves = "between" if round(100 * (most - least)) else "about"
    return in_own_language(
        "option-saves",
        saves=saves,
        cost_percent=-100 * least,
        least_percent=100 * least,
        most_percent=100 * most,
        per_epoch_s=option.per_epoch_s or None,
    )


def _size(number: int) -> str:
    for size, unit in ((1e9, "GB"), (1e6, "MB")):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number / 1e3:.0f} kB"


def _named(one: LoaderSetting, today: LoaderSetting) -> str:
    """Return the setting's arguments, those after the first only if they differ from today's."""
    parts = [f"num_workers={one.num_workers}"]
    if one.prefetch_factor != today.prefetch_factor:
        parts.append(f"prefetch_factor={one.prefetch_factor}")
    if one.in_order != today.in_order:
        parts.append(f"in_order={one.in_order}")
    return ", ".join(parts)

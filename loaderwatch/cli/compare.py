"""``loaderwatch compare``: what changed from one run to another, in its settings, its speed and its waits."""

from __future__ import annotations

import argparse
import json
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path
from textwrap import fill
from typing import Final

import msgspec

from loaderwatch.advise.comparison.compare import comparison
from loaderwatch.advise.comparison.condition import parse
from loaderwatch.advise.comparison.measures import MEASURES
from loaderwatch.cli.flags import add_data_dir
from loaderwatch.cli.run_source import FiledRun, RunSource, ServedRun, open_run
from loaderwatch.core.answers import ComparedRun, Comparison, Difference, Estimate, Setting
from loaderwatch.core.language import own_language
from loaderwatch.core.printable import one_line
from loaderwatch.detect.text import count
from loaderwatch.detect.translation import in_language
from loaderwatch.server.recordings.observed import observed
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.texts.formats import percent, signed

_ABOUT: Final = f"""Compares run B with run A over the whole of each but its beginning: what changed in the configuration, and
what in speed, waits and epoch boundaries, each with a 95 % interval and whether that is more than noise. Measures:
{", ".join(MEASURES)}."""
_WIDTH: Final = 100
_SERVED_S: Final = 3600.0  # of a run that a server has, where the other is a file; a server packs no more


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    parser.description = _ABOUT
    for name in "AB":
        parser.add_argument(
            name.lower(),
            metavar=name,
            help="a run's id, a run's name (its newest run), a .duckdb file or an .lwrec file",
        )
    parser.add_argument(
        "--fail-if",
        action="append",
        default=[],
        metavar="CONDITION",
        help="exit with 1 when it holds: 'data_wait_ratio > 0.1' of B, 'steps_per_s.change < -5%%' of B against A"
        " (only where that is more than noise); may be repeated, and what is not known fails",
    )
    parser.add_argument("--json", action="store_true", help="print the comparison as the API gives it")
    add_data_dir(parser)


def run(args: argparse.Namespace) -> int:
    """Print the comparison; return 1 when a condition of ``--fail-if`` holds.

    Raises:
        ConfigError: a condition cannot be read.
        NoSuchRun, BadRecording, ServerError, StoreError: a run cannot be read.
    """
    conditions = [parse(text) for text in args.fail_if]
    compared = _compared(args.a, args.b, args.data_dir)
    broken = [why for condition in conditions if (why := condition.broken_by(compared)) is not None]
    if args.json:
        print(json.dumps(msgspec.to_builtins(compared), indent=2))
    else:
        said = in_language(compared, own_language())
        print("\n".join([*_text(said), *([""] if broken else []), *(f"Failed: {why}" for why in broken)]))
    return 1 if broken else 0


def _compared(a: str, b: str, data_dir: Path | None) -> Comparison:
    with ExitStack() as opened:
        ours, theirs = (opened.enter_context(open_run(which, data_dir)) for which in (a, b))
        if isinstance(ours, ServedRun) and isinstance(theirs, ServedRun):
            return ours.client.comparison(ours.run_id, theirs.run_id)
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="loaderwatch-")))
        stores = [
            (source.store, source.run_id)
            if isinstance(source, FiledRun)
            else _stored(source, folder / name, opened)
            for name, source in (("a", ours), ("b", theirs))
        ]
        return comparison(*(observed(store, run_id) for store, run_id in stores))


def _stored(source: RunSource, folder: Path, opened: ExitStack) -> tuple[DuckDBStore, str]:
    """Store a recording, so that it is read as a run of a store is."""
    recording = source.recording(_SERVED_S)
    store = opened.enter_context(closing(DuckDBStore(folder)))
    store.append(list(recording.decoded()))
    return store, recording.run_id


def _text(compared: Comparison) -> list[str]:
    lines = [_who("A", compared.a), _who("B", compared.b), "", fill(compared.title, _WIDTH)]
    lines += [fill(f"Note: {note}", _WIDTH, subsequent_indent="  ") for note in compared.notes]
    lines += ["", "Settings that differ:" if compared.settings else "No setting that is known differs."]
    lines += [f"  {_setting(each)}" for each in compared.settings]
    if compared.measures:
        lines += ["", *_table(compared.measures)]
    return lines


def _who(which: str, run: ComparedRun) -> str:
    said = f"{which}  {one_line(run.name)} ({run.run_id}), {count(run.world_size, 'rank')}, {run.state}"
    steps = "" if run.steps is None else f", {count(run.steps, 'step')}"
    return f"{said}{steps}, {run.seconds:.0f} s compared"


def _setting(changed: Setting) -> str:
    a, b = (one_line(value) if value is not None else "–" for value in (changed.a, changed.b))
    return f"{one_line(changed.where)} {changed.what}: {a} → {b}"


def _table(measures: list[Difference]) -> list[str]:
    rows = [("", "A", "B", "change (95 %)", "")]
    rows += [
        (each.label, _value(each, each.a), _value(each, each.b), _change(each), each.said)
        for each in measures
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return ["  ".join([*map(str.ljust, row, widths), row[-1]]).rstrip() for row in rows]


def _value(measure: Difference, of: Estimate | None) -> str:
    if of is None:
        return "–"
    if measure.unit == "ratio":
        return percent(of.mean)
    return f"{of.mean:.3g} {'/s' if measure.unit == 'per_s' else measure.unit}"


def _change(measure: Difference) -> str:
    if measure.change is None:
        return "–"
    unit = " points" if measure.unit == "ratio" else ""
    said = _signed(measure, measure.change)
    if measure.change_low is None or measure.change_high is None:
        return f"{said}{unit}"
    return f"{said}{unit} ({_signed(measure, measure.change_low)} to {_signed(measure, measure.change_high)})"


def _signed(measure: Difference, change: float) -> str:
    return f"{100 * change:+.1f}" if measure.unit == "ratio" else signed(change)

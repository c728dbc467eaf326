"""``loaderwatch compare``: what changed from one run to another in settings, speed and waits."""

from __future__ import annotations

import argparse
import json
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path
from textwrap import fill
from typing import Final

import msgspec

from loaderwatch.advise.comparison.compare import MEASURES, comparison, parse
from loaderwatch.cli.flags import add_data_dir
from loaderwatch.cli.parser import CommandParser
from loaderwatch.cli.run_source import FiledRun, RunSource, ServedRun, open_run
from loaderwatch.core.answers import ComparedRun, Comparison, Difference, Estimate, Setting
from loaderwatch.core.printable import one_line
from loaderwatch.detect.translation import in_language
from loaderwatch.server.recordings.run_measures import observed
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.texts import in_own_language, own_language, say
from loaderwatch.texts.formats import percent, signed

_WIDTH: Final = 100
_SERVED_S: Final = 3600.0  # of a server's run if the other run is a file; a server packs no more


def prepare_parser(parser: CommandParser) -> None:
    """Add the command's arguments to its parser."""
    parser.params = {"measures": ", ".join(MEASURES)}
    for name in "AB":
        parser.add_argument(name.lower(), metavar=name)
    parser.add_argument("--fail-if", action="append", default=[], metavar="CONDITION")
    parser.add_argument("--json", action="store_true")
    add_data_dir(parser)


def run(args: argparse.Namespace) -> int:
    """Print the comparison; return 1 if a condition of ``--fail-if`` holds.

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
        comparison = in_language(compared, own_language())
        failed = [say(why, own_language()) for why in broken]
        print("\n".join([*_text(comparison), *([""] if broken else []), *failed]))
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
    """Store a recording, so that it is read like a run in a store."""
    recording = source.recording(_SERVED_S)
    store = opened.enter_context(closing(DuckDBStore(folder)))
    store.append(list(recording.decoded()))
    return store, recording.run_id


def _text(compared: Comparison) -> list[str]:
    lines = [_who("A", compared.a), _who("B", compared.b), "", fill(compared.title, _WIDTH)]
    for note in compared.notes:
        lines.append(fill(in_own_language("comparison-note", note=note), _WIDTH, subsequent_indent="  "))
    lines += ["", in_own_language("settings-differ" if compared.settings else "no-setting-differs")]
    lines += [f"  {_setting(setting)}" for setting in compared.settings]
    if compared.measures:
        lines += ["", *_table(compared.measures)]
    return lines


def _who(which: str, run: ComparedRun) -> str:
    return in_own_language(
        "run-compared",
        which=which,
        name=one_line(run.name),
        run_id=run.run_id,
        ranks=run.world_size,
        state=run.state,
        steps=run.steps,
        seconds_s=run.seconds,
    )


def _setting(changed: Setting) -> str:
    a, b = (one_line(value) if value is not None else "–" for value in (changed.a, changed.b))
    where = one_line(changed.where)
    return in_own_language("setting-changed", where=where, what=changed.what, a=a, b=b)


def _table(measures: list[Difference]) -> list[str]:
    rows = [("", "A", "B", in_own_language("comparison-columns"), "")]
    rows += [(m.label, _value(m, m.a), _value(m, m.b), _change(m), m.said) for m in measures]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return ["  ".join([*map(str.ljust, row, widths), row[-1]]).rstrip() for row in rows]


def _value(measure: Difference, of: Estimate | None) -> str:
    if of is None:
        return "–"
    if measure.unit == "ratio":
        return percent(of.mean)
    return in_own_language("measured-value", number=f"{of.mean:.3g}", unit=measure.unit)


def _change(measure: Difference) -> str:
    if measure.change is None:
        return "–"
    is_known = measure.change_low is not None and measure.change_high is not None
    return in_own_language(
        "measured-change",
        change=_signed(measure, measure.change),
        is_points=measure.unit == "ratio",
        low=_signed(measure, measure.change_low or 0.0) if is_known else None,
        high=_signed(measure, measure.change_high or 0.0) if is_known else None,
    )


def _signed(measure: Difference, change: float) -> str:
    return f"{100 * change:+.1f}" if measure.unit == "ratio" else signed(change)

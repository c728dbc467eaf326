"""``loaderwatch tune``: tries a script's loader for the smallest setting that keeps the device fed."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from loaderwatch.agent.tuning.search import DEFAULT_PREFETCH, KNOWN_FILE
from loaderwatch.agent.tuning.setting import TunedSetting, keep
from loaderwatch.cli.flags import is_file, seconds
from loaderwatch.cli.script import ScriptFailed, inspect_script, tail
from loaderwatch.core.config import load_settings
from loaderwatch.core.environment_variables import TUNE
from loaderwatch.core.errors import ConfigError
from loaderwatch.core.facts import LoaderTrial, Tuning
from loaderwatch.core.message import Text
from loaderwatch.core.wire import decode_json
from loaderwatch.texts import in_own_language, own_language, say
from loaderwatch.texts.formats import duration, rate, size

GRACE_S: Final = 60.0
"""Extra time beyond a tuning's budget, since a trial in progress is waited for."""
_COLUMNS: Final = ("workers", "speed", "start", "memory")
"""The parts of the message ``tuning-columns``."""
SAME_RATIO: Final = 0.05
"""A speed gain up to this share of the present speed is no reason to change a setting."""


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    parser.usage = "loaderwatch tune [options] SCRIPT [ARGS...] | -m MODULE [ARGS...]"
    parser.add_argument("-m", dest="module", action="store_true")
    parser.add_argument("--seconds", type=seconds, default=60.0, metavar="SECONDS")
    parser.add_argument("--step-ms", type=_milliseconds, default=None, metavar="MS")
    parser.add_argument("--timeout", type=seconds, default=120.0, metavar="SECONDS")
    parser.add_argument("--apply-env", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("target", metavar="SCRIPT | MODULE")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS")


def _milliseconds(text: str) -> float:
    return seconds(text) / 1000


def run(args: argparse.Namespace) -> int:
    """Print the trials and the advice; return 0 if a setting was found.

    Raises:
        ConfigError: there is no such script.
        ScriptFailed: the script reached no training loader, or its loader cannot be read.
    """
    if not args.module and not is_file(args.target):
        raise ConfigError(f"there is no file {args.target}; name a script, or a module with -m")
    known: list[Tuning] = []
    try:
        tuning = _tune(args, known)
    except KeyboardInterrupt:
        if not known:
            raise
        tuning = msgspec.structs.replace(known[-1], stopped=Text("stopped-by-you"))
    if tuning.error is not None and not tuning.trials:
        raise ScriptFailed(f"{args.target}: {tuning.error}")
    if args.json:
        print(json.dumps(_in_english(tuning), indent=2))
    else:
        print("\n".join(report(tuning)))
    if args.apply_env:
        print(_keep(args, tuning), file=sys.stderr)
    return 0 if tuning.advised_workers is not None else 1


def _tune(args: argparse.Namespace, known: list[Tuning]) -> Tuning:
    """Run the script; ``known`` gets the result after each trial, in case of an interrupt."""
    # so that the script ends with us
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))

    def look(folder: Path) -> float:
        file = folder / KNOWN_FILE
        if not file.exists():
            return 0.0
        newest = decode_json(file.read_bytes(), Tuning)
        shown = len(known[-1].trials) if known else 0
        for trial in newest.trials[shown:]:
            print(f"  {_trial_line(trial)}", file=sys.stderr, flush=True)
        known[:] = [newest]
        return float(args.seconds + GRACE_S)

    command = [*(["-m"] if args.module else []), args.target, *args.arguments]
    options = json.dumps({"asked_ns": time.time_ns(), "seconds": args.seconds, "step_s": args.step_ms})
    inspected = inspect_script(command, None, args.timeout, environ={TUNE.name: options}, look=look)
    for rank_report in inspected.reports:
        if rank_report.tuning is not None:
            return rank_report.tuning
    (first, *_) = inspected.reports
    how = first.refusal or (
        f"it ended with {first.ended}" if first.ended else "it iterated no torch.utils.data.DataLoader"
    )
    raise ScriptFailed(f"{args.target} has no training loader to try: {how}\n{tail(inspected.output)}")


def _in_english(tuning: Tuning) -> dict[str, Any]:
    """Return a tuning as JSON data, with English texts."""
    stopped = "" if tuning.stopped is None else say(tuning.stopped)
    english = {"stopped": stopped, "notes": [say(note) for note in tuning.notes]}
    return {**msgspec.to_builtins(tuning), **english}


def report(tuning: Tuning) -> list[str]:
    """Return the lines about a tuning: the curve, the advice, the line to paste."""
    where = f" ({tuning.made_at})" if tuning.made_at else ""
    columns = [say(Text("tuning-columns", {}, part), own_language()) for part in _COLUMNS]
    lines = [f"{tuning.loader}{where}", "  {:>11}  {:>9}  {:>11}  {:>8}".format(*columns)]
    speeds = [trial for trial in tuning.trials if trial.wait_ratio is None]
    for trial in sorted(speeds, key=lambda one: one.num_workers):
        is_now, is_advised = (
            trial.num_workers == workers for workers in (tuning.num_workers, tuning.advised_workers)
        )
        mark = "both" if is_now and is_advised else "now" if is_now else "advised" if is_advised else None
        memory = "–" if trial.worker_bytes is None else size(trial.worker_bytes)
        lines.append(
            f"  {trial.num_workers:>11}  {rate(trial.batches_per_s):>9}"
            f"  {duration(trial.start_s):>11}  {memory:>8}"
            + (f"  {in_own_language('tuning-marks', mark=mark)}" if mark else "")
        )
    played = [trial for trial in tuning.trials if trial.wait_ratio is not None]
    if played:
        lines += ["", in_own_language("tuning-with-steps", step_s=tuning.step_s or 0.0)]
        lines += [f"  {_trial_line(trial)}" for trial in played]
    lines += ["", *_advice(tuning)]
    if tuning.error:
        lines.append(in_own_language("tuning-failed", why=tuning.error))
    elif tuning.stopped is not None:
        lines.append(in_own_language("tuning-stopped", why=tuning.stopped))
    lines += [say(note, own_language()) for note in tuning.notes]
    if tuning.step_s is None:
        lines.append(in_own_language("step-not-given"))
    return lines


def _keep(args: argparse.Namespace, tuning: Tuning) -> str:
    """Keep the setting for the next run and return a line that says so.

    Raises:
        ConfigError: the setting cannot be written.
    """
    change = change_of(tuning)
    if change is None or tuning.made_at is None:
        return in_own_language("no-setting-to-keep")
    target = f"-m {args.target}" if args.module else str(Path(args.target).resolve())
    workers, prefetch = change
    setting = TunedSetting(
        loader=tuning.loader, made_at=tuning.made_at, num_workers=workers, prefetch_factor=prefetch
    )
    path = load_settings().tuned_path
    try:
        keep(path, target, setting)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}; the setting is not kept") from error
    return in_own_language("setting-is-kept", script=args.target, setting=str(setting))


def change_of(tuning: Tuning) -> tuple[int, int | None] | None:
    """Return the advised workers and prefetch factor (None: unchanged); None if nothing should change."""
    workers = tuning.advised_workers
    if workers is None:
        return None
    prefetch = _prefetch(tuning.advised_prefetch)
    same_prefetch = prefetch == _prefetch(tuning.prefetch_factor)
    now, then = _speeds(tuning)
    brings_little = abs(then / now - 1) <= SAME_RATIO
    if same_prefetch and (workers == tuning.num_workers or (brings_little and workers > tuning.num_workers)):
        return None
    return workers, None if not workers or same_prefetch else prefetch


def _advice(tuning: Tuning) -> list[str]:
    workers = tuning.advised_workers
    if workers is None:
        return [in_own_language("nothing-tried")]
    change = change_of(tuning)
    if change is None:
        return [in_own_language("setting-is-smallest", workers=tuning.num_workers)]
    now, then = _speeds(tuning)
    paste = f"num_workers={workers}" + ("" if change[1] is None else f", prefetch_factor={change[1]}")
    return [in_own_language("use-setting", setting=paste, then_per_s=then, now_per_s=now)]


def _speeds(tuning: Tuning) -> tuple[float, float]:
    """Return the batches/s of the present and the advised setting, with a step between batches if known."""
    return (
        _speed(tuning, tuning.num_workers, tuning.prefetch_factor),
        _speed(tuning, tuning.advised_workers or 0, tuning.advised_prefetch),
    )


def _speed(tuning: Tuning, workers: int, prefetch: int | None) -> float:
    """Return a setting's batches/s in training, as tried with steps, else estimated from reading alone."""
    trials = [trial for trial in tuning.trials if trial.num_workers == workers]
    for trial in reversed(trials):
        if trial.wait_ratio is not None and _prefetch(trial.prefetch_factor) == _prefetch(prefetch):
            return trial.batches_per_s
    step_s = tuning.step_s or 0.0
    read = next(trial.batches_per_s for trial in trials if trial.wait_ratio is None)
    if not workers:  # nothing is read while a step runs
        return 1 / (1 / read + step_s)
    return min(read, 1 / step_s) if step_s else read


def _prefetch(factor: int | None) -> int:
    return factor or DEFAULT_PREFETCH


def _trial_line(trial: LoaderTrial) -> str:
    prefetch = "" if trial.prefetch_factor is None else f", prefetch_factor={trial.prefetch_factor}"
    return in_own_language(
        "tuning-trial",
        setting=f"num_workers={trial.num_workers}{prefetch}",
        batches_per_s=trial.batches_per_s,
        wait_percent=None if trial.wait_ratio is None else 100 * trial.wait_ratio,
    )

"""``loaderwatch doctor``: checks the configuration of a script before it trains, or of a run."""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import sys
from collections import deque
from pathlib import Path
from textwrap import fill

import msgspec

from loaderwatch.advise.audit import audit
from loaderwatch.advise.facts import Facts, HostFacts, facts_of, facts_of_script
from loaderwatch.cli.flags import add_data_dir, is_file, is_folder, seconds
from loaderwatch.cli.run_source import FILES, FiledRun, NoSuchRun, RecordedRun, ServedRun, open_run
from loaderwatch.cli.script import ScriptFailed, inspect_script, tail
from loaderwatch.core.answers import Advice, Param, RunRow
from loaderwatch.core.clock import monotonic_ns
from loaderwatch.core.errors import ConfigError
from loaderwatch.detect.shared_thresholds import LATENCY_CPU_RATIO
from loaderwatch.detect.translation import in_language
from loaderwatch.server.recordings.recording import windows
from loaderwatch.server.window.replay import rebuild
from loaderwatch.streamer.samplers.host import HostSampler
from loaderwatch.texts import in_own_language, own_language, say

_WIDTH = 100
_LAUNCHER = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")  # what torchrun sets


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    parser.usage = "loaderwatch doctor [options] SCRIPT [ARGS...] | -m MODULE [ARGS...] | RUN"
    parser.add_argument("-m", dest="module", action="store_true")
    parser.add_argument("--ranks", type=_count, default=None, metavar="N")
    parser.add_argument("--timeout", type=seconds, default=120.0, metavar="SECONDS")
    add_data_dir(parser)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("target", metavar="SCRIPT | MODULE | RUN")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS")


def _count(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if not 1 <= number <= 64:
        raise argparse.ArgumentTypeError(f"it is {text!r}; use a number of ranks, 1 to 64")
    return number


def run(args: argparse.Namespace) -> int:
    """Print the advice, worst first; return 1 if any is a warning or worse, else 0.

    Raises:
        ConfigError: there is no such script or run.
        ScriptFailed: the script reached no training loader.
    """
    script = Path(args.target).expanduser()
    if args.module or (is_file(script) and script.suffix not in FILES):
        advices, lines = _of_script(args)
    elif is_folder(script):
        raise ConfigError(f"{args.target} is a folder; name the script in it, or a module with -m")
    elif script.suffix in FILES and not is_file(script):
        raise ConfigError(f"there is no file {args.target}")
    elif args.arguments or args.ranks is not None:
        raise ConfigError(f"there is no file {args.target}; name a script, or a module with -m")
    else:
        advices, lines = _of_run(args.target, args.data_dir)
    if args.json:
        print(json.dumps(msgspec.to_builtins(advices), indent=2))
    else:
        print("\n".join(lines))
        for advice in in_language(advices, own_language()):
            print("\n" + "\n".join(_paragraphs(advice)))
        if not advices:
            print("\n" + in_own_language("nothing-to-change"))
    return 1 if any(advice.severity != "info" for advice in advices) else 0


def _of_run(which: str, data_dir: Path | None) -> tuple[list[Advice], list[str]]:
    try:
        with open_run(which, data_dir) as source:
            match source:
                case ServedRun():
                    return source.client.audit(source.run_id), [_title(source.row)]
                case FiledRun():
                    window, title = rebuild(source.store, source.run_id).window(), _title(source.row)
                case RecordedRun():
                    ((window, _),) = deque(windows(source.recorded), maxlen=1)
                    title = say(source.title, own_language())
            return audit(facts_of(window)), [title]
    except NoSuchRun as error:
        raise ConfigError(f"there is no file {which}, and no such run: {error}") from None


def _title(row: RunRow) -> str:
    return in_own_language("run-audited", name=row.name, run_id=row.run_id, state=row.state)


def _of_script(args: argparse.Namespace) -> tuple[list[Advice], list[str]]:
    command = [*(["-m"] if args.module else []), args.target, *args.arguments]
    # so that the script ends with us
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    inspected = inspect_script(command, args.ranks, args.timeout)
    for report in inspected.reports:
        if report.ended or (report.ended is not None and not report.process.loaders):
            how = (
                f"with {report.ended} before it iterated a training loader"
                if report.ended
                else "and made no torch.utils.data.DataLoader; other loaders are watched in a run, not here"
            )
            raise ScriptFailed(
                f"{args.target} ended {how}\n{tail(inspected.output)}{_hint(report.ended, args)}"
            )
    facts = facts_of_script(inspected.reports, _this_host())
    return audit(facts), _head(args.target, facts)


def _hint(ended: str, args: argparse.Namespace) -> str:
    """Return a line about the missing option, if the error reveals it, else an empty text."""
    if args.ranks is None and ("env://" in ended or any(f"'{name}'" in ended for name in _LAUNCHER)):
        return "\n" + in_own_language("script-wants-torchrun")
    if ended.startswith("exit code") and not args.arguments:
        return "\n" + in_own_language("script-wants-arguments", script=args.target)
    return ""


def _this_host() -> HostFacts:
    sampler = HostSampler()
    sample = sampler.sample(os.getpid(), monotonic_ns())

    def now(name: str) -> float:
        value = sample.get(name)
        return math.nan if value is None else value

    info = sampler.info(None)
    return HostFacts(
        name=info.name,
        cpus=info.cpus,
        usable_cpus=now("usable_cpus"),
        quota_cpus=now("quota_cpus"),
        shm_bytes=now("shm_total_bytes"),
        shm_used_bytes=now("shm_used_bytes"),
        has_gpu=any(Path(device).exists() for device in ("/dev/nvidia0", "/dev/kfd", "/dev/dxg")),
    )


def _head(target: str, facts: Facts) -> list[str]:
    """Return the lines about what was checked: the machine, and the loaders as they would train."""
    (host,) = facts.hosts.values()
    process = facts.processes[min(facts.processes)]
    usable = host.usable_cpus if math.isfinite(host.usable_cpus) else None
    versions: dict[str, Param] = {"torch": process.torch, "python": process.python}
    head = [in_own_language("script-audited", script=target, usable_cpus=usable, cpus=host.cpus, **versions)]
    for loader in facts.loaders:
        if loader.rank != process.rank:
            continue
        info = loader.info
        able_per_s = None
        if loader.workers and loader.fetch_s > 0:
            computing = loader.fetch_cpu_ratio >= LATENCY_CPU_RATIO
            share = max(1.0, host.usable_cpus / facts.ranks_on(host.name)) if computing else math.inf
            able = loader.workers if math.isnan(share) else min(loader.workers, share)
            able_per_s = able / loader.fetch_s
        loader_line = in_own_language(
            "loader-audited",
            name=info.name,
            role=info.role,
            made_at=loader.made_at or None,
            loader_class=info.class_name,
            dataset_class=info.dataset_class,
            samples=info.dataset_length,
            batch=info.batch_size,
            workers=loader.workers,
            start_method=info.start_method or None,
            fetch_s=loader.fetch_s,
            able_per_s=able_per_s,
        )
        head.append(f"  {loader_line}")
    return head


def _paragraphs(advice: Advice) -> list[str]:
    named = ", ".join(part for part in (advice.loader, advice.where) if part)
    head = in_own_language(
        "advice-titled", severity=advice.severity, check=advice.check, where=named or None, what=advice.what
    )
    lines = [fill(head, _WIDTH)]
    for label, text in (("why", advice.why), ("change", advice.change)):
        lines.append(
            fill(
                in_own_language("labelled", label=label, text=text),
                _WIDTH,
                initial_indent="  ",
                subsequent_indent="    ",
                break_on_hyphens=False,
            )
        )
    return lines

"""``loaderwatch doctor``: what is wrong with the configuration of a script, before it trains, or of a run."""

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
from loaderwatch.core.answers import Advice, RunRow
from loaderwatch.core.clock import monotonic_ns
from loaderwatch.core.errors import ConfigError
from loaderwatch.core.language import own_language
from loaderwatch.detect.limits import LATENCY_CPU_RATIO
from loaderwatch.detect.text import count
from loaderwatch.detect.translation import in_language
from loaderwatch.server.recordings.recording import windows
from loaderwatch.server.window.replay import rebuild
from loaderwatch.streamer.samplers.host import HostSampler
from loaderwatch.texts.formats import duration, rate

_WIDTH = 100
_LAUNCHER = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")  # what torchrun sets
_ABOUT = """Audits a configuration. Of a SCRIPT: runs it, without training, up to the first batch of its training loader,
reads a few samples as a worker would, and says what will cost time, fail or hang. Of a RUN (its id or name): the same
from what is known of it. Exit code 0: nothing to change; 1: a warning or worse, or the script failed; 2: wrong usage."""


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    parser.description = _ABOUT
    parser.usage = "loaderwatch doctor [options] SCRIPT [ARGS...] | -m MODULE [ARGS...] | RUN"
    parser.add_argument("-m", dest="module", action="store_true", help="the target is a module's name")
    parser.add_argument(
        "--ranks",
        type=_count,
        default=None,
        metavar="N",
        help="run the script as N ranks on this machine, with torchrun's environment",
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=120.0,
        metavar="SECONDS",
        help="how long the script may take to come to its training loader (default 120)",
    )
    add_data_dir(parser)
    parser.add_argument("--json", action="store_true", help="print the advice as JSON")
    parser.add_argument("target", metavar="SCRIPT | MODULE | RUN")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS", help="the script's own")


def _count(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if not 1 <= number <= 64:
        raise argparse.ArgumentTypeError(f"it is {text!r}; use a number of ranks, 1 to 64")
    return number


def run(args: argparse.Namespace) -> int:
    """Print the advice, the worst first; return 1 if any of it is a warning or worse, else 0.

    Raises:
        ConfigError: there is no such script or run.
        ScriptFailed: the script did not get to a training loader.
    """
    script = Path(args.target).expanduser()
    if args.module or (is_file(script) and script.suffix not in FILES):
        found, lines = _of_script(args)
    elif is_folder(script):
        raise ConfigError(f"{args.target} is a folder; name the script in it, or a module with -m")
    elif script.suffix in FILES and not is_file(script):
        raise ConfigError(f"there is no file {args.target}")
    elif args.arguments or args.ranks is not None:
        raise ConfigError(f"there is no file {args.target}; name a script, or a module with -m")
    else:
        found, lines = _of_run(args.target, args.data_dir)
    if args.json:
        print(json.dumps(msgspec.to_builtins(found), indent=2))
    else:
        print("\n".join(lines))
        for advice in in_language(found, own_language()):
            print("\n" + "\n".join(_paragraphs(advice)))
        if not found:
            print("\nNothing to change.")
    return 1 if any(advice.severity != "info" for advice in found) else 0


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
                    title = source.title
            return audit(facts_of(window)), [title]
    except NoSuchRun as error:
        raise ConfigError(f"there is no file {which}, and no such run: {error}") from None


def _title(row: RunRow) -> str:
    return f"{row.name} ({row.run_id}), {row.state}"


def _of_script(args: argparse.Namespace) -> tuple[list[Advice], list[str]]:
    command = [*(["-m"] if args.module else []), args.target, *args.arguments]
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM)
    )  # so that the script ends with us
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
    """Return a line on the option that was missing, where the error tells, else an empty text."""
    if args.ranks is None and ("env://" in ended or any(f"'{name}'" in ended for name in _LAUNCHER)):
        return "\nIt wants the environment of torchrun: loaderwatch doctor --ranks 2 (as many as you train with) ..."
    if ended.startswith("exit code") and not args.arguments:
        return f"\nIts arguments follow its name: loaderwatch doctor {args.target} ARGS"
    return ""


def _this_host() -> HostFacts:
    sampler = HostSampler()
    found = sampler.sample(os.getpid(), monotonic_ns())

    def now(name: str) -> float:
        value = found.get(name)
        return math.nan if value is None else value

    info = sampler.info("")
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
    """Return the lines that say what was looked at: the machine, and the loaders as they would train."""
    (host,) = facts.hosts.values()
    process = facts.processes[min(facts.processes)]
    usable = f"{host.usable_cpus:g} of {host.cpus} CPUs usable" if math.isfinite(host.usable_cpus) else ""
    head = [
        ", ".join(
            part for part in (target, usable, f"torch {process.torch}", f"Python {process.python}") if part
        )
    ]
    for loader in facts.loaders:
        if loader.rank != process.rank:
            continue
        info = loader.info
        parts = [f"{info.class_name} of {info.dataset_class}"]
        parts += [f"{info.dataset_length:,} samples"] if info.dataset_length is not None else []
        parts += [f"batch {info.batch_size}"] if info.batch_size is not None else []
        parts.append(
            count(loader.workers, "worker") + (f" by {info.start_method}" if info.start_method else "")
        )
        if math.isfinite(loader.fetch_s):
            parts.append(f"a batch takes about {duration(loader.fetch_s)} to load")
        if loader.workers and loader.fetch_s > 0:
            computing = loader.fetch_cpu_ratio >= LATENCY_CPU_RATIO
            share = max(1.0, host.usable_cpus / facts.ranks_on(host.name)) if computing else math.inf
            able = loader.workers if math.isnan(share) else min(loader.workers, share)
            parts.append(f"so up to about {rate(able / loader.fetch_s)} batches/s")
        line = f", {loader.made_at}" if loader.made_at else ""
        head.append(f"  {info.name} ({info.role}{line}): {', '.join(parts)}")
    return head


def _paragraphs(advice: Advice) -> list[str]:
    named = ", ".join(part for part in (advice.loader, advice.where) if part)
    where = f" ({named})" if named else ""
    lines = [fill(f"[{advice.severity}] {advice.check}{where}: {advice.what}", _WIDTH)]
    for label, text in (("Why", advice.why), ("Change", advice.change)):
        lines.append(
            fill(
                f"{label}: {text}",
                _WIDTH,
                initial_indent="  ",
                subsequent_indent="    ",
                break_on_hyphens=False,
            )
        )
    return lines

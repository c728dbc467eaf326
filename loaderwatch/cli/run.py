"""``loaderwatch run``: watches a training script without a change of its code."""

from __future__ import annotations

import argparse
import hashlib
import os
import secrets
import shutil
import stat
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from loaderwatch.agent.launcher.ondemand import python_path
from loaderwatch.agent.launcher.unwatched import hand_on
from loaderwatch.agent.process.identity import find_run, process_facts
from loaderwatch.agent.tuning.setting import take
from loaderwatch.cli.flags import duration, is_file
from loaderwatch.core import environment_variables as variables
from loaderwatch.core.config import load_settings
from loaderwatch.core.errors import ConfigError
from loaderwatch.core.facts import OutputFile
from loaderwatch.core.system import has_proc
from loaderwatch.texts import in_own_language

AFTER_S: Final = 600.0
PAUSE_S: Final = 10.0


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    parser.usage = "loaderwatch run [OPTIONS] SCRIPT [ARGS...] | -m MODULE [ARGS...] | -- COMMAND..."
    parser.add_argument("--name", default=None, metavar="NAME")
    parser.add_argument("--redact", action="store_true")
    parser.add_argument("--on-alert", default=None, metavar="CMD")
    parser.add_argument("--restart-on-hang", type=_restarts, default=0, metavar="N")
    parser.add_argument("--after", type=duration, default=None, metavar="TIME")
    parser.add_argument("--restart-pause", type=duration, default=None, metavar="TIME")
    parser.add_argument("--keep-output", action="store_true")
    parser.add_argument("--cached-batches", type=_batches, default=None, metavar="N")
    parser.add_argument("-m", dest="module", action="store_true")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="SCRIPT | MODULE | -- COMMAND")


def run(args: argparse.Namespace) -> int:
    """Become the script: Python runs it directly, so that no stack of it has our frames.

    With an option that needs a process beside the job, a child becomes the script.

    Raises:
        ConfigError: there is no such script or program, or an option is unusable.
    """
    environ = dict(os.environ)
    os.environ[variables.JOB.name] = secrets.token_hex(8)
    if args.name is not None:
        os.environ[variables.RUN.name] = args.name
    if args.cached_batches is not None:
        os.environ[variables.CACHED_BATCHES.name] = str(args.cached_batches)
    if args.redact:
        os.environ[variables.REDACT.name] = "1"
    os.environ["PYTHONPATH"] = python_path(os.environ.get("PYTHONPATH"))
    target = _target(args)
    setting = take(load_settings().tuned_path, _targets(args))
    if setting is not None:
        os.environ[variables.TUNED.name] = msgspec.json.encode(setting).decode()
        tuned = {"loader": setting.loader, "made_at": setting.made_at, "setting": str(setting)}
        print(in_own_language("starts-as-tuned", **tuned), file=sys.stderr)
    if args.keep_output:
        os.environ[variables.KEPT_OUTPUT.name] = msgspec.json.encode(_output_files()).decode()
    if args.restart_on_hang == 0 and (args.after, args.restart_pause) != (None, None):
        raise ConfigError("--after and --restart-pause say when to restart; --restart-on-hang N says that")
    if args.on_alert is not None or args.restart_on_hang:
        return _supervise(args, target, environ)
    _become(target)
    return 0


@dataclass(frozen=True)
class _Target:
    """What to execute; ``script`` is the name of the script or module, None for a command."""

    program: str
    argv: list[str]
    script: str | None


def _target(args: argparse.Namespace) -> _Target:
    command = list(args.command)
    if command[:1] == ["--"] and len(command) > 1:
        program = shutil.which(command[1])
        if program is None:
            raise ConfigError(f"there is no program {command[1]!r}")
        return _Target(program, command[1:], None)
    if not command or command == ["--"]:
        raise ConfigError("name a script, -m and a module, or -- and a command")
    if not args.module and not is_file(command[0]):
        raise ConfigError(f"there is no file {command[0]}; a command goes after --, a module after -m")
    argv = [sys.executable, *(["-m"] if args.module else []), *command]
    return _Target(sys.executable, argv, command[0] if args.module else Path(command[0]).name)


def _targets(args: argparse.Namespace) -> list[str]:
    """Return the possible keys of a kept setting: the script or module, or any file that a command names."""
    if args.module:
        return [f"-m {args.command[0]}"]
    return [str(Path(word).resolve()) for word in args.command if is_file(word)]


def _become(target: _Target) -> None:
    if target.script is not None:
        hand_on(target.script)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(target.program, target.argv)


def _output_files() -> list[OutputFile]:
    """Return the files of our stdout and stderr, which the job inherits.

    Raises:
        ConfigError: neither goes to a file.
    """
    files = {name: os.fstat(fd) for name, fd in (("stdout", 1), ("stderr", 2)) if _is_file(fd)}
    if not files:
        raise ConfigError(
            "--keep-output keeps what goes to a file, and stdout and stderr go to none; add > train.log 2>&1"
        )
    if len(files) == 2 and os.path.samestat(files["stdout"], files["stderr"]):
        files = {"output": files["stdout"]}
    return [
        OutputFile(
            name=name,
            path=os.readlink(f"/proc/self/fd/{2 if name == 'stderr' else 1}"),  # noqa: PTH115 - no file
            device=status.st_dev,
            inode=status.st_ino,
            size=status.st_size,
        )
        for name, status in files.items()
    ]


def _is_file(fd: int) -> bool:
    try:
        return stat.S_ISREG(os.fstat(fd).st_mode) and has_proc()
    except OSError:  # it is closed
        return False


def _supervise(args: argparse.Namespace, target: _Target, environ: dict[str, str]) -> int:
    if not has_proc():
        raise ConfigError(
            "--on-alert and --restart-on-hang need Linux; without them the job is watched here, too"
        )
    settings = load_settings()
    if settings.disabled:
        _become(target)  # nothing is watched, so there will be no alert
    if args.restart_on_hang and settings.run is None:
        settings = replace(settings, run=_name_of(target, redact=settings.redact))
        os.environ[variables.RUN.name] = str(settings.run)
    from loaderwatch.supervisor.supervise import Plan, supervise

    def become() -> None:
        os.environ.pop(variables.PAGE_TOKEN.name, None)  # the job only sends
        _become(target)

    return supervise(
        Plan(
            settings=settings,
            become=become,
            run_id=None if settings.run is None else find_run(settings.run).run_id,
            on_alert=args.on_alert,
            restarts=args.restart_on_hang,
            after_s=args.after or AFTER_S,
            first_pause_s=args.restart_pause or PAUSE_S,
            environ=environ,
        )
    )


def _name_of(target: _Target, *, redact: bool) -> str:
    """Return a run name that all starts of this job share: the script's, plus Slurm's job or this process."""
    facts = [os.environ["SLURM_JOB_ID"]] if "SLURM_JOB_ID" in os.environ else process_facts(os.getpid())
    mark = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:8]
    script = target.script or next((word for word in target.argv if word.endswith(".py")), target.argv[0])
    return f"{'run' if redact else Path(script).stem}-{mark}"


def _batches(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 100_000:
        raise argparse.ArgumentTypeError(f"it is {text!r}; use how many batches, 1 to 100000")
    return int(text)


def _restarts(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"it is {text!r}; use how often at most, 1 to 1000")
    return int(text)

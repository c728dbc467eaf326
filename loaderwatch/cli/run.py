"""``loaderwatch run``: watches a training script without a change of its code."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from loaderwatch.agent.launcher.ondemand import python_path
from loaderwatch.agent.launcher.unwatched import hand_on
from loaderwatch.core.errors import ConfigError

_ABOUT = """Runs a script, module or command with every DataLoader attached from its first iteration on, as
loaderwatch.attach() does. A command (after --) may be any launcher: torchrun, accelerate, srun, a shell script. The exit
code is the script's own."""


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    parser.description = _ABOUT
    parser.usage = (
        "loaderwatch run [--name NAME] [--redact] SCRIPT [ARGS...] | -m MODULE [ARGS...] | -- COMMAND..."
    )
    parser.add_argument("--name", default=None, metavar="NAME", help="the run's name (LOADERWATCH_RUN)")
    parser.add_argument(
        "--redact",
        action="store_true",
        help="replace paths, arguments and messages before anything leaves this host (LOADERWATCH_REDACT)",
    )
    parser.add_argument("-m", dest="module", action="store_true", help="the target is a module's name")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="SCRIPT | MODULE | -- COMMAND")


def run(args: argparse.Namespace) -> int:
    """Become the script: Python itself runs it, so that no frame of ours is below its own.

    Raises:
        ConfigError: there is no such script or program.
    """
    command = list(args.command)
    if args.name is not None:
        os.environ["LOADERWATCH_RUN"] = args.name
    if args.redact:
        os.environ["LOADERWATCH_REDACT"] = "1"
    os.environ["PYTHONPATH"] = python_path(os.environ.get("PYTHONPATH"))
    if command[:1] == ["--"] and len(command) > 1:
        program = shutil.which(command[1])
        if program is None:
            raise ConfigError(f"there is no program {command[1]!r}")
        _become(program, command[1:])
    if not command or command == ["--"]:
        raise ConfigError("name a script, -m and a module, or -- and a command")
    if not args.module and not Path(command[0]).is_file():
        raise ConfigError(f"there is no file {command[0]}; a command goes after --, a module after -m")
    hand_on(command[0] if args.module else Path(command[0]).name)
    _become(sys.executable, [sys.executable, *(["-m"] if args.module else []), *command])
    return 0


def _become(program: str, argv: list[str]) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(program, argv)

"""``loaderwatch stacks``: what a run's processes execute now, or in which lines its lost time goes."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Final

import msgspec

from loaderwatch.cli.flags import add_data_dir, path, seconds
from loaderwatch.cli.profile_files import collapsed, speedscope
from loaderwatch.cli.profile_lines import profile_lines, why_empty
from loaderwatch.cli.profile_source import PARTS, heaviest_profile
from loaderwatch.cli.recordings.export import CannotWrite
from loaderwatch.cli.run_source import open_run, pick
from loaderwatch.core.answers import Param, Profile, Stack
from loaderwatch.core.client import Client, ServerError, find_server
from loaderwatch.core.errors import ConfigError, LoaderwatchError
from loaderwatch.core.printable import one_line
from loaderwatch.supervisor.restart import in_order, process_of, stacks_text, taken_clock
from loaderwatch.texts import in_own_language

_FORBIDDEN: Final = 403
_OF_PROFILE: Final = ("of", "json", "format", "output")
"""Options that need ``--profile``."""


class NoStacks(LoaderwatchError):
    """No stack arrived."""


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    parser.add_argument("which", metavar="RUN")
    parser.add_argument("--rank", type=_rank, default=None, metavar="R")
    parser.add_argument("--within", type=seconds, default=10.0, metavar="SECONDS")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--of", choices=PARTS)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true")
    form.add_argument("--format", choices=("collapsed", "speedscope"))
    parser.add_argument("--output", type=path, metavar="FILE")
    add_data_dir(parser)


def run(args: argparse.Namespace) -> int:
    """Print the stacks that arrived, or the profile, and return the exit code.

    Raises:
        ConfigError: an option needs another one.
        NoStacks: there is no process to ask, or none answered; or the profile has no stack.
        CannotWrite: the file of the profile cannot be written.
        NoSuchRun, ServerError: the server does not know the run, or refuses.
    """
    if args.profile:
        return _profile(args)
    if without := [f"--{name}" for name in _OF_PROFILE if getattr(args, name)]:
        raise ConfigError(f"{without[0]} is an option of --profile: add --profile")
    client = find_server(args.data_dir, "owner")
    if client is None:
        raise NoStacks(
            "no server is up, so nobody can ask a run for its stacks; a run that trains starts one"
        )
    row = pick(client.runs(), args.which)
    stacks, missing = _take(client, row.run_id, args.rank, args.within)
    if not stacks and not missing:
        of_rank = "" if args.rank is None else f"; it has {row.world_size} ranks, the first is 0"
        raise NoStacks(f"nobody is there to be asked: the run {row.run_id} is {row.state}{of_rank}")
    if not stacks:
        raise NoStacks(
            f"nothing of {row.run_id} has come within {args.within:g} s:"
            f" its streamer is not heard (the run is {row.state}); --within waits longer"
        )
    print(stacks_text(stacks))
    for stack in in_order(missing):
        when: dict[str, Param] = {"within_s": args.within, "taken_at": taken_clock(stack)}
        print("\n" + in_own_language("stack-not-answered", **process_of(stack), **when))
    return 0 if any(stack.text for stack in stacks) else 1


def _profile(args: argparse.Namespace) -> int:
    if args.output and not args.format:
        raise ConfigError("--output needs --format: collapsed or speedscope")
    parts = (args.of,) if args.of else PARTS
    with open_run(args.which, args.data_dir) as source:
        profile = heaviest_profile(source, parts, args.rank)
    if profile is None or not (profile.samples or args.json):
        raise NoStacks(why_empty(*(parts[0], 0) if profile is None else (profile.of, profile.unread)))
    if args.json:
        print(json.dumps(msgspec.to_builtins(profile), indent=2))
    elif args.format:
        _export(profile, source.run_id, args.format, args.output)
    else:
        print("\n".join(profile_lines(profile)))
    return 0


def _export(profile: Profile, run_id: str, form: str, file: Path | None) -> None:
    text = collapsed(profile) if form == "collapsed" else speedscope(profile, run_id)
    if file is None:
        print(text, end="")
        return
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CannotWrite(f"{file} cannot be written: {error.strerror or error}") from error
    print(in_own_language("profile-written", file=str(file), samples=profile.samples))


def _take(client: Client, run_id: str, rank: int | None, within_s: float) -> tuple[list[Stack], list[Stack]]:
    try:
        return client.fresh_stacks(run_id, rank, within_s)
    except ServerError as error:
        if error.status != _FORBIDDEN:
            raise
        raise NoStacks(
            f"{client.url} takes this only from its owner ({one_line(error.reason)});"
            " set LOADERWATCH_PAGE_TOKEN to the owner's token, which is in the token.json of that server"
        ) from None
    except OSError as error:
        raise NoStacks(f"{client.url} has not answered ({error}); try again") from None


def _rank(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"it is {text!r}; use a rank's number, from 0")
    return int(text)

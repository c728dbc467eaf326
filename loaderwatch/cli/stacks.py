"""``loaderwatch stacks``: what every process of a run is executing now, without stopping it."""

from __future__ import annotations

import argparse
from typing import Final

from loaderwatch.cli.flags import add_data_dir, seconds
from loaderwatch.cli.run_source import pick
from loaderwatch.core.answers import Param, Stack
from loaderwatch.core.client import Client, ServerError, find_server
from loaderwatch.core.errors import LoaderwatchError
from loaderwatch.core.printable import one_line
from loaderwatch.supervisor.restart import in_order, process_of, stacks_text, taken_clock
from loaderwatch.texts import in_own_language

_FORBIDDEN: Final = 403


class NoStacks(LoaderwatchError):
    """No stack arrived."""


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    parser.add_argument("which", metavar="RUN")
    parser.add_argument("--rank", type=_rank, default=None, metavar="R")
    parser.add_argument("--within", type=seconds, default=10.0, metavar="SECONDS")
    add_data_dir(parser)


def run(args: argparse.Namespace) -> int:
    """Print the stacks that arrived, and return the exit code.

    Raises:
        NoStacks: there is no process to ask, or none answered.
        NoSuchRun, ServerError: the server does not know the run, or refuses.
    """
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

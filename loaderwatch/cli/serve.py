"""``loaderwatch serve``: the server of the page."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from typing import Final

from loaderwatch.cli.flags import add_data_dir, add_hang_after, path, port
from loaderwatch.cli.parser import CommandParser
from loaderwatch.core import environment_variables as variables
from loaderwatch.core.config import Settings, load_settings
from loaderwatch.core.errors import ConfigError
from loaderwatch.core.printable import without_tokens
from loaderwatch.server.config_file import ServeOptions, remembered
from loaderwatch.server.process import serve

LEAST_TOKEN: Final = 16  # characters
STARTERS: Final = ("run", "demo")
"""Programs that start a server. Its output goes to a log, and they print the page's address themselves."""


def prepare_parser(parser: CommandParser) -> None:
    """Add the command's arguments to its parser."""
    parser.params = {
        "default_port": variables.DEFAULT_PORT,
        "idle_hours": variables.IDLE_HOURS.default,
        "password_variable": variables.CLICKHOUSE_PASSWORD.name,
    }
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=port, default=None)
    add_data_dir(parser)
    access = parser.add_mutually_exclusive_group()
    access.add_argument("--token", default=None)
    access.add_argument("--no-auth", action="store_true")
    parser.add_argument("--allow-host", action="append", default=[], metavar="NAME")
    parser.add_argument("--public-url", type=_url, default=None, metavar="URL")
    parser.add_argument("--ssl-certfile", type=path, default=None, metavar="FILE")
    parser.add_argument("--ssl-keyfile", type=path, default=None, metavar="FILE")
    parser.add_argument("--notify", action="append", default=[], metavar="URL")
    parser.add_argument("--store", default=None, metavar="URL")
    parser.add_argument("--advertise", type=_url, default=None, metavar="URL")
    parser.add_argument("--retain-days", type=_days, default=None, metavar="N")
    add_hang_after(parser)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--idle-hours", type=_hours, default=None, metavar="N")
    parser.add_argument("--started-by", choices=STARTERS, default=None, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT, and return the exit code."""
    os.umask(0o077)  # runs hold paths and stacks of this user's code

    def say(text: str) -> None:
        # A starter sends the server's output to a log; people get the address from the job or the demo.
        print(without_tokens(text) if args.resume or args.started_by else text, flush=True)

    serve(_options(args), say=say)
    return 0


def _options(args: argparse.Namespace) -> ServeOptions:
    settings = load_settings()
    data_dir = args.data_dir or settings.data_dir
    remembered_options = remembered(data_dir) if args.resume else None
    if remembered_options is not None:
        # The job that restarts the server sends with its own LOADERWATCH_TOKEN.
        return (
            remembered_options
            if remembered_options.no_auth or remembered_options.token
            else replace(remembered_options, token=_usable(*_given_token(None, settings.token)))
        )
    if args.advertise is not None and args.store is None:
        raise ConfigError(
            "--advertise says where other servers of the same database find this one: give --store, too"
        )
    return ServeOptions(
        data_dir=data_dir,
        host=args.host,
        port=args.port,
        token=None if args.no_auth else _usable(*_given_token(args.token, settings.token)),
        agent_token=_usable(variables.AGENT_TOKEN.name, settings.agent_token),
        no_auth=args.no_auth,
        allow_hosts=tuple(args.allow_host),
        public_url=args.public_url,
        notify=_notify(args, settings),
        retain_days=args.retain_days,
        store=args.store,
        advertise=args.advertise,
        ssl_certfile=args.ssl_certfile,
        ssl_keyfile=args.ssl_keyfile,
        hang_after_s=args.hang_after,
        idle_hours=_idle_hours(args),
        started_by=args.started_by or "hand",
    )


def _notify(args: argparse.Namespace, settings: Settings) -> tuple[str, ...]:
    """Return the addresses for messages of every run. A starting run's variable is for that run only."""
    given = tuple(address for text in args.notify for address in variables.ADDRESSES.parse(text, "--notify"))
    return given or (() if args.started_by else settings.notify)


def _idle_hours(args: argparse.Namespace) -> float | None:
    hours: float | None = args.idle_hours
    if hours is None and args.started_by == "run":
        hours = variables.IDLE_HOURS.read()
    return hours or None


def _given_token(given: str | None, from_environ: str | None) -> tuple[str, str | None]:
    return ("--token", given) if given is not None else (variables.TOKEN.name, from_environ)


def _usable(name: str, token: str | None) -> str | None:
    if token is not None and len(token) < LEAST_TOKEN:
        raise ConfigError(
            f"{name} has {len(token)} characters, which can be guessed; use {LEAST_TOKEN} or more,"
            " such as what `openssl rand -hex 24` prints"
        )
    return None if token is None else variables.TOKEN_TEXT.parse(token, name)


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError(f"{text!r} is not an address such as https://loaderwatch.example")
    return text.rstrip("/")


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days") from None
    if not days > 0:
        raise argparse.ArgumentTypeError(f"{text} is not a number of days above 0")
    return days


def _hours(text: str) -> float:
    """Return the unused hours after which the server leaves; with 0 it stays forever.

    Raises:
        argparse.ArgumentTypeError: the text is not a number of hours.
    """
    try:
        return variables.HOURS.parse(text, "it")
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None

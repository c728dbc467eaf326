"""``loaderwatch serve``: the server of the page."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from typing import Final

from loaderwatch.cli.flags import add_data_dir, add_hang_after, path, port
from loaderwatch.core import environment_variables as variables
from loaderwatch.core.config import Settings, load_settings
from loaderwatch.core.errors import ConfigError
from loaderwatch.core.printable import without_tokens
from loaderwatch.server.options import ServeOptions, remembered
from loaderwatch.server.process import serve

LEAST_TOKEN: Final = 16  # characters
STARTERS: Final = ("run", "demo")
"""Who starts a server whose output goes to a log, and then says where the page is."""


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1: this machine only)"
    )
    parser.add_argument(
        "--port",
        type=port,
        default=None,
        help=f"port (default {variables.DEFAULT_PORT}, or a free one when that is taken; 0: any free one)",
    )
    add_data_dir(parser)
    access = parser.add_mutually_exclusive_group()
    access.add_argument(
        "--token",
        default=None,
        help="a token that may do everything, beside the three in DIR/token.json (default LOADERWATCH_TOKEN)",
    )
    access.add_argument(
        "--no-auth",
        action="store_true",
        help="let everyone in who can reach the port: only behind your own gate",
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="another name people or trainers use for this server; may repeat",
    )
    parser.add_argument(
        "--public-url",
        type=_url,
        default=None,
        metavar="URL",
        help="address to write into alerts, when people reach the page by another one than this machine's",
    )
    parser.add_argument(
        "--ssl-certfile",
        type=path,
        default=None,
        metavar="FILE",
        help="serve over TLS with this certificate (PEM, with the chain up to a CA after it)",
    )
    parser.add_argument(
        "--ssl-keyfile", type=path, default=None, metavar="FILE", help="its private key (PEM, not encrypted)"
    )
    parser.add_argument(
        "--notify",
        action="append",
        default=[],
        metavar="URL",
        help="send the alerts of all runs there (an Apprise URL: Slack, e-mail, webhook, …); may repeat (default"
        " LOADERWATCH_NOTIFY, else the notify key of DIR/config.toml; other users see this option in ps)",
    )
    parser.add_argument(
        "--store",
        default=None,
        metavar="URL",
        help="keep runs in ClickHouse, clickhouse://user@host:8123/database (clickhouses:// for TLS), password from"
        f" {variables.CLICKHOUSE_PASSWORD.name} or ?password_file=PATH (default: DuckDB files in DIR)",
    )
    parser.add_argument(
        "--advertise",
        type=_url,
        default=None,
        metavar="URL",
        help="address other servers use for this server",
    )
    parser.add_argument(
        "--retain-days",
        type=_days,
        default=None,
        metavar="N",
        help="delete runs that nobody has sent to for N days (default: keep)",
    )
    add_hang_after(parser, "the least time without any progress that counts as a hang (default 30)")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on as the server of this directory that was killed was asked to (a training job that misses its "
        "server does so); the other options count when there was none",
    )
    parser.add_argument(
        "--idle-hours",
        type=_hours,
        default=None,
        metavar="N",
        help="leave when no run has reported and nobody has looked for N hours (default: stay; a server that a run starts:"
        f" LOADERWATCH_IDLE_HOURS, or {variables.IDLE_HOURS.default:g}); 0: stay",
    )
    parser.add_argument("--started-by", choices=STARTERS, default=None, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT, and return the exit code."""
    os.umask(0o077)  # runs hold paths and stacks of this user's code

    def say(text: str) -> None:
        # A starter sends the server's output to a log; people get the address from the job, or the demo.
        print(without_tokens(text) if args.resume or args.started_by else text, flush=True)

    serve(_options(args), say=say)
    return 0


def _options(args: argparse.Namespace) -> ServeOptions:
    settings = load_settings()
    data_dir = args.data_dir or settings.data_dir
    before = remembered(data_dir) if args.resume else None
    if before is not None:
        # The job that starts it again sends with its own LOADERWATCH_TOKEN.
        return (
            before
            if before.no_auth or before.token
            else replace(before, token=_usable(*_given_token(None, settings.token)))
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
    """Return the addresses to tell of every run. The variable of a run that starts the server is about that run alone."""
    given = tuple(address for one in args.notify for address in variables.ADDRESSES.parse(one, "--notify"))
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
            f"{name} has {len(token)} characters, which can be guessed; use {LEAST_TOKEN} or more, such as what"
            " `openssl rand -hex 24` prints"
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
    """Return the hours without anybody after which the server leaves; with 0 it stays for ever.

    Raises:
        argparse.ArgumentTypeError: the text is no number of hours.
    """
    try:
        return variables.HOURS.parse(text, "it")
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None

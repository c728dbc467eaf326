"""``loaderwatch notify test``: sends a message to each address that gets alerts."""

from __future__ import annotations

import argparse
import socket
import sys
from pathlib import Path

from loaderwatch.cli.flags import add_data_dir
from loaderwatch.core import environment_variables as variables
from loaderwatch.core.config import DataDir, load_settings
from loaderwatch.core.errors import ConfigError
from loaderwatch.core.message import Text
from loaderwatch.core.printable import one_line
from loaderwatch.server.alerts.channel import Message, Target, label
from loaderwatch.server.config_file import is_open_to_others, read_config
from loaderwatch.texts import in_own_language, own_language, say


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the command's only action and its arguments to the parser."""
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    test = actions.add_parser("test", help="")
    test.add_argument("addresses", nargs="*", metavar="ADDRESS")
    add_data_dir(test)


def run(args: argparse.Namespace) -> int:
    """Send the messages, print a line per address, and return the exit code.

    Raises:
        ConfigError: an address or ``config.toml`` is unusable, or there is no address.
    """
    settings = load_settings()
    path = DataDir(args.data_dir or settings.data_dir).config_path
    source, addresses = _addresses(args.addresses, settings.notify, path)
    targets = [Target(address, source) for address in addresses]
    if source == str(path) and is_open_to_others(path):
        print(in_own_language("keys-are-open", file=str(path)), file=sys.stderr)
    title, body = (
        say(Text("notify-test", {"host": socket.gethostname()}, part), own_language())
        for part in ("title", "body")
    )
    failed = 0
    for number, (address, target) in enumerate(zip(addresses, targets, strict=True), 1):
        why = target.send(Message("info", title, body))
        failed += why is not None
        result_line = in_own_language(
            "notify-tested",
            number=number,
            address=label(address),
            source=source,
            why=None if why is None else one_line(say(why, own_language())),
        )
        print(result_line, flush=True)
    return 1 if failed else 0


def _addresses(given: list[str], from_environ: tuple[str, ...], path: Path) -> tuple[str, tuple[str, ...]]:
    """Return the addresses and their source."""
    named = tuple(address for one in given for address in variables.ADDRESSES.parse(one, "ADDRESS"))
    if named:
        return "ADDRESS", named
    config = read_config(path)  # an unusable file is reported even if the variable takes precedence
    if from_environ:
        return variables.NOTIFY.name, from_environ
    if config.notify.named:
        return str(path), tuple(one.address for one in config.notify.named)
    raise ConfigError(
        f'there is no address to notify; write notify = "slack://…" into {path}, or set LOADERWATCH_NOTIFY,'
        " or pass attach(notify=…) (https://github.com/caronc/apprise/wiki lists the addresses)"
    )

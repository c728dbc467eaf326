"""``loaderwatch config``: the value of each setting and its source."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Final, NamedTuple

from loaderwatch.cli.parser import CommandParser
from loaderwatch.core import environment_variables as variables
from loaderwatch.core.config import DataDir, find_data_dir
from loaderwatch.core.errors import ConfigError
from loaderwatch.core.printable import one_line
from loaderwatch.server.config_file import read_config
from loaderwatch.texts import own_language

Value = str | int | float | None

_SET: Final = "set"


class Setting(NamedTuple):
    """The value of one setting as shown to people, and its source. None: it has no value."""

    name: str
    value: Value
    source: str  # "environment", "config.toml" or "default"
    error: str | None = None  # why the value is unusable


def prepare_parser(parser: CommandParser) -> None:
    """Add the command's argument to its parser."""
    parser.add_argument("--json", action="store_true")


def run(args: argparse.Namespace) -> int:
    """Print the settings, then the error of each unusable value; return the exit code."""
    settings = [_setting(variable) for variable in variables.VARIABLES if not variable.is_internal]
    if args.json:
        print(json.dumps([setting._asdict() for setting in settings], indent=2))
    else:
        print("\n".join(_table(settings)))
    errors = dict.fromkeys(setting.error for setting in settings if setting.error is not None)
    for error in errors:
        print(f"loaderwatch: {error}", file=sys.stderr)
    return 2 if errors else 0


def _setting(variable: variables.Variable[object]) -> Setting:
    source = "environment" if os.environ.get(variable.name) else "default"
    if variable.config_key is not None:
        try:
            is_in_file = _is_in_file()
        except ConfigError as error:
            return Setting(variable.name, None, "config.toml", str(error))
        if is_in_file and source == "default":
            return Setting(variable.name, _SET, "config.toml")
    try:
        value = _default(variable) if source == "default" else variable.read()
        return Setting(variable.name, _shown(variable, value), source)
    except ConfigError as error:
        return Setting(variable.name, None, source, str(error))


def _is_in_file() -> bool:
    """Whether ``config.toml`` has addresses to notify: ``notify`` is its only key.

    Raises:
        ConfigError: the file is unusable.
    """
    folder, _ = find_data_dir()
    return bool(read_config(DataDir(folder).config_path).notify.named)


def _default(variable: variables.Variable[object]) -> object:
    """Return the default, also if it depends on this machine."""
    if variable is variables.DIR:
        return find_data_dir()[0]
    return own_language() if variable is variables.LANGUAGE else variable.default


def _shown(variable: variables.Variable[object], value: object) -> Value:
    """Return a value as shown to people: a secret is "set", and a server's address has no password."""
    if variable.value_type.is_secret:
        return _SET if value else None
    if value is None or isinstance(value, int | float):
        return value
    return variables.without_login(str(value))


def _table(settings: list[Setting]) -> list[str]:
    rows = [("SETTING", "VALUE", "SOURCE")]
    rows += [(setting.name, _cell(setting), setting.source) for setting in settings]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return [f"{name:{widths[0]}}  {value:{widths[1]}}  {source}" for name, value, source in rows]


def _cell(setting: Setting) -> str:
    if setting.error is not None:
        return "wrong"
    if isinstance(setting.value, bool):
        return "on" if setting.value else "off"
    if isinstance(setting.value, float):
        return f"{setting.value:g}"
    return "unset" if setting.value is None else one_line(str(setting.value))

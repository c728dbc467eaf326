"""The LOADERWATCH_* environment variables: one row for each, with its type, its default and its effect.

All code reads these variables through their rows. docs/configuration.md and ``loaderwatch config`` are made
from the rows. Every Python process that a watched script starts imports this module, so it imports little.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Generic, TypeVar

from loaderwatch.core.errors import ConfigError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

PREFIX: Final = "LOADERWATCH_"
DEFAULT_PORT: Final = 8790
"""The port of a server without a given port."""
_MOST_DIGITS: Final = 15
"""Maximum digits of a whole number: a petabyte in bytes has 16."""
_SHOWN_CHARACTERS: Final = 100
"""Maximum characters of a wrong value that an error shows."""
_BETWEEN_ADDRESSES: Final = r"(?i)[\s,;]+(?=[a-z0-9]+://)"
_ADDRESS: Final = r"(?i)[a-z0-9]+://\S"


class ValueType(Generic[T_co]):
    """A type of values, with its parser. Options, arguments and ``config.toml`` use the same parsers."""

    def __init__(
        self, name: str, allowed: str, parse: Callable[[str], T_co], *, is_secret: bool = False
    ) -> None:
        self.name = name
        self.allowed = allowed  # follows "use" in an error
        self.is_secret = is_secret
        self._parse = parse  # raises ValueError with the reason, which does not contain the value

    def parse(self, text: str, name: str) -> T_co:
        """Return the value of the setting ``name`` from its text.

        Raises:
            ConfigError: the text cannot be used. It names setting, text (unless secret) and allowed values.
        """
        try:
            return self._parse(text)
        except ValueError as error:
            reason = str(error)
            if not self.is_secret:
                shown = repr(without_login(text)[:_SHOWN_CHARACTERS])
                reason = f"is {shown}: {reason}" if reason else f"is {shown}"
            raise ConfigError(f"{name} {reason}; use {self.allowed}") from None


class Variable(Generic[T]):
    """An environment variable."""

    def __init__(
        self,
        name: str,
        value_type: ValueType[T],
        default: T,
        meaning: str,
        *,
        read_by: str,
        default_text: str = "",
        config_key: str | None = None,
        is_internal: bool = False,
    ) -> None:
        self.name = name
        self.value_type = value_type
        self.default = default
        self.meaning = meaning  # one sentence, Markdown
        self.read_by = read_by  # the parts of loaderwatch
        self.default_text = default_text  # the default in words, where ``default`` does not show it
        self.config_key = config_key  # the key in ``config.toml`` that counts if the variable is missing
        self.is_internal = is_internal  # set by loaderwatch or its tests, not by a person

    def read(self, environ: Mapping[str, str] | None = None) -> T:
        """Return the value in an environment, by default this process's. Without a value, the default counts.

        Raises:
            ConfigError: the value cannot be used.
        """
        text = (os.environ if environ is None else environ).get(self.name)
        return self.value_type.parse(text, self.name) if text else self.default

    def take(self) -> T:
        """Return the value and remove the variable, so no child process inherits it.

        Raises:
            ConfigError: the value cannot be used.
        """
        value = self.read()
        os.environ.pop(self.name, None)
        return value


def _flag(text: str) -> bool:
    return text != "0"


def _url(text: str) -> str:
    from urllib.parse import urlsplit  # not imported above: most processes have no URL to check

    try:
        parts = urlsplit(text)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is above 65535 or not a number
        is_usable = False
    if not is_usable:
        raise ValueError
    return text.rstrip("/")


def _token(text: str) -> str:
    """Return a token that a request can carry: visible Latin-1 characters, with spaces only between them."""
    if text.isprintable() and text == text.strip() and max(text, default="") <= "\xff":
        return text
    raise ValueError("has a character that cannot be sent in a request")


def _addresses(text: str) -> tuple[str, ...]:
    """Return the addresses, separated as Apprise itself separates them.

    The server checks an address with Apprise only when it sends: importing Apprise takes 0.25 s.
    """
    text = text.strip(" \t\r\n,;")
    addresses = tuple(re.split(_BETWEEN_ADDRESSES, text)) if text else ()
    for number, address in enumerate(addresses, 1):
        if not re.match(_ADDRESS, address):
            raise ValueError("has no scheme" + (f" in address {number}" if len(addresses) > 1 else ""))
    return addresses


def _folder(text: str) -> Path:
    try:
        return Path(text).expanduser().absolute()
    except (OSError, RuntimeError) as error:  # the working folder was removed, or the user does not exist
        raise ValueError(getattr(error, "strerror", None) or str(error)) from None


def _hours(text: str) -> float:
    try:
        hours = float(text)
    except ValueError:
        hours = -1.0
    if not 0 <= hours < math.inf:
        raise ValueError
    return hours


def _language(text: str) -> str:
    return "zh" if text.lower().startswith("zh") else "en"


def _whole_number(unit: str, *, least: int) -> ValueType[int]:
    def parse(text: str) -> int:
        if not text.isdecimal() or len(text) > _MOST_DIGITS or int(text) < least:
            raise ValueError
        return int(text)

    return ValueType(f"number of {unit}", f"a whole number of {unit}, {least} or more", parse)


TEXT: Final = ValueType("text", "any text", str)
FLAG: Final = ValueType("flag", "1 (on) or 0 (off); any other text is on, too", _flag)
URL: Final = ValueType("URL", f"a URL such as http://127.0.0.1:{DEFAULT_PORT}", _url)
TOKEN_TEXT: Final = ValueType(
    "token", "letters and digits, such as what `openssl rand -hex 24` prints", _token, is_secret=True
)
PASSWORD: Final = ValueType("password", "any text", str, is_secret=True)
ADDRESSES: Final = ValueType(
    "addresses",
    "an Apprise address such as json://host/path or slack://…"
    " (https://github.com/caronc/apprise/wiki lists them)",
    _addresses,
    is_secret=True,
)
FILE: Final = ValueType("file", "the path of a file", str)
FOLDER: Final = ValueType("folder", "an absolute path", _folder)
HOURS: Final = ValueType("number of hours", "a number of hours, such as 4, or 0 for never", _hours)
LANGUAGE_TAG: Final = ValueType(
    "language", "zh for Chinese; any other language stands for English", _language
)
JSON: Final = ValueType("JSON", "JSON", str)

# ---- set by a person

SERVER: Final = Variable[str | None](
    "LOADERWATCH_SERVER",
    URL,
    None,
    "The address of the server to send runs to and to read runs from.",
    read_by="training process, streamer, commands",
    default_text="the server of this machine",
)
TOKEN: Final = Variable[str | None](
    "LOADERWATCH_TOKEN",
    TOKEN_TEXT,
    None,
    "A token of that server; a training job needs the agent token. `loaderwatch serve` gives its owner this"
    " token.",
    read_by="training process, streamer, commands, server",
    default_text="for the server of this machine, `token.json`",
)
AGENT_TOKEN: Final = Variable[str | None](
    "LOADERWATCH_AGENT_TOKEN",
    TOKEN_TEXT,
    None,
    "One more token with which training jobs may send to this server, for jobs that cannot get the one in"
    " `token.json`.",
    read_by="server",
    default_text="only `token.json`",
)
PAGE_TOKEN: Final = Variable[str | None](
    "LOADERWATCH_PAGE_TOKEN",
    TOKEN_TEXT,
    None,
    "The viewer or owner token of the server, for what reads there: `runs`, `analyze`, `stacks`,"
    " `run --on-alert`.",
    read_by="commands",
    default_text="`LOADERWATCH_TOKEN`",
)
CA_FILE: Final = Variable[str | None](
    "LOADERWATCH_CA_FILE",
    FILE,
    None,
    "CA certificates (PEM) to trust for https servers, in addition to those of the system.",
    read_by="streamer, commands, server",
    default_text="only those of the system",
)
RUN: Final = Variable[str | None](
    "LOADERWATCH_RUN",
    TEXT,
    None,
    "The name of the run, the same on all ranks.",
    read_by="training process, commands",
    default_text="the job of the launcher, else the script's name",
)
DIR: Final = Variable[Path | None](
    "LOADERWATCH_DIR",
    FOLDER,
    None,
    "The folder for recorded runs, logs, tokens and data that waits for the server.",
    read_by="all parts",
    default_text="your data folder for applications; if it cannot be written, `loaderwatch-<uid>` in the"
    " folder for temporary files",
)
OUTBOX_BYTES: Final = Variable(
    "LOADERWATCH_OUTBOX_BYTES",
    _whole_number("bytes", least=1),
    256 * 2**20,
    "How much data may wait on disk for the server. Beyond that the oldest data is dropped, and the page"
    " shows how much.",
    read_by="streamer",
    default_text="268435456 (256 MiB)",
)
IDLE_HOURS: Final = Variable(
    "LOADERWATCH_IDLE_HOURS",
    HOURS,
    4.0,
    "Hours without a report or a visitor after which a server that a run started ends. 0: never.",
    read_by="server",
)
CLICKHOUSE_PASSWORD: Final = Variable(
    "LOADERWATCH_CLICKHOUSE_PASSWORD",
    PASSWORD,
    "",
    "The password of the database of `serve --store clickhouse://…`.",
    read_by="server",
    default_text="none",
)
NOTIFY: Final = Variable[tuple[str, ...]](
    "LOADERWATCH_NOTIFY",
    ADDRESSES,
    (),
    "Apprise addresses, separated by spaces or commas, that get the alerts: of the run, or of all runs for"
    " `loaderwatch serve`.",
    read_by="training process, server, commands",
    default_text="none",
    config_key="notify",
)
CACHED_BATCHES: Final = Variable(
    "LOADERWATCH_CACHED_BATCHES",
    _whole_number("batches", least=0),
    0,
    "Training loaders repeat their first batches, this many, as with `run --cached-batches`. 0: off.",
    read_by="training process",
)
REDACT: Final = Variable(
    "LOADERWATCH_REDACT",
    FLAG,
    False,
    "Paths, arguments and messages are replaced before anything leaves this host.",
    read_by="training process, streamer",
)
LANGUAGE: Final = Variable[str | None](
    "LOADERWATCH_LANGUAGE",
    LANGUAGE_TAG,
    None,
    "The language of the terminal and of messages. The page asks the browser.",
    read_by="training process, streamer, server, commands",
    default_text="the locale's, else `en`",
)
DISABLE: Final = Variable(
    "LOADERWATCH_DISABLE",
    FLAG,
    False,
    "`attach`, `phase` and all other calls do nothing.",
    read_by="training process",
)
READABLE: Final = Variable(
    "LOADERWATCH_READABLE",
    FLAG,
    False,
    "Where `kernel.yama.ptrace_scope` is 1, any process of this user may read the memory of the training"
    " processes, so that the streamer can sample their stacks without signals.",
    read_by="training process",
)
PLAIN: Final = Variable(
    "LOADERWATCH_PLAIN",
    FLAG,
    False,
    "The hooks run in Python instead of compiled C.",
    read_by="training process",
)

# ---- set by loaderwatch for its own processes

NO_STREAMER: Final = Variable(
    "LOADERWATCH_NO_STREAMER",
    FLAG,
    False,
    "No streamer is started: tests read the rings themselves.",
    read_by="training process",
    is_internal=True,
)
JOB: Final = Variable(
    "LOADERWATCH_JOB",
    TEXT,
    "",
    "A mark that all processes of one `loaderwatch run` share, so that each message is printed once.",
    read_by="training process",
    is_internal=True,
)
SCRIPT: Final = Variable(
    "LOADERWATCH_SCRIPT",
    TEXT,
    "",
    "`PID:NAME` of the script that `loaderwatch run` became. Processes that the script starts inherit it.",
    read_by="training process",
    is_internal=True,
)
RANK: Final = Variable(
    "LOADERWATCH_RANK",
    TEXT,
    "",
    "The pid of the process that a launcher started as a rank. Processes that the rank starts inherit it.",
    read_by="training process",
    is_internal=True,
)
KEPT_OUTPUT: Final = Variable(
    "LOADERWATCH_KEPT_OUTPUT",
    JSON,
    "[]",
    "The files that stdout and stderr of the job go to, for `run --keep-output`.",
    read_by="streamer",
    is_internal=True,
)
DOCTOR: Final = Variable(
    "LOADERWATCH_DOCTOR",
    TEXT,
    "",
    "`FOLDER:FD`: the folder for the report on a script, and a descriptor that closes when the command ends.",
    read_by="training process",
    is_internal=True,
)
DOCTOR_FOLDER: Final = Variable[Path | None](
    "LOADERWATCH_DOCTOR_FOLDER",
    FOLDER,
    None,
    "The same folder, for processes that the script starts.",
    read_by="training process",
    is_internal=True,
)
TUNE: Final = Variable[str | None](
    "LOADERWATCH_TUNE",
    JSON,
    None,
    "`TuneOptions`: the process tries settings of its training loader.",
    read_by="training process",
    is_internal=True,
)
TUNED: Final = Variable[str | None](
    "LOADERWATCH_TUNED",
    JSON,
    None,
    "`TunedSetting`: what `loaderwatch tune` found for one loader.",
    read_by="training process",
    is_internal=True,
)
DEMO_GPUS: Final = Variable[Path | None](
    "LOADERWATCH_DEMO_GPUS",
    FOLDER,
    None,
    "The folder in which the ranks of the demo say what their simulated GPUs do.",
    read_by="demo",
    is_internal=True,
)
NVML_SCRIPT: Final = Variable[str | None](
    "LOADERWATCH_NVML_SCRIPT",
    FILE,
    None,
    "The file that tells the demo's stand-in for NVIDIA's library what to show.",
    read_by="demo",
    is_internal=True,
)

VARIABLES: Final[tuple[Variable[object], ...]] = tuple(
    value for value in list(globals().values()) if isinstance(value, Variable)
)
"""All rows, in the order of this file."""


def without_login(url: str) -> str:
    """Return an address without its user and password, to be shown."""
    return re.sub("//[^/]*@", "//", url)


def without_ours(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the variables of loaderwatch."""
    return {name: value for name, value in environ.items() if not name.startswith(PREFIX)}

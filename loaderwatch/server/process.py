"""The server process: lock, port, tokens, the file ``server.json`` with its address, and a clean end."""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import socket
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, Final

import uvicorn

from loaderwatch.core.config import is_loopback
from loaderwatch.core.environment_variables import DEFAULT_PORT
from loaderwatch.core.errors import ConfigError, LoaderwatchError
from loaderwatch.core.files import NotPrivate, opener, private_folder, read_own, write_atomically
from loaderwatch.core.lock import HELD_FILES_STAY, try_lock
from loaderwatch.core.printable import log_to_stderr
from loaderwatch.core.server_file import ServerFile, read_server_file
from loaderwatch.core.system import pid_in_use
from loaderwatch.server.access.connection import Listener, Server, limit_log_lines, uvicorn_options
from loaderwatch.server.access.tokens import Tokens, load_tokens
from loaderwatch.server.app import create_app
from loaderwatch.server.config_file import ServeOptions, is_open_to_others, remember
from loaderwatch.server.services import Parts
from loaderwatch.server.store.clickhouse.address import parse_address
from loaderwatch.texts import in_own_language, say


def read_certificate(certfile: Path | None, keyfile: Path | None) -> str | None:
    """Return the server's own certificate as PEM; None for plain http.

    Raises:
        ConfigError: certificate or key is missing or unreadable, or they do not belong together.
    """
    if certfile is None and keyfile is None:
        return None
    if certfile is None or keyfile is None:
        raise ConfigError("--ssl-certfile and --ssl-keyfile go together; give both, or none for plain http")
    for option, path in (("--ssl-certfile", certfile), ("--ssl-keyfile", keyfile)):
        try:
            path.read_bytes()
        except OSError as error:
            raise ConfigError(f"{option} {path} cannot be read: {error.strerror}") from error
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certfile, keyfile, password=_no_password)
        return _first_certificate(certfile)
    except _Encrypted:
        raise ConfigError(
            f"--ssl-keyfile {keyfile} is encrypted; write it without a password,"
            f" e.g. with `openssl pkey -in {keyfile} -out FILE`"
        ) from None
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ConfigError(
                f"--ssl-keyfile {keyfile} is not the key of --ssl-certfile {certfile};"
                " name the two that were made together"
            ) from error
        raise ConfigError(
            f"--ssl-certfile {certfile} and --ssl-keyfile {keyfile} are not a certificate and its key in PEM"
            f" form ({error.reason or error})"
        ) from error
    except ValueError as error:
        raise ConfigError(f"--ssl-certfile {certfile} holds no certificate in PEM form ({error})") from error


class _Encrypted(Exception):
    pass


def _no_password() -> str:
    raise _Encrypted  # else OpenSSL would ask for the password on the terminal


def _first_certificate(certfile: Path) -> str:
    text = certfile.read_text(errors="replace")
    begin, end = ssl.PEM_HEADER, ssl.PEM_FOOTER
    pem = begin + text.partition(begin)[2].partition(end)[0] + end + "\n"
    ssl.PEM_cert_to_DER_cert(pem)
    return pem


_log = logging.getLogger(__name__)

_COLLECT_EVERY: Final = 50_000
"""Net new objects between two collections of cycles. With Python's 700 (2,000 since 3.13) the windows of
1,024 ranks, which hold no cycle, were searched 100 times a second: 7 % of the time, with pauses of 80 ms."""
_M_MMAP_THRESHOLD: Final = -3  # a constant of malloc.h
_GRACE_S: Final = 1  # for answers in progress when the server must stop
_LOOK_S: Final = 1  # between looks at server.json and token.json
LEAVING_S: Final = 20.0
"""The longest time a server takes to end; a streamer waits 30 s for the next one."""
_WILDCARDS: Final = ("0.0.0.0", "::", "")


class ServeError(LoaderwatchError):
    """The server cannot start."""


def serve(options: ServeOptions, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; call ``say`` once with the address for the person at the terminal.

    Raises:
        ConfigError: an option has an unusable value.
        ServeError: the data directory or the port is unusable, or another server uses it.
    """
    log_to_stderr("%(asctime)s %(levelname)s %(message)s")
    suit_many_ranks()
    certificate = read_certificate(options.ssl_certfile, options.ssl_keyfile)
    _prepare_directory(options)
    with _lock(options):
        tokens = _tokens(options)
        listener = _listen(options)
        with listener:
            port: int = listener.getsockname()[1]
            scheme = "http" if certificate is None else "https"
            name = socket.gethostname() if options.host in _WILDCARDS else _in_url(options.host)
            here = shown = _reachable_here(listener)
            # Another user may listen at some of a name's addresses. A certificate shows who answers.
            if certificate is not None:
                shown = name
                here = here if options.host in _WILDCARDS else name
            elif options.host in _WILDCARDS:
                shown = _shown_elsewhere(name, listener, here)
            local_url = f"{scheme}://{here}:{port}"
            app = create_app(
                options,
                tokens=tokens,
                url=options.public_url or f"{scheme}://{shown}:{port}",
                open_to_all=options.no_auth,
                reached_at=options.advertise or f"{scheme}://{name}:{port}",
                listens_at=f"{_in_url(listener.getsockname()[0])}:{port}",
            )
            server = _Server(app.state.parts, app, local_url, certificate, say)
            server.run(sockets=[listener])


class _Server(Server):
    """A server that keeps ``server.json`` while it listens, and ends its streams when it is told to stop."""

    def __init__(
        self, parts: Parts, app: Any, local_url: str, certificate: str | None, say: Callable[[str], None]
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_level="warning",
                access_log=False,
                lifespan="on",
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=_GRACE_S,
                timeout_keep_alive=30,
                backlog=1024,
                timeout_notify=_LOOK_S,
                callback_notify=self._look,
                ssl_certfile=parts.options.ssl_certfile,
                ssl_keyfile=parts.options.ssl_keyfile,
                **uvicorn_options(),
            )
        )
        limit_log_lines()  # after the options, which set up uvicorn's loggers
        self._parts = parts
        self._local_url = local_url
        self._certificate = certificate
        self._say = say
        self._said = ""
        parts.lifetime.end = self._end

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._say_where()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        options = self._parts.options
        options.server_path.unlink(missing_ok=True)
        options.remembered_path.unlink(missing_ok=True)
        self._parts.hub.close()
        if self._parts.handover is not None:
            await self._parts.handover.leave()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop without raising the signal again at the end, unlike uvicorn: the exit code is then 0."""
        if self.should_exit:
            self.force_exit = True
        self.should_exit = True

    def _end(self) -> None:
        self.should_exit = True

    @property
    def _tokens(self) -> Tokens | None:
        """The tokens that people and trainers need; None if everyone is let in."""
        return None if self._parts.options.no_auth else self._parts.keys.tokens

    async def _look(self) -> None:
        self._take_new_tokens()
        self._take_new_config()
        self._keep_where()
        self._parts.stored_windows.forget()
        self._leave_if_idle()

    def _leave_if_idle(self) -> None:
        """End if no run reported and no person looked for ``idle_hours``; the next run starts a server."""
        parts = self._parts
        if parts.hub.clients or parts.ingest_counts.open or parts.notifier.holds:
            parts.lifetime.seen()
        left_s = parts.lifetime.left_s()
        if left_s is not None and left_s <= 0 and not self.should_exit:
            _log.info(
                "no run has reported and nobody has looked for %s: this server leaves."
                " The next run starts it again, and so does loaderwatch serve;"
                " --idle-hours or LOADERWATCH_IDLE_HOURS sets the time (0: never)",
                say(parts.lifetime.idle),
            )
            self._end()

    def _take_new_tokens(self) -> None:
        """Use new tokens of the file from now on, and end the streams that old tokens opened."""
        parts = self._parts
        try:
            if parts.keys.reread(parts.options.token_path):
                parts.hub.cut()
                _log.warning(
                    "%s holds new tokens: the old ones are refused from now on", parts.options.token_path
                )
                self._write_where()
            self._said = ""
        except (ConfigError, OSError) as error:
            if str(error) != self._said:
                _log.error("new tokens are looked for again: %s", error)
            self._said = str(error)

    def _take_new_config(self) -> None:
        """Use the addresses of a changed ``config.toml``: no person restarts a server that a run started."""
        parts = self._parts
        path = parts.options.config_path
        try:
            if not parts.config.reread():
                return
        except ConfigError as error:
            _log.error("%s; what it said before goes on", error)
            return
        config = parts.config.config
        parts.notifier.replace(config.recipients(parts.options.notify), config.notify, str(path))
        _log.info("%s has changed and is used", path)
        self._warn_of_open_config()

    def _warn_of_open_config(self) -> None:
        path = self._parts.options.config_path
        if self._parts.config.config.notify.named and is_open_to_others(path):
            _log.warning("%s holds addresses with keys, and other users can read it: chmod 600 it", path)

    def _keep_where(self) -> None:
        """Write ``server.json`` again if it was removed or damaged; streamers find the server by it."""
        if read_server_file(self._parts.options.server_path) is not None:
            return
        try:
            self._write_where()
        except OSError:
            return  # the directory is missing or full; the next look tries again

    def _write_where(self) -> None:
        suffix = f"/?token={self._tokens.owner}" if self._tokens else "/"
        key = self._parts.keys.server_key
        where = ServerFile(self._local_url, os.getpid(), self._local_url + suffix, self._certificate, key)
        where.write(self._parts.options.server_path)

    def _say_where(self) -> None:
        options, tokens = self._parts.options, self._tokens
        self._write_where()
        self._warn_of_open_config()
        remember(options)
        page = self._parts.url + (f"/?token={tokens.page_token}" if tokens else "/")
        lines = [in_own_language("page-is-at", url=page)]
        if not is_loopback(options.host):
            encrypted = self._certificate is not None
            lines.append(in_own_language("others-reach-server", host=options.host, encrypted=encrypted))
            if tokens:
                agent = tokens.extra_agent or tokens.extra or tokens.agent
                url = options.public_url or self._parts.reached_at
                lines.append(in_own_language("trainers-elsewhere", url=url, token=agent))
        if self._parts.lifetime.idle_s is not None:
            lines.append(in_own_language("server-will-leave", idle=self._parts.lifetime.idle))
        if tokens is None:
            lines.append(in_own_language("everyone-is-let-in"))
        self._say("\n".join(lines))


def suit_many_ranks() -> None:
    """Set this interpreter and the C library to the needs of a server with a thousand ranks.

    glibc then takes every block of 64 KiB and more from the system and returns it when freed. By default it
    raises that limit to the largest freed block. The windows' arrays, which grow and are replaced all the
    time, then leave holes: with 1,024 ranks the process held twice the memory in use.
    """
    gc.set_threshold(_COLLECT_EVERY)
    if sys.platform.startswith("linux") and hasattr(libc := ctypes.CDLL(None), "mallopt"):  # musl has none
        libc.mallopt(_M_MMAP_THRESHOLD, 64 * 1024)


def _prepare_directory(options: ServeOptions) -> None:
    try:
        options.check_own()
        private_folder(options.runs_dir)
        options.check_own()  # the folder just created is ours, unless another user was quicker
        probe = options.data_dir / f".write-test-{os.getpid()}"
        os.close(opener(str(probe), os.O_WRONLY | os.O_CREAT))
        probe.unlink()
    except NotPrivate as error:
        raise ServeError(
            f"{error.filename} cannot hold tokens and runs: {error.strerror}; choose another with --data-dir"
        ) from error
    except OSError as error:
        raise ServeError(
            f"cannot write to the data directory {options.data_dir}: {error.strerror}; "
            "choose another with --data-dir"
        ) from error


@contextmanager
def _lock(options: ServeOptions) -> Iterator[None]:
    """Hold the lock of the data directory, which has one server because a DuckDB file has one writer."""
    try:
        descriptor = opener(str(options.lock_path), os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise ServeError(f"cannot open {options.lock_path}: {error.strerror}") from error
    try:
        if not _take(descriptor, LEAVING_S if options.started_by == "run" else 0.0):
            raise ServeError(
                f"a server for {options.data_dir} is already running{_other_server(options, descriptor)}; "
                "use that page, or end that server first to start one with other options"
            )
        with suppress(OSError):  # on a full disk the lock still holds
            os.ftruncate(descriptor, 0)
            os.lseek(descriptor, 0, os.SEEK_SET)
            os.write(descriptor, str(os.getpid()).encode())
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, patience_s: float) -> bool:
    """Take the lock; a server that a run starts may have to wait for one that is leaving."""
    give_up_at = time.monotonic() + patience_s
    while not try_lock(descriptor):
        if time.monotonic() >= give_up_at:
            return False
        time.sleep(0.1)
    return True


def _other_server(options: ServeOptions, lock: int) -> str:
    """Say where the holder of the lock is; "" if the holder has not written that yet."""
    if HELD_FILES_STAY:
        return ""  # on Windows a locked file cannot be read, and testing for a process would end it
    give_up_at = time.monotonic() + 1.0
    while True:
        os.lseek(lock, 0, os.SEEK_SET)
        holder = os.read(lock, 20).decode("ascii", "replace").strip()
        if holder.isdecimal() and pid_in_use(int(holder)):
            break
        if time.monotonic() > give_up_at:
            return ""  # the holder is on another machine, or its disk is full
        time.sleep(0.02)
    where = read_server_file(options.server_path)
    if where is not None and holder == str(where.pid):
        return f" at {where.url} (pid {where.pid})"
    return f" (pid {holder}, just starting)"


def _tokens(options: ServeOptions) -> Tokens:
    """Load the tokens, also with --no-auth: the server proves itself with them."""
    shared_key = None if options.store is None else parse_address(options.store).page_key
    try:
        tokens = load_tokens(options.token_path, options.token)
    except OSError as error:
        raise ServeError(f"cannot use {options.token_path}: {error.strerror}") from error
    return replace(tokens, extra_agent=options.agent_token, shared_key=shared_key)


def _listen(options: ServeOptions) -> socket.socket:
    """Open the listening socket: at the requested port, or the default, the last one, or any."""
    if options.resumed or (options.port is None and options.started_by == "run"):
        candidates = [*_last_port(options), DEFAULT_PORT, 0]
    elif options.port is None:
        candidates = [DEFAULT_PORT, *_last_port(options), 0]
    else:
        candidates = [options.port]
    failure: OSError | None = None
    for port in candidates:
        try:
            listener = _bind(options.host, port)
        except OSError as error:
            failure = error
            continue
        _remember_port(options, listener.getsockname()[1])
        return listener
    port = candidates[0]
    raise ServeError(
        f"cannot listen on {options.host} port {port}: {failure.strerror if failure else 'unknown'}; "
        "choose another with --host or --port"
    ) from failure


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as error:
        raise ConfigError(f"--host {host!r} is not an address of this machine: {error.strerror}") from error
    listener = Listener(family, kind, protocol)
    try:
        # On Windows SO_REUSEADDR would let two servers share a port; SO_EXCLUSIVEADDRUSE forbids that.
        alone = getattr(socket, "SO_EXCLUSIVEADDRUSE", None)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR if alone is None else alone, 1)
        listener.bind(address)
        listener.listen(1024)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def _last_port(options: ServeOptions) -> list[int]:
    """Return the last server's port, so that open pages find a restarted server again."""
    try:
        port = int(read_own(options.data_dir / "port"))
    except (OSError, ValueError):
        return []
    return [port] if 0 < port < 65536 else []


def _remember_port(options: ServeOptions, port: int) -> None:
    write_atomically(options.data_dir / "port", str(port).encode())


def _reachable_here(listener: socket.socket) -> str:
    """Return the numeric address, as in a URL, at which this machine reaches this socket and no other."""
    address: str = listener.getsockname()[0]
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(address) or _in_url(address)


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _shown_elsewhere(name: str, listener: socket.socket, here: str) -> str:
    """Return the host to print for a socket on all addresses: the machine's name if that is unambiguous."""
    try:
        addresses = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return name  # other machines may know it
    ours = [str(address[0]) for family, *_, address in addresses if family == listener.family]
    if len(ours) == len(addresses):
        return name
    # an address with a zone is known to this machine only
    ours = [host for host in ours if not (is_loopback(host) or "%" in host)]
    return _in_url(ours[0]) if ours else here

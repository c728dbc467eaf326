"""Checks the server's certificate and key before it listens."""

from __future__ import annotations

import ssl
from pathlib import Path

from loaderwatch.core.errors import ConfigError


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

"""Which servers are trusted over TLS: those the system trusts, those of a CA of one's own, and our own by its certificate."""

from __future__ import annotations

import os
import ssl
from typing import Final

CA_FILE: Final = "LOADERWATCH_CA_FILE"


def client_context(certificate: str | None = None) -> ssl.SSLContext:
    """How to check a server.

    Args:
        certificate: PEM of the very server meant, which its file in our own data directory says: no other is trusted,
            and its name does not matter. None: the system's CAs (or SSL_CERT_FILE) and those in LOADERWATCH_CA_FILE.

    Raises:
        OSError: LOADERWATCH_CA_FILE cannot be used.
    """
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # it need not be signed by itself
        context.load_verify_locations(cadata=certificate)
        return context
    context = ssl.create_default_context()
    ca_file = os.environ.get(CA_FILE)
    if ca_file:
        try:
            context.load_verify_locations(ca_file)
        except OSError as error:  # ssl.SSLError is one
            raise OSError(f"{CA_FILE}={ca_file} cannot be used: {error}") from error
    return context


def explain(error: Exception) -> str:
    """An error of a connection in words; of a certificate that is not trusted, with what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted here: {error.verify_message}; put the CA that signed it into a file and its"
            f" path into {CA_FILE}"
        )
    return str(error)

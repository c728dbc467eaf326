"""Writes the notification addresses of this run into a file for the server of the same data directory.

Addresses hold secrets: they enter no envelope, process argument or log, and only this user can read the file.
"""

from __future__ import annotations

import msgspec

from loaderwatch.agent.guard import in_own_language
from loaderwatch.agent.process.printed_once import say_once
from loaderwatch.agent.session import Session
from loaderwatch.core.files import check_own, private_folder, write_atomically


def leave_addresses(session: Session, given: tuple[str, ...] | None) -> None:
    """Write the addresses ``given`` to ``attach``, else those of LOADERWATCH_NOTIFY.

    Without any, an earlier run's file is removed. Only rank 0 writes. Later calls without any do nothing.
    """
    if session.info.rank != 0 or (given is None and session.addresses is not None):
        return
    session.addresses = session.settings.notify if given is None else given
    _hide_in_arguments(session, session.addresses)
    path = session.settings.notify_dir / f"{session.run.run_id}.json"
    try:
        if session.addresses:
            check_own(private_folder(path.parent))
            write_atomically(path, msgspec.json.encode(session.addresses))
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        why = str(error.strerror)
        say_once(in_own_language("addresses-not-written", folder=str(path.parent), why=why))


def _hide_in_arguments(session: Session, addresses: tuple[str, ...]) -> None:
    """Remove the addresses from the arguments that the page shows: scripts may receive them there."""
    argv = session.info.argv
    for address in addresses:
        argv = [argument.replace(address, f"{address.partition('://')[0]}://…") for argument in argv]
    if argv != session.info.argv:
        session.change(argv=argv)

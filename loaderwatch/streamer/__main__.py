"""``python -m loaderwatch.streamer --run-id ID --run-name NAME``: started by ``loaderwatch.attach``."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from loaderwatch.core.config import load_settings
from loaderwatch.core.errors import ConfigError
from loaderwatch.core.files import NotPrivate, own_folder, private_folder
from loaderwatch.core.low_priority_start import import_gently, lower_priority, restore_session
from loaderwatch.core.printable import log_to_stderr
from loaderwatch.core.system import raise_descriptor_limit
from loaderwatch.core.wire import RUN_ID_PATTERN
from loaderwatch.streamer.election import clear_away, elect
from loaderwatch.streamer.job_stderr import JobStderr
from loaderwatch.streamer.outbox.files import host_folder_name, ring_folder

MAX_FILES = 65_536
"""Descriptors that the streamer asks for: a host with 64 ranks and 128 workers needs 1,400."""


WITHIN_S: Final = 3.0
"""How long the active streamer starts at low priority: a worker's ring holds 512 batches, more are lost."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a streamer; return 0 when it is done or not needed, 2 for wrong arguments or settings."""
    parser = argparse.ArgumentParser(prog="python -m loaderwatch.streamer", description=__doc__)
    parser.add_argument("--run-id", required=True)
    parser.add_argument("--run-name", default="")
    parser.add_argument(
        "--adopt", action="store_true", help="send what an earlier streamer of this run left behind, then end"
    )
    parser.add_argument(
        "--standby", action="store_true", help="started by the active streamer, to take over when it dies"
    )
    parser.add_argument(
        "--left-by", default=host_folder_name(), help="the host whose outbox it is, if not this one"
    )
    parser.add_argument(
        "--job-stderr", type=int, default=None, metavar="FD", help="a descriptor: the job's stderr"
    )
    options = parser.parse_args(arguments)
    if not RUN_ID_PATTERN.match(options.run_id):
        parser.error(f"--run-id is {options.run_id!r}; use 1 to 64 of a-z 0-9 _ -")
    log_to_stderr("%(asctime)s streamer[%(process)d] %(levelname)s %(message)s")
    for name in ("SIGHUP", "SIGPIPE"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    raise_descriptor_limit(MAX_FILES)
    try:
        settings = load_settings()
    except ConfigError as error:
        logging.error("%s", error)
        return 2
    folder = ring_folder(settings, options.run_id, options.left_by)
    if options.standby and not folder.is_dir():
        return 0  # the run ended while this process started
    try:
        settings.check_own()
        with suppress(OSError):  # while the disk is full, envelopes wait in shared memory
            private_folder(settings.outbox_dir)
        settings.check_own()  # the folder just created is ours, unless another user was quicker
        # the name can be guessed, and we signal pids found in rings
        own_folder(own_folder(settings.rings_dir) / folder.name)
    except NotPrivate as error:
        logging.error(
            "%s is not read: %s. Set LOADERWATCH_DIR to another directory", error.filename, error.strerror
        )
        return 1
    except OSError as error:
        logging.error("%s cannot be made: %s", folder, error)
        return 1
    job_stderr = None if options.job_stderr is None else JobStderr(options.job_stderr)
    office = elect(folder, job_stderr.stand_by if job_stderr is not None else lambda: None)
    if office is None:
        return 0
    successor = office.inherited or options.standby
    if options.adopt:
        lower_priority()  # another run's leftovers are not urgent
    elif not successor:  # rings fill up while nobody drains them
        import_gently("loaderwatch.streamer.samplers.gpu", "loaderwatch.streamer.streamer", within_s=WITHIN_S)
    else:
        restore_session()
    from loaderwatch.streamer.streamer import Streamer  # not at import: a standby does not need it

    try:
        name = options.run_name or options.run_id
        return Streamer(
            settings,
            options.run_id,
            name,
            adopting=options.adopt,
            inherited=successor,
            host=options.left_by,
            job_stderr=job_stderr,
        ).run()
    finally:
        office.lock.release()
        clear_away(folder)


if __name__ == "__main__":
    sys.exit(main())

"""The README's pictures, from the running demo: ``python -m tests.browser.demo_pictures docs/images``."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from loaderwatch.core.client import Client, ServerError, find_own_server
from loaderwatch.core.config import DataDir
from loaderwatch.core.server_file import read_server_file
from tests.browser.shots import SIZES, take

RUN = "demo"
LIMIT_S = 240.0
MAX_BYTES = 300_000
WAIT_S = 3.0
"""Until every chart has its data: training, workers, server and browser share the machine."""


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Wait until ``condition`` holds.

    Raises:
        TimeoutError: it did not within ``LIMIT_S``.
    """
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {LIMIT_S:.0f} s")
        time.sleep(0.3)


def fires(client: Client, scenario: str) -> bool:
    """Whether the demo's run has an alert of this scenario right now."""
    try:
        findings = client.findings(RUN)
    except (ServerError, OSError):  # not there yet, or the demo is over: then this waits and says for what
        return False
    return any(finding.scenario == scenario and finding.state == "firing" for finding in findings)


def take_pictures(client: Client, page_url: str, out: Path) -> list[Path]:
    """Take each picture while what it shows is going on."""
    run = {"run": f"#/runs/{RUN}"}
    wait_for(lambda: fires(client, "S02"), "the act with too few workers")
    time.sleep(8)  # so that the charts show more of it
    files = take(page_url, out, run, {"wide": (1280, 1180)}, ("light",), full_page=False, wait_s=WAIT_S)
    wait_for(lambda: fires(client, "S28"), "the act with the epoch boundaries")
    files += take(page_url, out, run, {"wide": (1280, 1180)}, ("dark",), full_page=False, wait_s=WAIT_S)
    wait_for(lambda: fires(client, "S36"), "the act with the hang")
    findings = client.findings(RUN)
    rank = next(finding.rank for finding in findings if finding.scenario == "S36")
    hung = {"rank": f"#/runs/{RUN}/ranks/{rank}"}
    files += take(page_url, out, hung, {"wide": (1280, 800)}, ("dark",), full_page=False, wait_s=WAIT_S)
    files += take(page_url, out, run, {"phone": SIZES["phone"]}, ("light",), full_page=False, wait_s=WAIT_S)
    return files


def main() -> None:
    """Play the demo and store its pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    out: Path = parser.parse_args().out
    with tempfile.TemporaryDirectory(prefix="loaderwatch-pictures-") as folder:
        command = [sys.executable, "-m", "loaderwatch", "demo", "--exit", "--port", "0", "--data-dir", folder]
        environ = {name: value for name, value in os.environ.items() if not name.startswith("LOADERWATCH_")}
        demo = subprocess.Popen(command, env=environ, start_new_session=True)
        try:
            server_path = DataDir(Path(folder)).server_path
            found: list[Client] = []

            def is_up() -> bool:
                client = find_own_server(Path(folder), "viewer")
                if client is not None:
                    found.append(client)
                return bool(found)

            wait_for(is_up, "the demo's server")
            server = read_server_file(server_path)
            assert server is not None
            for file in take_pictures(found[0], server.page_url, out):
                size = file.stat().st_size
                print(
                    f"{file}: {size / 1000:.0f} kB"
                    f"{'' if size <= MAX_BYTES else ', more than the README should carry'}"
                )
        finally:
            demo.send_signal(signal.SIGINT)
            last_resort = threading.Timer(60, os.killpg, (demo.pid, signal.SIGKILL))
            last_resort.start()
            demo.wait()
            last_resort.cancel()


if __name__ == "__main__":
    main()

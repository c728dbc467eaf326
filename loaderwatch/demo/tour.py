"""The whole demo in the terminal: server, training run, and what was found."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import sys
import tempfile
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from PIL import Image
from sklearn.datasets import load_digits

from loaderwatch.core import environment_variables as variables
from loaderwatch.core.client import Client, find_own_server
from loaderwatch.core.config import DataDir
from loaderwatch.core.errors import LoaderwatchError
from loaderwatch.core.files import private_folder
from loaderwatch.demo import acts, processes, virtual_gpu
from loaderwatch.texts import in_own_language, own_language, say

SIDE = 32
"""Pixels of an image's edge. The digits are 8 x 8 and are enlarged, so that decoding takes work."""


def write_digits(folder: Path) -> int:
    """Write ``<class>/<index>.png`` under ``folder`` and return the number of images (1,797).

    Raises:
        OSError: the folder cannot be written.
    """
    bunch = load_digits()
    for index, (pixels, label) in enumerate(zip(bunch.images, bunch.target, strict=True)):
        path = folder / str(label) / f"{index:04}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        shades = (pixels * (255 / 16)).astype("uint8")
        Image.fromarray(shades).resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(path)
    return len(bunch.target)


RUN = "demo"
TRAINING_SCRIPT = Path(__file__).with_name("train.py")
START_LIMIT_S = 60.0
SETTLE_LIMIT_S = 30.0


class DemoError(LoaderwatchError):
    """A part of the demo did not start."""


def run(options: argparse.Namespace) -> int:
    """Play the demo and return its exit code: 0 if every act had the expected finding, else 1.

    Raises:
        ConfigError: a requested act does not exist.
        DemoError: a part of the demo did not start.
    """
    played = acts.acts_to_play(options.acts, fast=options.fast)
    previous_handler = signal.signal(signal.SIGTERM, _as_interrupt)
    umask = os.umask(0o077)  # like a server: images, logs and the ranks' files are only for this user
    try:
        with Tour(options) as tour:
            tour.play(played, fast=options.fast)
            return tour.close(keep=options.keep)
    except KeyboardInterrupt:
        print("\n" + in_own_language("demo-ended"), flush=True)
        raise
    except OSError as error:
        raise DemoError(str(error)) from error
    finally:
        os.umask(umask)
        signal.signal(signal.SIGTERM, previous_handler)


class Tour:
    """The demo's processes and folder. Leaving the block ends them and removes a temporary folder."""

    def __init__(self, options: argparse.Namespace) -> None:
        own: Path | None = options.data_dir or _default_folder()
        self._is_temporary = own is None
        self.folder = own or Path(tempfile.mkdtemp(prefix="loaderwatch-demo-"))
        self._places = DataDir(self.folder)
        ours = [self._places.logs_dir] if options.data_dir else [self.folder, self._places.logs_dir]
        for folder in (self.folder, self._places.logs_dir):
            private_folder(folder)
            if folder in ours:
                folder.chmod(0o700)  # an earlier demo may have left it open to others
        self._report = self.folder / "played.jsonl"
        self._report.unlink(missing_ok=True)
        (self.folder / "storage-answered").unlink(missing_ok=True)
        self._environ = _environ(self.folder)
        self._options = options
        self._server: processes.Group | None = None
        self._training: processes.Group | None = None
        self._client: Client | None = None

    def __enter__(self) -> Tour:
        try:
            self._client = self._start_server()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    @property
    def client(self) -> Client:
        """The client of the demo's server."""
        assert self._client is not None, "used outside its block"
        return self._client

    @property
    def page_url(self) -> str:
        """The address of the page for a person."""
        return self.client.page_url or self.client.url

    def play(self, played: Sequence[acts.Act], *, fast: bool) -> None:
        """Run the training through the acts and wait for its end.

        Raises:
            DemoError: the training run failed.
        """
        print(in_own_language("demo-page", url=self.page_url) + "\n", flush=True)
        if self._options.open:
            webbrowser.open(self.page_url)
        images = self.folder / "images"
        print(in_own_language("demo-images", images=write_digits(images), folder=str(images)), flush=True)
        simulation = virtual_gpu.prepare(self.folder / "gpu", ranks=2)
        print(say(simulation.notice, own_language()), flush=True)
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        command += [str(TRAINING_SCRIPT), "--images", str(images), "--report", str(self._report)]
        command += ["--fast"] * fast + ["--acts", *(act.key for act in played)]
        environ = {**self._environ, **simulation.environ, variables.RUN.name: RUN, "OMP_NUM_THREADS": "1"}
        self._training = processes.Group(command, environ)
        code = self._training.wait()
        if code != 0:
            raise DemoError(f"the training run ended with exit code {code}; what it said is above")

    def close(self, *, keep: bool) -> int:
        """Print what was found, keep the page up until Ctrl-C if ``keep``, and return the exit code."""
        results = self._results()
        print("\n" + acts.table(results), flush=True)
        if keep:
            print("\n" + in_own_language("demo-page-stays", url=self.page_url), flush=True)
            assert self._server is not None
            self._server.wait()
        return 0 if all(result.is_right for result in results) else 1

    def _results(self) -> list[acts.Outcome]:
        def is_over() -> bool:
            return all(run.state != "live" for run in self.client.runs())

        try:
            processes.wait_until(is_over, SETTLE_LIMIT_S, every_s=0.5)
            runs = self.client.runs()
            if not runs:
                raise DemoError(f"the server has no run; the streamer's log is in {self._places.logs_dir}")
            findings = self.client.findings(runs[0].run_id, language=own_language())
        except OSError as error:
            raise DemoError(f"{self.client.url} cannot be reached: {error}") from error
        return acts.outcomes(acts.read_played(self._report), findings)

    def _start_server(self) -> Client:
        self._places.server_path.unlink(missing_ok=True)
        port = self._options.port if self._options.port is not None else _free_port()
        command = [sys.executable, "-m", "loaderwatch", "serve", "--data-dir", str(self.folder)]
        command += ["--port", str(port), "--hang-after", str(acts.HANG_AFTER_S)]
        command += ["--started-by", "demo"]
        server = processes.Group(command, self._environ, self._places.logs_dir / "demo-server.log")
        self._server = server
        clients: list[Client] = []

        def is_up() -> bool:
            client = find_own_server(self.folder, "viewer")
            if client is not None:
                clients.append(client)
            return bool(clients) or server.exit_code() is not None

        processes.wait_until(is_up, START_LIMIT_S)
        if not clients:
            raise DemoError(f"the server did not come up:\n{server.last_words()}")
        return clients[0]

    def _end(self) -> None:
        if self._training is not None:
            self._training.end()
            processes.end_ranks(virtual_gpu.registered_pids(self.folder / "gpu"))
            processes.remove_rings(self._places.rings_dir)
        if self._server is not None:
            self._server.end()
        if self._is_temporary:
            shutil.rmtree(self.folder, ignore_errors=True)


def _as_interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _default_folder() -> Path | None:
    directory = variables.DIR.read()
    return None if directory is None else directory / "demo"


def _environ(folder: Path) -> dict[str, str]:
    """Return this environment with the demo's own data folder, without settings of other servers or runs."""
    return {
        **variables.without_ours(os.environ),
        variables.DIR.name: str(folder),
        variables.LANGUAGE.name: own_language(),
    }


def _free_port() -> int:
    """Return the default port if it is free, else any free port.

    Raises:
        DemoError: no port is free.
    """
    for port in (variables.DEFAULT_PORT, 0):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            bound: int = probe.getsockname()[1]
            return bound
    raise DemoError("no port is free on 127.0.0.1")

"""Alerts reach real webhooks from real trainings, whose server starts by itself without preparation."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from loaderwatch.core.config import load_settings
from loaderwatch.core.server_file import read_server_file
from loaderwatch.core.wire import CLOSING_NAME, Closing
from tests.fakes.serving import ServeProcess, wait_until
from tests.fakes.streaming import end_processes
from tests.fakes.webhook import Webhook

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc and at processes of Linux"),
]

SECRET = "S3CRET-of-the-webhook"

TRAINING = """
import os, sys, time
from pathlib import Path
import torch
from torch.utils.data import DataLoader, Dataset
import loaderwatch

RUN, SLOW_AT, SLEEP_S, STEPS, CRASH_AT, NOTIFY = sys.argv[1], *map(int, sys.argv[2:6]), sys.argv[6]

class Numbers(Dataset):
    def __len__(self):
        return 1_000_000
    def __getitem__(self, index):
        if index == SLOW_AT * 8:
            time.sleep(SLEEP_S)
        return torch.ones(4)

if __name__ == "__main__":
    loader = DataLoader(Numbers(), batch_size=8, num_workers=1)
    loaderwatch.attach(loader, run=RUN, notify=NOTIFY.split() or None)
    for step, batch in enumerate(loader, 1):
        time.sleep(0.02)
        held = Path(__file__).with_name(RUN + ".held").exists()
        if 0 < CRASH_AT <= step and not held:
            raise RuntimeError("of the user's own")
        if 0 < STEPS <= step and not held:
            break
"""


class Jobs:
    """Trainings on one data directory, and the server that they start."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data_dir = folder / "loaderwatch"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.script = folder / "train.py"
        self.script.write_text(TRAINING)

    def train(
        self, run: str, *, slow_at: int = -1, sleep_s: int = 0, steps: int = 0, crash_at: int = 0,
        notify: str = "", held: bool = False, launcher: tuple[str, ...] = (), **env: str,
    ) -> subprocess.Popen[bytes]:  # fmt: skip
        """Start a training; one that is held goes on beyond its steps until it is released."""
        if held:
            self._held(run).touch()
        environ = {k: v for k, v in os.environ.items() if not k.startswith("LOADERWATCH_")}
        stderr = (self.folder / f"{run}.err").open("wb")
        process = subprocess.Popen(
            [
                sys.executable,
                *launcher,
                self.script,
                run,
                *map(str, (slow_at, sleep_s, steps, crash_at)),
                notify,
            ],
            env={**environ, "LOADERWATCH_DIR": str(self.data_dir), **env},
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
        )
        stderr.close()
        self.processes.append(process)
        return process

    def _held(self, run: str) -> Path:
        return self.script.with_name(f"{run}.held")

    def release(self, run: str) -> None:
        self._held(run).unlink()

    def said(self, run: str) -> str:
        """What stands in the run's terminal."""
        return (self.folder / f"{run}.err").read_text()

    def end_of(self, job: subprocess.Popen[bytes], run: str, timeout_s: float = 120) -> str:
        """Wait for a training's end; return what stands in its terminal then."""
        job.wait(timeout_s)
        return self.said(run)

    def server_pid(self) -> int:
        where = read_server_file(self.data_dir / "server.json")
        return 0 if where is None else where.pid

    def closings(self) -> list[Closing]:
        """What the server says at the end of its runs, as their training processes would read it now."""
        paths = load_settings().rings_dir.rglob(CLOSING_NAME)
        return [msgspec.json.decode(path.read_bytes(), type=Closing) for path in paths]

    def logs(self) -> str:
        return "".join(path.read_text() for path in sorted((self.data_dir / "logs").glob("*.log")))

    def ours(self) -> list[Path]:
        """``/proc/PID`` of every process of this directory: trainings, workers, streamers, server."""
        mark = f"LOADERWATCH_DIR={self.data_dir}\0".encode()
        found = []
        for path in Path("/proc").iterdir():
            try:
                if path.name.isdecimal() and mark in (path / "environ").read_bytes():
                    found.append(path)
            except OSError:
                continue
        return found

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        end_processes(self.data_dir)


@pytest.fixture
def jobs(tmp_path: Path, data_dir: Path) -> Iterator[Jobs]:
    jobs = Jobs(tmp_path)
    assert jobs.data_dir == data_dir, "whose shared memory is removed after"
    try:
        yield jobs
    finally:
        jobs.end()


@contextmanager
def secret_hook() -> Iterator[tuple[Webhook, str]]:
    """A webhook, and an address of it with a secret in it."""
    with Webhook() as hook:
        yield hook, f"{hook.url}{SECRET}?-x-key={SECRET}"


def titles(hook: Webhook) -> list[str]:
    return [message["title"] for message in hook.messages]


def test_a_run_that_hangs_tells_the_address_of_attach(jobs: Jobs) -> None:
    """No server was prepared, and the address leaves no trace where others or the page could find it."""
    with secret_hook() as (hook, address):
        job = jobs.train("hanging", slow_at=100, sleep_s=600, notify=address)
        (message,) = hook.wait_for(1, 120)
        assert message["title"].startswith("Training hangs: worker 0")
        assert message["title"].endswith("(hanging)")
        assert message["type"] == "failure"
        given = jobs.data_dir / "notify" / "hanging.json"
        assert SECRET in given.read_text()
        assert given.stat().st_mode & 0o077 == 0
        ours = jobs.ours()
        assert str(jobs.server_pid()) in {path.name for path in ours}
        # The script was given it as an argument; nothing of ours has it.
        telling = [path for path in ours if SECRET.encode() in (path / "cmdline").read_bytes()]
        lines = [(path / "cmdline").read_bytes() for path in telling]
        assert all(str(jobs.script).encode() in line for line in lines), lines
        wait_until("the line in the terminal", lambda: "[hung] Training hangs" in jobs.said("hanging"))
        said = jobs.said("hanging")
        os.killpg(job.pid, signal.SIGKILL)
        end = hook.wait_for(2)[1]
        assert end["title"].startswith("Training process died, alert closed: Training hangs"), end
        wait_until("the file is gone", lambda: not given.exists(), 60)
    assert SECRET not in said
    holding = [
        path for path in jobs.data_dir.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()
    ]
    assert holding == []


def test_each_run_tells_its_own_addresses_and_the_file_those_of_all(jobs: Jobs) -> None:
    """The second run meets the server that the first one started; the file is written while that runs."""
    with secret_hook() as (first, one), secret_hook() as (second, two), Webhook() as everyone:
        waiting = jobs.train("first", LOADERWATCH_NOTIFY=one)
        wait_until("the server", jobs.server_pid, 60)
        config = jobs.data_dir / "config.toml"
        config.write_text(f'[notify]\nto = "{everyone.url}"\nsummary = true\n')
        config.chmod(0o600)
        wait_until("it is read", lambda: "config.toml has changed and is used" in jobs.logs(), 30)
        job = jobs.train(
            "second", crash_at=60, held=True, LOADERWATCH_NOTIFY=f"json://127.0.0.1:9/ {one}", notify=two
        )
        wait_until("its page is told", lambda: "loaderwatch: watching second" in jobs.said("second"))
        jobs.release("second")
        said = jobs.end_of(job, "second")
        assert "RuntimeError: of the user's own" in said
        summary = re.compile(r"Crashed: second, \d+ steps in ")
        for hook in (second, everyone):
            hook.wait_for(2)
            assert any("crashed" in title and "(second)" in title for title in titles(hook)), titles(hook)
            assert any(summary.match(title) for title in titles(hook)), titles(hook)
        assert first.messages == [], (
            "the variable was for the second run, too, but the argument takes its place"
        )
        assert waiting.poll() is None
        waiting.send_signal(signal.SIGKILL)
        wait_until("the first is told of itself", lambda: first.messages, 60)
        assert all("(first)" in title or "first" in title for title in titles(first)), titles(first)
        assert not [title for title in titles(second) if "first" in title]
    assert SECRET not in jobs.logs()


def test_the_last_lines_of_a_run_say_what_it_lost_and_what_to_change(jobs: Jobs) -> None:
    """Once for two ranks under torchrun, and before the terminal's prompt."""
    jobs.script.write_text(TRAINING.replace("return torch.ones(4)", "time.sleep(0.02); return torch.ones(4)"))
    job = jobs.train(
        "starving",
        steps=1,
        held=True,
        launcher=(
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node=2",
            "--no-python",
            sys.executable,
        ),
    )
    wait_until("it is known what it loses", lambda: any(closing.found for closing in jobs.closings()))
    jobs.release("starving")
    said = jobs.end_of(job, "starving")
    assert job.returncode == 0, said
    lines = [line for line in said.splitlines() if line.startswith("loaderwatch: ")]
    last = next(index for index, line in enumerate(lines) if "starving ended after" in line)
    assert re.match(r"loaderwatch: starving ended after \d+ steps in ", lines[last])
    assert lines[last].endswith(" %) lost")
    assert re.search(r" waits? for data \(", lines[last + 1])
    assert lines[last + 2].startswith("loaderwatch:   change first: Raise num_workers")
    assert lines[last + 2].endswith("/#/runs/starving")
    assert len(lines) == last + 3
    assert said.count("ended after") == 1


def test_a_server_elsewhere_takes_no_addresses_and_the_job_says_so(jobs: Jobs, tmp_path: Path) -> None:
    """An agent's token, which that server gave away, must not make it send anything anywhere."""
    with secret_hook() as (hook, address), ServeProcess(tmp_path / "elsewhere", "--port", "0") as server:
        access = server.start()
        job = jobs.train(
            "away",
            steps=1,
            held=True,
            notify=address,
            LOADERWATCH_SERVER=access.url,
            LOADERWATCH_TOKEN=access.agent,
        )
        nobody = "nobody will be told at the addresses of this run"
        wait_until("it is said", lambda: nobody in jobs.said("away"))
        jobs.release("away")
        said = jobs.end_of(job, "away")
        told = [line for line in said.splitlines() if nobody in line]
        assert len(told) == 1, said
        assert f"its server is not that of {jobs.data_dir}" in told[0]
        assert SECRET not in said
        wait_until("the file is gone", lambda: not (jobs.data_dir / "notify" / "away.json").exists(), 60)
        assert hook.messages == []
        _, output, _ = server.stop()
        assert SECRET not in output


def test_an_address_nobody_knows_is_said_on_the_jobs_stderr(jobs: Jobs) -> None:
    job = jobs.train("typo", steps=1, held=True, notify=f"slck://{SECRET}/b/c")
    unknown = "'slck://…' is not an address Apprise knows"
    wait_until("it is said", lambda: unknown in jobs.said("typo"))
    jobs.release("typo")
    said = jobs.end_of(job, "typo")
    told = [line for line in said.splitlines() if unknown in line]
    assert len(told) == 1, said
    assert SECRET not in said
    assert SECRET not in jobs.logs()


def test_serve_takes_the_variable_and_one_that_a_run_starts_does_not(jobs: Jobs, data_dir: Path) -> None:
    """The run hands its own over; else the next run on that server would tell the addresses of the first."""

    def notified(*arguments: str) -> Any:
        environ = {k: v for k, v in os.environ.items() if not k.startswith("LOADERWATCH_")}
        process = subprocess.Popen(
            [sys.executable, "-m", "loaderwatch", "serve", "--port", "0", *arguments],
            env={
                **environ,
                "LOADERWATCH_DIR": str(data_dir),
                "LOADERWATCH_NOTIFY": f"json://127.0.0.1:9/{SECRET}",
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            path = load_settings().remembered_path
            wait_until("it is up", path.exists, 60)
            return SECRET in path.read_text()
        finally:
            process.terminate()
            process.wait(60)

    assert notified() is True
    assert notified("--started-by", "run") is False

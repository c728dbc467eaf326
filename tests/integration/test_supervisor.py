"""``loaderwatch run`` as a parent of the job: exit codes, signals, restarts, commands; real processes."""

from __future__ import annotations

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.fakes.serving import Access, ServeProcess
from tests.fakes.streaming import end_processes
from tests.waiting import PATIENCE_S, wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux's /proc"),
]

FAILS_ONCE = """
import os, sys, time
from pathlib import Path
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    with Path(sys.argv[1], "began").open("a") as began:
        began.write(os.environ["TORCHELASTIC_RESTART_COUNT"] + " ")
    first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    dist.init_process_group("gloo")
    loader = DataLoader(TensorDataset(torch.arange(240.0)), batch_size=4, num_workers=1)
    for number, batch in enumerate(loader):
        time.sleep(0.02 if first else 0.25)
        if first and number == 30 and dist.get_rank() == 1:
            time.sleep(30)  # hangs, until something gives it up
            os._exit(1)
        dist.all_reduce(batch[0])
    dist.destroy_process_group()
"""

COUNTS_SIGNALS = """
import os, signal, sys, time
from pathlib import Path
counted = []
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, lambda n, frame: counted.append(signal.Signals(n).name))
Path(sys.argv[1]).write_text(str(os.getpid()))
while not counted:
    time.sleep(0.01)
time.sleep(1)  # a second one would come now
Path(sys.argv[2]).write_text(" ".join(counted))
sys.exit(7)
"""

TRAINING = """
import os, sys, time
from pathlib import Path
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    mark = Path(sys.argv[1], f"began-{os.environ['RANK']}")
    hangs = not mark.exists()
    mark.touch()
    dist.init_process_group("gloo")
    loader = DataLoader(TensorDataset(torch.arange(240.0)), batch_size=4, num_workers=1)
    for number, batch in enumerate(loader):
        time.sleep(0.02)
        if hangs and number == 30 and dist.get_rank() == 1:
            time.sleep(3600)
        dist.all_reduce(batch[0])
    os.write(1, f"finished {dist.get_rank()}\\n".encode())
    dist.destroy_process_group()
"""

HANGS = """
import sys, time
import torch
from torch.utils.data import DataLoader, Dataset

class Samples(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        if index == 200:
            time.sleep(3600)  # the sample that never comes
        return torch.zeros(4)

if __name__ == "__main__":
    with open(sys.argv[1], "a") as began:
        began.write("began ")
    for batch in DataLoader(Samples(), batch_size=4, num_workers=1):
        time.sleep(0.02)
"""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "loaderwatch", "run", *arguments]


def environ(data_dir: Path, **more: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LOADERWATCH_")}
    return {**clean, "LOADERWATCH_DIR": str(data_dir), "OMP_NUM_THREADS": "1", **more}


def supervised(
    data_dir: Path, *arguments: str, beside: str = "--on-alert"
) -> subprocess.CompletedProcess[str]:
    option = [beside, "true" if beside == "--on-alert" else "1"]
    return subprocess.run(
        command(*option, *arguments),
        env=environ(data_dir),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def started(data_dir: Path, *arguments: str, told: Path | None = None) -> subprocess.Popen[str]:
    with (told or Path(os.devnull)).open("ab") as stderr:
        return subprocess.Popen(
            command(*arguments),
            env=environ(data_dir),
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )


def states(*pids: int) -> list[str]:
    return [psutil.Process(pid).status() for pid in pids]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "job.py"
    path.write_text(COUNTS_SIGNALS)
    return path


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Access]:
    with ServeProcess(tmp_path / "data", "--port", "0", "--hang-after", "3") as process:
        yield process.start()
    end_processes(tmp_path / "data")


# -- the job ends as without us


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        ("raise SystemExit(0)", 0),
        ("raise SystemExit(3)", 3),
        ("raise ValueError('no data')", 1),
        ("import signal; signal.raise_signal(signal.SIGTERM)", -signal.SIGTERM),
        ("import signal; signal.raise_signal(signal.SIGKILL)", -signal.SIGKILL),
        ("import signal; signal.raise_signal(signal.SIGINT)", -signal.SIGINT),
        ("import os; os.abort()", -signal.SIGABRT),
    ],
)
def test_the_exit_code_is_the_jobs_own(tmp_path: Path, ends: str, code: int) -> None:
    (tmp_path / "job.py").write_text(f"print('out', flush=True)\n{ends}\n")
    done = supervised(tmp_path / "data", str(tmp_path / "job.py"))
    assert (done.returncode, done.stdout) == (code, "out\n")
    assert not [line for line in done.stderr.splitlines() if line.startswith("loaderwatch: the ")]


@pytest.mark.parametrize("option", ["--on-alert", "--restart-on-hang"])
def test_what_cannot_start_is_told_as_without_us(tmp_path: Path, option: str) -> None:
    done = supervised(tmp_path / "data", "--", "no-such-program", beside=option)
    assert (done.returncode, done.stderr) == (2, "loaderwatch: there is no program 'no-such-program'\n")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--restart-on-hang", "0"], "use how often at most, 1 to 1000"),
        (["--restart-on-hang", "2", "--after", "soon"], "use a time such as 30s, 10m or 2h"),
        (["--after", "10m"], "--after and --restart-pause say when to restart"),
    ],
)
def test_options_that_cannot_be_used_are_told(tmp_path: Path, options: list[str], told: str) -> None:
    done = subprocess.run(
        command(*options, "--", "true"),
        env=environ(tmp_path),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 2
    assert told in done.stderr


def test_a_line_tells_nothing_where_loaderwatch_is_disabled(tmp_path: Path) -> None:
    """Then no parent stays, either."""
    done = subprocess.run(
        command("--on-alert", "true", "--", "sh", "-c", "echo $PPID"),
        env={**environ(tmp_path), "LOADERWATCH_DISABLE": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{os.getpid()}\n", "")


# -- signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_reaches_the_job_once(tmp_path: Path, script: Path, number: signal.Signals) -> None:
    """Sent to the supervisor alone, and to the process group that people and schedulers know."""
    for send in (os.kill, os.killpg):
        pid_file, counted = tmp_path / f"pid-{send.__name__}", tmp_path / f"counted-{send.__name__}"
        process = started(tmp_path / "data", "--on-alert", "true", str(script), str(pid_file), str(counted))
        wait_until(
            "the job runs",
            lambda file=pid_file: file.exists() and file.read_text(),  # type: ignore[misc]
        )
        send(process.pid, number)
        output, told = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 7, (output, told)
        assert counted.read_text() == number.name


def test_a_terminals_key_reaches_the_job_once(tmp_path: Path, script: Path) -> None:
    pid, terminal = pty.fork()
    arguments = command("--on-alert", "true", str(script), str(tmp_path / "pid"), str(tmp_path / "counted"))
    if not pid:
        os.execve(sys.executable, arguments, environ(tmp_path / "data"))
    try:
        wait_until("the job runs", lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        os.write(terminal, b"\x03")
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 7
        assert (tmp_path / "counted").read_text() == "SIGINT"
    finally:
        os.close(terminal)


def test_ctrl_z_and_fg_of_a_shell_stop_both_and_let_both_go_on(tmp_path: Path) -> None:
    pid, terminal = pty.fork()
    if not pid:
        os.execve("/bin/bash", ["bash", "--norc", "-i"], {**environ(tmp_path / "data"), "PS1": "$ "})
    job = f"{shlex.join(command('--on-alert', 'true'))} -- sh -c 'sleep 3; exit 5'"
    began, stopped, code = tmp_path / "began", tmp_path / "stopped", tmp_path / "code"
    try:
        os.write(terminal, f"touch {began}; {job.replace('sleep', f'touch {began}-job; sleep')}\n".encode())
        wait_until("the job runs", Path(f"{began}-job").exists)
        os.write(terminal, b"\x1a")
        os.write(terminal, f"jobs > {stopped}\n".encode())
        wait_until("the shell says so", lambda: stopped.exists() and "Stopped" in stopped.read_text())
        os.write(terminal, f"fg; echo $? > {code}\n".encode())
        wait_until("it has ended", lambda: code.exists() and code.read_text())
        assert code.read_text() == "5\n"
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


def test_the_job_stops_and_goes_on_with_us(tmp_path: Path, script: Path) -> None:
    process = started(
        tmp_path / "data", "--on-alert", "true", str(script), str(tmp_path / "pid"), str(tmp_path / "counted")
    )
    wait_until("the job runs", lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    job = int((tmp_path / "pid").read_text())
    process.send_signal(signal.SIGTSTP)
    wait_until("both stand", lambda: states(process.pid, job) == ["stopped", "stopped"])
    process.send_signal(signal.SIGCONT)
    wait_until("both go on", lambda: "stopped" not in states(process.pid, job))
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 7


def test_what_nohup_ignores_stays_ignored(tmp_path: Path, script: Path) -> None:
    arguments = command("--on-alert", "true", str(script), str(tmp_path / "pid"), str(tmp_path / "counted"))
    process = subprocess.Popen(["nohup", *arguments], env=environ(tmp_path / "data"), start_new_session=True)
    wait_until("the job runs", lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    os.killpg(process.pid, signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 7
    assert (tmp_path / "counted").read_text() == "SIGTERM"


def test_a_job_whose_supervisor_is_killed_goes_on(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(
        "import sys, time, pathlib\n"
        f"pathlib.Path({str(tmp_path / 'began')!r}).touch()\n"
        f"while not pathlib.Path({str(tmp_path / 'killed')!r}).exists(): time.sleep(0.01)\n"
        "print('still here', flush=True)\n"
        f"pathlib.Path({str(tmp_path / 'ended')!r}).touch()\n"
    )
    process = started(tmp_path / "data", "--restart-on-hang", "3", str(tmp_path / "job.py"))
    wait_until("the job runs", (tmp_path / "began").exists)
    process.kill()
    process.wait(PATIENCE_S)
    (tmp_path / "killed").touch()
    output, _ = process.communicate(timeout=PATIENCE_S)  # until the job has closed its end
    assert output == "still here\n"
    assert (tmp_path / "ended").exists()


# -- hangs and alerts


def test_torchrun_hangs_is_started_again_and_finishes(tmp_path: Path, served: Access) -> None:
    (tmp_path / "train.py").write_text(TRAINING)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        command(
            *("--on-alert", f"cat >> {tmp_path / 'alerts'}"),
            *("--restart-on-hang", "2", "--after", "6s", "--restart-pause", "1s"),
            *("--", *torchrun, str(tmp_path / "train.py"), str(tmp_path)),
        ),
        env=environ(tmp_path / "data"),
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["finished 0", "finished 1"]
    assert done.stderr.count("the job is ended") == 1
    assert "loaderwatch: restart 1 of 2 in 1 s: the same command again" in done.stderr
    (row,) = served.get("/runs")
    assert (row["state"], row["attempts"]) == ("finished", 2)
    assert row["name"].startswith("train-")
    (recording,) = (tmp_path / "data" / "hangs").glob("*.lwrec")
    (stacks,) = (tmp_path / "data" / "hangs").glob("*.stacks.txt")
    assert "rank 1, training process" in stacks.read_text()
    assert f"saved {stacks}" in done.stderr
    analyzed = subprocess.run(
        [sys.executable, "-m", "loaderwatch", "analyze", str(recording), "--hang-after", "2"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert "rank 0 waits for rank 1 in `all_reduce` at " in " ".join(analyzed.stdout.split())
    alerts = [json.loads(line) for line in (tmp_path / "alerts").read_text().splitlines()]
    hangs = [(alert["event"], alert["run"]) for alert in alerts if alert["code"] == "hung"]
    # Ranks that start long after each other may be reported as well, and are over then.
    assert hangs == [("fires", row["run_id"]), ("resolved", row["run_id"])] * (len(hangs) // 2)
    assert hangs


def test_ranks_that_torchrun_starts_again_by_itself_are_left_to_it(tmp_path: Path, served: Access) -> None:
    """A hang that ended with the ranks is over, although the job and its command go on. It no longer counts.

    torchrun keeps its store over restarts, so a rank may find addresses of earlier ranks, with and without
    loaderwatch (torch 2.13, dynamic_rendezvous.py). An option makes it create a store for each restart.
    """
    (tmp_path / "train.py").write_text(FAILS_ONCE)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        command(
            *("--on-alert", f"cat >> {tmp_path / 'alerts'}", "--restart-on-hang", "3", "--after", "90s"),
            *("--", *torchrun, "--max-restarts", "2", str(tmp_path / "train.py"), str(tmp_path)),
        ),
        env=environ(tmp_path / "data", TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1"),
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    assert sorted((tmp_path / "began").read_text().split()) == ["0", "0", "1", "1"]
    assert "the job is ended" not in done.stderr
    assert "loaderwatch: restart" not in done.stderr
    alerts = [json.loads(line) for line in (tmp_path / "alerts").read_text().splitlines()]
    assert ("fires", "hung") in {(alert["event"], alert["code"]) for alert in alerts}, "there was one"
    (row,) = served.get("/runs")
    assert row["state"] == "finished"


@pytest.mark.usefixtures("served")
def test_a_job_that_hangs_each_time_is_left_alone_in_the_end(tmp_path: Path) -> None:
    told = tmp_path / "told"
    (tmp_path / "train.py").write_text(HANGS)
    process = started(
        tmp_path / "data",
        *("--name", "mine", "--restart-on-hang", "1", "--after", "5s", "--restart-pause", "1s"),
        *(str(tmp_path / "train.py"), str(tmp_path / "began")),
        told=told,
    )
    wait_until("it is left alone", lambda: "restarted as often as it may be" in told.read_text())
    assert process.poll() is None, told.read_text()
    assert (tmp_path / "began").read_text().split() == ["began"] * 2
    process.terminate()
    assert process.wait(PATIENCE_S) == -signal.SIGTERM
    assert process.stdout is not None
    process.stdout.close()  # the worker that hangs holds it open, as without us


@pytest.mark.usefixtures("served")
def test_who_stops_a_job_in_its_pause_stops_it_for_good(tmp_path: Path) -> None:
    told = tmp_path / "told"
    (tmp_path / "train.py").write_text(HANGS)
    process = started(
        tmp_path / "data",
        *("--name", "mine", "--restart-on-hang", "1", "--after", "5s", "--restart-pause", "1h"),
        *(str(tmp_path / "train.py"), str(tmp_path / "began")),
        told=told,
    )
    wait_until("it pauses", lambda: "restart 1 of 1" in told.read_text())
    began = time.monotonic()
    process.terminate()
    process.communicate(timeout=PATIENCE_S)
    assert time.monotonic() - began < PATIENCE_S
    assert process.returncode == -signal.SIGTERM
    assert (tmp_path / "began").read_text().split() == ["began"]


@pytest.mark.usefixtures("served")
def test_a_crash_is_told_after_the_jobs_end_and_a_command_that_fails_is_shown(tmp_path: Path) -> None:
    """Nothing is restarted, and the exit code is the job's own."""
    (tmp_path / "train.py").write_text(HANGS.replace("time.sleep(3600)", "raise OSError('no such sample')"))
    done = subprocess.run(
        command(
            *("--on-alert", f"cat >> {tmp_path / 'alerts'}; echo no such channel >&2; exit 9"),
            *("--restart-on-hang", "3", str(tmp_path / "train.py"), str(tmp_path / "began")),
        ),
        env=environ(tmp_path / "data"),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 1
    alerts = [json.loads(line) for line in (tmp_path / "alerts").read_text().splitlines()]
    (alert,) = [alert for alert in alerts if alert["code"] != "hung"]  # a worker that started slowly
    assert (alert["event"], alert["code"], alert["rank"]) == ("fires", "crashed", 0)
    assert "--on-alert" in done.stderr
    assert "failed with exit code 9: no such channel" in done.stderr
    assert (tmp_path / "began").read_text().split() == ["began"]


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    with suppress(psutil.Error):
        end_processes(tmp_path / "data")

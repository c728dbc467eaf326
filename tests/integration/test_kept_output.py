"""``loaderwatch run --keep-output``: a real crash is shown with the last lines of the job's output."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.serving import Access, ServeProcess, wait_until
from tests.fakes.streaming import end_processes
from tests.waiting import PATIENCE_S

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux's /proc"),
]

SCRIPT = """
import os, time
import torch
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    for number, batch in enumerate(DataLoader(TensorDataset(torch.arange(400.0)), batch_size=4)):
        time.sleep(0.02)
        print("step", number, flush=True)
        if number == 60:
            os.write(2, b"CUDA kernel errors might be reported later\\n")
            os.abort()
"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Access]:
    with ServeProcess(tmp_path / "data", "--port", "0") as process:
        yield process.start()
    end_processes(tmp_path / "data")


def crashed(tmp_path: Path, *options: str, log: Path) -> subprocess.CompletedProcess[bytes]:
    (tmp_path / "train.py").write_text(SCRIPT)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LOADERWATCH_")}
    with log.open("ab") as output:
        return subprocess.run(
            [
                sys.executable,
                "-m",
                "loaderwatch",
                "run",
                *options,
                "--keep-output",
                str(tmp_path / "train.py"),
            ],
            env={**clean, "LOADERWATCH_DIR": str(tmp_path / "data"), "LOADERWATCH_RUN": "mine"},
            stdout=output,
            stderr=output,
            timeout=PATIENCE_S,
        )


def evidence(served: Access) -> dict[str, str]:
    def found() -> dict[str, str] | None:
        if not any(row["run_id"] == "mine" for row in served.get("/runs")):
            return None
        crashes = [each for each in served.get("/runs/mine/findings") if each["code"] == "crashed"]
        return {each["label"]: each["value"] for each in crashes[0]["evidence"]} if crashes else None

    return wait_until("the crash is told", found)


def test_a_crash_without_a_word_is_shown_with_its_last_lines(tmp_path: Path, served: Access) -> None:
    log = tmp_path / "train.log"
    log.write_text("of the job before\n")
    done = crashed(tmp_path, log=log)
    assert done.returncode < 0
    lines = evidence(served)["last lines of its output"].splitlines()
    assert lines[-1] == "CUDA kernel errors might be reported later"
    assert lines[-2] == "step 60"
    assert len(lines) == 20
    analyzed = subprocess.run(
        [sys.executable, "-m", "loaderwatch", "analyze", "mine", "--data-dir", str(tmp_path / "data")],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert "      step 60\n      CUDA kernel errors might be reported later\n" in analyzed.stdout


def test_redacted_they_do_not_leave_the_host(tmp_path: Path, served: Access) -> None:
    crashed(tmp_path, "--redact", log=tmp_path / "train.log")
    assert [label for label in evidence(served) if "last lines" in label] == []


def test_output_that_goes_to_no_file_is_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "loaderwatch", "run", "--keep-output", "--", "true"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 2
    assert "add > train.log 2>&1" in done.stderr

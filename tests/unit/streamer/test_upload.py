"""Answers of servers, addresses, and the words on the job's stderr."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from loaderwatch.core.config import load_settings
from loaderwatch.core.facts import HostInfo
from loaderwatch.core.server_trust import Server, is_there
from loaderwatch.core.wire import RUN_ID_PATTERN, Envelope, encode, split
from loaderwatch.streamer import server_finder
from loaderwatch.streamer.job_stderr import MAX_NOTICE, write_stderr
from loaderwatch.streamer.outbox.files import StreamState, load_state, new_stream_name, save_state
from loaderwatch.streamer.outbox.outbox import Outbox
from loaderwatch.streamer.server_finder import ServerFinder
from loaderwatch.streamer.upload import Uploader, jittered, parse_retry_after
from loaderwatch.texts import say
from tests.fakes.receiver import TOKEN, Receiver
from tests.waiting import PATIENCE_S

NEEDS_PROC = pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux's /proc")


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, 0.0),
        ("2", 2.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("99999", 60.0),
        ("Wed, 21 Oct", 0.0),
        ("nan", 0.0),
        ("inf", 0.0),
    ],
)
def test_retry_after(value: str | None, seconds: float) -> None:
    """Bounded; a date is no number, and a wait for "nan" seconds would end at once."""
    assert parse_retry_after(value) == seconds


def test_jitter_stays_in_its_bounds() -> None:
    """Between half and all."""
    assert all(1 <= jittered(2.0) <= 2 for _ in range(100))


def test_a_configured_server_is_used_without_asking(data_dir: Path) -> None:
    """It may be down now and up later."""
    settings = load_settings(
        {"LOADERWATCH_SERVER": "http://gpu01:1/", "LOADERWATCH_TOKEN": "t", "LOADERWATCH_DIR": str(data_dir)}
    )
    assert ServerFinder(settings).find() == Server("http://gpu01:1", "t", page_url="http://gpu01:1")


@pytest.mark.parametrize(
    ("url", "redact", "said"),
    [
        ("http://gpu01:1", "", 1),
        ("http://10.0.0.7:1", "0", 1),
        ("http://gpu01:1", "1", 0),
        ("https://gpu01:1", "", 0),
        ("http://127.0.0.1:1", "", 0),
        ("http://[::1]:1", "", 0),
        ("http://localhost:1", "", 0),
    ],
)
def test_plain_http_to_another_machine_is_said_once(data_dir: Path, url: str, redact: str, said: int) -> None:
    """Stacks and paths travel in clear text there."""
    environ = {"LOADERWATCH_SERVER": url, "LOADERWATCH_DIR": str(data_dir), "LOADERWATCH_REDACT": redact}
    finder = ServerFinder(load_settings(environ))
    finder.find()
    finder.find()
    assert len(finder.troubles) == said
    assert all("https" in say(trouble) for trouble in finder.troubles)


def test_a_server_is_started_later_on_a_full_machine(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not delayed forever."""
    monkeypatch.setattr(server_finder, "machine_is_full", lambda: True)
    launched = []
    monkeypatch.setattr(ServerFinder, "_launch", lambda finder: launched.append(finder))
    finder = ServerFinder(load_settings({"LOADERWATCH_DIR": str(data_dir)}))
    assert finder.find() is None
    assert not launched
    monkeypatch.setattr(server_finder, "LATER_S", 0.0)
    late = ServerFinder(load_settings({"LOADERWATCH_DIR": str(data_dir)}))
    assert late.find() is None
    assert launched == [late]


def test_the_local_server_is_found_with_its_token(data_dir: Path) -> None:
    """Only while it answers, and proves that it knows the token."""
    data_dir.mkdir()
    settings = load_settings({"LOADERWATCH_DIR": str(data_dir)})
    finder = ServerFinder(settings, may_start=False)
    assert finder.find() is None
    settings.server_path.write_text("{")
    assert finder.find() is None
    with Receiver() as receiver:
        where = {"url": receiver.url, "viewer_url": receiver.url + "/?token=v", "pid": 1}
        settings.server_path.write_text(json.dumps(where))
        settings.token_path.write_text(json.dumps({"agent": "another's", "viewer": "v"}))
        assert finder.find() is None
        settings.token_path.write_text(json.dumps({"agent": TOKEN, "viewer": "v"}))
        assert finder.find() == Server(receiver.url, TOKEN, page_url=receiver.url + "/?token=v")
        configured = load_settings({"LOADERWATCH_DIR": str(data_dir), "LOADERWATCH_SERVER": receiver.url})
        assert ServerFinder(configured).find() == Server(receiver.url, TOKEN, page_url=receiver.url)
    assert finder.find() is None
    assert not is_there(Server(receiver.url, TOKEN), timeout_s=2.0)


@NEEDS_PROC
def test_a_line_on_another_processs_stderr(tmp_path: Path) -> None:
    """Files and pipes; a socket or a dead process is given up without a word to anyone else."""
    with (tmp_path / "err").open("ab") as err:
        child = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "import time, sys; sys.stderr.write('own\\n'); sys.stderr.flush(); print(1, flush=True);"
                " time.sleep(60)",
            ],
            stderr=err,
            stdout=subprocess.PIPE,
        )
    assert child.stdout is not None
    try:
        child.stdout.readline()
        assert write_stderr(child.pid, "hello")
        assert (tmp_path / "err").read_text() == "own\nhello\n"
        # Notices come from the network and go to a terminal.
        assert write_stderr(child.pid, "a\x1b]0;title\x07b\r\nroot: all is well\x00\n" + "x" * 10_000)
        assert (tmp_path / "err").read_text().startswith("own\nhello\na]0;titleb root: all is well xxx")
        assert (tmp_path / "err").read_text().count("\n") == 3
        assert len((tmp_path / "err").read_text()) < MAX_NOTICE + 20
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    assert not write_stderr(child.pid, "hello")


@NEEDS_PROC
def test_a_full_pipe_is_not_waited_for() -> None:
    """The reader is slow: the line is given up."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    child = subprocess.Popen(["sleep", "60"], stderr=write)
    try:
        with pytest.raises(BlockingIOError):  # noqa: PT012 - which write it is, nobody knows
            while True:
                os.write(write, b"x" * 65536)
        assert not write_stderr(child.pid, "hello")
    finally:
        child.kill()
        child.wait()
        os.close(read)
        os.close(write)


def test_the_state_is_replaced_as_a_whole(tmp_path: Path) -> None:
    """A saved state loads unchanged; a broken one is set aside."""
    state = StreamState(
        stream="s", run_name="r", wall_offset_ns=5, settled_seq=3, cursors={"a": 1}, announced=True
    )
    save_state(tmp_path, state)
    assert load_state(tmp_path) == state
    (tmp_path / "state.json").write_bytes(b"\xff\x00")
    assert load_state(tmp_path) is None
    assert [path.name for path in tmp_path.iterdir()] == ["state.json.corrupt"]
    assert load_state(tmp_path) is None
    (tmp_path / "state.json").write_bytes(b"{}")  # the next one takes nothing's place
    assert load_state(tmp_path) is None
    kept = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert kept == {"state.json.corrupt": b"\xff\x00", "state.json.corrupt-2": b"{}"}


@pytest.mark.parametrize("host", ["gpu01", "GPU_01.cluster.example", "...", "", "x" * 100, "ünïcode"])
def test_stream_names_fit_the_wire(host: str) -> None:
    """Whatever the host is called."""
    assert RUN_ID_PATTERN.match(new_stream_name(host))
    assert new_stream_name(host) != new_stream_name(host)


@NEEDS_PROC
def test_what_is_no_stderr_gets_no_line(tmp_path: Path) -> None:
    """If stderr was closed, descriptor 2 is whatever was opened next: a data file or the end of a pipe."""
    data = tmp_path / "data.bin"
    data.write_bytes(b"precious")
    read, write = os.pipe()
    with data.open("rb") as file, data.open("r+b") as written:
        ends = (file.fileno(), written.fileno(), read)
        children = [subprocess.Popen(["sleep", "60"], stderr=fd) for fd in ends]
    try:
        assert [write_stderr(child.pid, "hello") for child in children] == [False] * 3
        os.set_blocking(read, False)
        with pytest.raises(BlockingIOError):
            os.read(read, 1)
    finally:
        for child in children:
            child.kill()
            child.wait()
        os.close(read)
        os.close(write)
    assert data.read_bytes() == b"precious"


def _numbered(seq: int) -> bytes:
    return encode(
        Envelope(run_id="r", run_name="r", stream="s", seq=seq, made_ns=1, host=HostInfo(name="h", cpus=1))
    )


def test_what_gathered_is_sent_together_and_one_bad_envelope_costs_itself(tmp_path: Path) -> None:
    """A request that is refused is sent again one by one, to learn which envelope it is."""
    outbox = Outbox(
        tmp_path / "o",
        StreamState(stream="s", run_name="run", wall_offset_ns=0, boot_id="boot"),
        "boot",
        10**6,
    )
    for seq in range(1, 11):
        outbox.put(b"\xc1" if seq == 4 else _numbered(seq), {})
    requests: list[int] = []
    with Receiver() as receiver:

        def refuse(number: int) -> tuple[int, bytes, dict[str, str]] | None:
            payloads = split(receiver.bodies[-1])
            requests.append(len(payloads))
            return (400, b"not MessagePack", {}) if b"\xc1" in payloads else None

        receiver.answer = refuse
        uploader = Uploader(outbox, lambda: Server(receiver.url, TOKEN))
        uploader.start()
        deadline = time.monotonic() + PATIENCE_S
        while len(outbox) and time.monotonic() < deadline:
            time.sleep(0.02)
        for seq in range(11, 14):
            outbox.put(_numbered(seq), {})
        while len(outbox) and time.monotonic() < deadline:
            time.sleep(0.02)
        uploader.stop()
        uploader.join(PATIENCE_S)
    assert [seq for _, seq in receiver.posts] == [1, 2, 3, *range(5, 14)]
    assert requests[:11] == [10] + [1] * 10
    assert [path.name for path in (tmp_path / "o").glob("*.rejected")] == ["000000000004.lwe.rejected"]

"""Redaction: values that are replaced or dropped, and values that stay because a diagnosis needs them."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderwatch.core.facts import (
    Call,
    FailedSample,
    FlightEntry,
    FlightGroup,
    GpuProcess,
    GpuState,
    HostInfo,
    LoaderInfo,
    ProcessInfo,
    ProfileStack,
    SpanInfo,
    StackDump,
)
from loaderwatch.core.message import Text
from loaderwatch.core.redact import KEY_BYTES, Redaction, last_words, load_key
from loaderwatch.core.wire import Envelope, encode
from loaderwatch.detect.measures.stacks import in_loop_of, main_frames, user_frame

KEY = b"k" * KEY_BYTES
STACK = """Thread 0x00007f11 [zq-thread] (most recent call first):
  File "/home/zq/venv/lib/python3.11/site-packages/zqlib/deep/io.py", line 7 in read
Current thread 0x00007f22 [zq main] (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait
  File "/home/zq/venv/lib/python3.11/site-packages/torch/utils/data/_utils/fetch.py", line 52 in fetch
  File "/home/zq/project/zq_data.py", line 41 in __getitem__
  File "/home/zq/project/train_zq.py", line 9 in <module>
  zq: a line of some later Python
  ...
"""


def made(**more: object) -> Envelope:
    facts: dict[str, object] = {
        "run_id": "r", "run_name": "mine", "stream": "s", "seq": 1, "made_ns": 1,
        "host": HostInfo(
            name="gpu01", cpus=8, gpu_status="no driver (/opt/zq/libnvidia-ml.so.1 not found)",
            filling_disk="/mnt/zq",
            gpu_status_text=Text("gpu-charts-off",
                                 {"error": "no /opt/zq/libnvidia-ml.so.1", "gpu": Text("zq"), "n": 3}),
        ),
    }  # fmt: skip
    return Envelope(**(facts | more))  # type: ignore[arg-type]


def process(**more: object) -> ProcessInfo:
    facts: dict[str, object] = {"pid": 1, "rank": 0, "local_rank": 0, "world_size": 1, "started_ns": 1}
    return ProcessInfo(**(facts | more))  # type: ignore[arg-type]


def test_who_else_is_on_a_gpu_is_not_told() -> None:
    other = GpuProcess(pid=77, memory_bytes=1e9, sm_ratio=0.5, name="zq-server", user="zq")
    (state,) = Redaction(KEY).envelope(made(gpu_states=[GpuState(gpu=0, processes=[other])])).gpu_states
    assert state.processes == [GpuProcess(pid=77, memory_bytes=1e9, sm_ratio=0.5)]


def test_a_stack_still_says_where_it_stands() -> None:
    dump = StackDump(rank=0, worker=-1, pid=1, taken_ns=1, text=STACK)
    told = Redaction(KEY).envelope(made(stacks=[dump], profile_stacks=[ProfileStack(id=5, text=STACK)]))
    (redacted,) = told.stacks
    assert told.profile_stacks == [ProfileStack(id=5, text=redacted.text)]
    assert "zq" not in redacted.text
    frames = main_frames(redacted)
    before = main_frames(dump)
    assert [(f.line, f.function, f.library) for f in frames] == [
        (f.line, f.function, f.library) for f in before
    ]
    assert frames[0].file == "/lib/python3.11/threading.py"
    assert frames[1].file == "/site-packages/torch/utils/data/_utils/fetch.py"
    own = user_frame(frames)
    assert own is not None
    assert own.file.startswith("path-")
    mine = user_frame(before)
    assert mine is not None
    call = Call(file=mine.file, function=mine.function, line=1, loop=(1, 9999))
    (rank,) = Redaction(KEY).envelope(made(processes=[process(calls=[call])])).processes
    assert in_loop_of(frames, rank.calls), "a stack is still found in the loop that it is in"
    assert "zq" not in rank.calls[0].file
    assert own.file.endswith(".py")


def test_one_file_has_one_form_in_stacks_arguments_names_and_flight_records() -> None:
    redaction = Redaction(KEY)
    entry = FlightEntry(number=1, what="nccl:all_reduce", state="started", at="train_zq.py:33 in step")
    group = FlightGroup(group="default_pg", written_ns=1, entries=[entry])
    envelope = redaction.envelope(
        made(
            processes=[
                process(
                    name="train_zq", argv=["/home/zq/train_zq.py", "--zq", "/data/zq"], cwd="/home/zq",
                    flight=[group], flight_dump="/tmp/zq_dump_0",
                )
            ]
        )
    )  # fmt: skip
    (told,) = envelope.processes
    file = redaction.path("/home/zq/train_zq.py").rpartition("/")[2]
    assert told.name == file.removesuffix(".py")
    assert told.argv == [redaction.path("/home/zq/train_zq.py"), "<2 arguments redacted>"]
    assert told.argv[0].startswith(told.cwd + "/"), "the same folder"
    assert told.flight[0].entries[0].at == f"{file}:33 in step"
    assert told.flight_dump
    assert b"zq" not in encode(envelope)


def test_another_key_gives_another_form() -> None:
    assert Redaction(KEY).path("/a/b.py") != Redaction(b"x" * KEY_BYTES).path("/a/b.py")


@pytest.mark.parametrize(
    ("said", "stays"),
    [
        ("exit code 3", "exit code 3"),
        ("SIGKILL", "SIGKILL"),
        ("exit code the file /zq is missing", "exit code <redacted>"),
        ("zq", "<redacted>"),
        ("uncaught KeyboardInterrupt", "uncaught KeyboardInterrupt"),
        ("uncaught ValueError: bad sample zq", "uncaught ValueError: <redacted>"),
        (
            "uncaught FileNotFoundError: Caught FileNotFoundError in DataLoader worker process 1."
            " FileNotFoundError: [Errno 2] No such file or directory: '/data/zq.png'",
            "uncaught FileNotFoundError: Caught FileNotFoundError in DataLoader worker process 1, [Errno 2],"
            " No such file or directory, <redacted>",
        ),
        (
            "uncaught RuntimeError: DataLoader worker (pid 17) is killed by signal: Killed. zq",
            "uncaught RuntimeError: DataLoader worker (pid 17) is killed by signal: Killed, <redacted>",
        ),
        (
            "uncaught RuntimeError: unable to write to file </torch_17_zq>: No space left on device (28)",
            "uncaught RuntimeError: unable to write to file, No space left on device, <redacted>",
        ),
    ],
)  # fmt: skip
def test_last_words_keep_what_python_and_pytorch_say(said: str, stays: str) -> None:
    assert last_words(said) == stays


@pytest.mark.parametrize(
    ("path", "stays"),
    [
        ("/opt/x/site-packages/torch/nn/a.py", "/site-packages/torch/nn/a.py"),
        ("/usr/lib/python3.12/json/decoder.py", "/lib/python3.12/json/decoder.py"),
        ("/src/loaderwatch/agent/loaders/dataloader.py", "/loaderwatch/agent/loaders/dataloader.py"),
        ("<string>", "<string>"),
        ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap>"),
    ],
)
def test_frames_that_tell_nothing_of_the_user_stay(path: str, stays: str) -> None:
    assert Redaction(KEY).path(path) == stays


@pytest.mark.parametrize(
    "path",
    [
        "/home/zq/lib/python3.12/zq/a.py", "/x/site-packages/zq/a.py", "/x/site-packages/zq.py",
        "<ipython-input-zq>",
        "zq.py", "./zq", "C:\\zq\\a.py", "/data/a.zq", "/zq/loaderwatch/agent/zq/a.py",
        "/zq/site-packages/../a.py",
    ],
)  # fmt: skip
def test_everything_else_is_replaced(path: str) -> None:
    assert "zq" not in Redaction(KEY).path(path)


def test_names_stay_unless_they_may_be_paths_or_texts() -> None:
    loader = LoaderInfo(
        loader=0, name="train", role="train", class_name="DataLoader", dataset_class="ImageFolder"
    )
    odd = LoaderInfo(loader=1, name="/zq/val", role="eval", class_name="<zq>", dataset_class="zq\n")
    span = SpanInfo(
        rank=0, worker=-1, pid=1, phase="user", since_ns=1, phase_name="write /zq", sample_index=7
    )
    told = Redaction(KEY).envelope(
        made(processes=[process(loaders=[loader, odd], phase_names=["save", "/zq"])], spans=[span])
    )
    assert told.processes[0].loaders[0] == loader
    assert told.processes[0].phase_names[0] == "save"
    assert told.spans[0].sample_index == 7
    assert told.host.name == "gpu01"
    assert told.run_name == "mine"
    assert b"zq" not in encode(told)


def test_a_sample_that_failed_keeps_its_index_and_where_it_failed() -> None:
    failed = FailedSample(
        loader=0,
        worker=1,
        samples=2,
        indices=[237, "zq.jpg"],
        at=Call(file="/home/zq/project/zq_data.py", line=41, function="__getitem__"),
        error="OSError: cannot read /home/zq/project/zq.jpg",
    )
    told = Redaction(KEY).envelope(made(processes=[process(failed=failed)])).processes[0].failed
    assert told is not None
    assert (told.worker, told.samples, told.indices, told.error) == (1, 2, [237], "")
    assert told.at is not None
    assert (told.at.line, told.at.function) == (41, "__getitem__")
    assert "zq" not in repr(told)


def test_for_strangers_hosts_and_the_run_have_no_names() -> None:
    told = Redaction(KEY, sharing=True).envelope(made())
    assert (told.run_id, told.run_name) == (told.run_id, told.run_id)
    assert told.run_id.startswith("run-")
    assert told.host.name.startswith("host-")
    assert not {"r", "mine", "s", "gpu01"} & {told.run_id, told.run_name, told.stream, told.host.name}


@given(
    st.text(max_size=80),
    st.sampled_from(["/{}", "{}", "/a/{}/b.py", "/lib/python3.11/{}", "x/site-packages/{}"]),
)
def test_no_text_comes_through_in_any_place(text: str, form: str) -> None:
    mark = "\u2603\u2603"  # no name in code has it
    marked = form.format(mark + text)
    redaction = Redaction(KEY)
    lines = (marked, f'  File "{marked}", line 3 in f', f'  File "a", line 3 in {marked}')
    told = redaction.envelope(
        made(
            processes=[
                process(name=marked, argv=[marked] * 2, cwd=marked, exit=marked, phase_names=[marked]),
                process(exit=f"uncaught ValueError: {marked}", flight_dump=marked),
            ],
            stacks=[StackDump(rank=0, worker=0, pid=1, taken_ns=1, text=line) for line in lines],
            profile_stacks=[ProfileStack(id=number, text=line) for number, line in enumerate(lines)],
        )
    )
    assert mark.encode() not in encode(told)


def test_the_key_is_private_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "new" / "redact.key"
    key = load_key(path)
    assert len(key) == KEY_BYTES
    assert load_key(path) == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["redact.key"]
    path.write_bytes(b"short")
    assert len(load_key(path)) == KEY_BYTES, "one for this time"

"""Whose frames they are, and what they wait for."""

from __future__ import annotations

import faulthandler
import tempfile

import pytest

from loaderwatch.core.facts import StackDump
from loaderwatch.detect.measures.stacks import (
    NATIVE,
    Frame,
    beside_model,
    collective,
    compiling,
    ends_interpreter,
    in_debugger,
    main_frames,
    saving,
    thread_places,
    threads,
    user_frame,
    usual_stack,
    waits_on_queue,
)
from tests.unit.detect import stacks


def dump(text: str) -> StackDump:
    return StackDump(rank=0, worker=-1, pid=1, taken_ns=1, text=text)


def test_a_forked_workers_stack_is_cut_at_its_loop() -> None:
    frames = main_frames(dump(stacks.WORKER))
    assert [frame.function for frame in frames] == ["load_image", "__getitem__", "fetch", "fetch"]
    assert str(user_frame(frames)) == "data.py:42 in load_image"


def test_the_thread_that_runs_the_script_is_the_one_that_counts() -> None:
    frames = main_frames(dump(stacks.MAIN_WAITS))
    assert str(user_frame(frames)) == "train.py:40 in main"
    assert not main_frames(None)
    assert not main_frames(dump(""))


def test_the_demos_gpu_is_as_torchs_own_calls() -> None:
    frames = [
        Frame("/x/loaderwatch/demo/virtual_gpu.py", "63", "synchronize"),
        Frame("/x/loaderwatch/demo/train.py", "140", "save_preview"),
    ]
    assert str(user_frame(frames)) == "train.py:140 in save_preview"


def test_the_main_thread_is_found_in_a_dump_that_another_wrote() -> None:
    """The main thread takes no signal. A thread without Python code is not the current one."""
    other = (
        'Current thread 0x01 (most recent call first):\n  File "/usr/lib/python3.11/threading.py",'
        " line 1002 in _bootstrap\n\n"
    )
    main = 'Thread 0x02 (most recent call first):\n  File "embedded.py", line 3 in save\n'
    for text in (other + main, main + other, other.replace("Current t", "T") + main):
        assert [frame.function for frame in main_frames(dump(text))] == ["save"]
    assert not main_frames(dump(other))


def test_a_real_dump_is_read() -> None:
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        text = file.read()
    found = [frame.function for stack in threads(text) for frame in stack]
    assert "test_a_real_dump_is_read" in found


@pytest.mark.parametrize(
    ("functions", "name"),
    [
        (("_engine_run_backward", "backward"), "backward"),
        (
            ("_distributed_broadcast_coalesced", "_sync_module_buffers", "_sync_buffers", "_pre_forward"),
            "buffer sync",
        ),
        (("barrier", "wrapper"), "barrier"),
        (("all_reduce", "wrapper"), "all_reduce"),
        (("linear", "forward"), None),
    ],
)
def test_collectives(functions: tuple[str, ...], name: str | None) -> None:
    assert collective(main_frames(dump(stacks.main_in(*functions)))) == name


def test_a_users_function_of_that_name_is_no_collective() -> None:
    assert collective(main_frames(dump(stacks.main_in(user="backward")))) is None


def test_people_at_work() -> None:
    assert in_debugger(main_frames(dump(stacks.DEBUGGER)))
    assert in_debugger(main_frames(dump(stacks.NOTEBOOK_IDLE)))
    assert not in_debugger(main_frames(dump(stacks.NOTEBOOK_BUSY)))
    assert not in_debugger(main_frames(dump(stacks.MAIN_WAITS)))


def test_other_marks() -> None:
    assert compiling(main_frames(dump(stacks.COMPILING)))
    assert not compiling(main_frames(dump(stacks.MAIN_WAITS)))
    assert waits_on_queue(main_frames(dump(stacks.QUEUE)))
    assert not waits_on_queue(main_frames(dump(stacks.MAIN_WAITS)))


@pytest.mark.parametrize(("function", "found"), [("save", True), ("_save", True), ("load", False)])
def test_a_checkpoint_that_is_read_is_not_written(function: str, found: bool) -> None:
    frame = Frame("/opt/venv/lib/python3.11/site-packages/torch/serialization.py", "966", function)
    assert saving([frame]) is found


@pytest.mark.parametrize(
    ("frames", "over"),
    [
        ([Frame("/usr/lib/python3.11/threading.py", "1622", "_shutdown")], True),
        (
            [
                Frame("/usr/lib/python3.11/multiprocessing/process.py", "149", "join"),
                Frame("/usr/lib/python3.11/multiprocessing/util.py", "360", "_exit_function"),
                Frame("/usr/lib/python3.11/multiprocessing/process.py", "317", "_bootstrap"),
                Frame("<string>", "1", "<module>"),
            ],
            True,
        ),
        ([Frame("/home/me/train.py", "7", "upload")], True),
        ([Frame("/home/me/train.py", "7", "upload"), Frame("/home/me/train.py", "99", "<module>")], False),
        (
            [Frame("/home/me/train.py", "7", "main"), Frame("<frozen runpy>", "198", "_run_module_as_main")],
            False,
        ),
        ([Frame("/home/me/train.py", "7", "recurse")] * 100, False),
        ([NATIVE], True),
        ([], False),
    ],
)
def test_the_end_of_a_script(frames: list[Frame], over: bool) -> None:
    """The last frame of a complete stack is the script's, unless Python itself calls the function."""
    assert ends_interpreter(frames) is over


def test_a_main_thread_without_python_code() -> None:
    """The interpreter has removed its modules. In a running script another empty stack means nothing."""
    native = "Current thread 0x01 (most recent call first):\n  Garbage-collecting\n  <no Python frame>\n\n"
    assert list(main_frames(dump(native))) == [NATIVE]
    assert user_frame([NATIVE]) is None
    assert str(user_frame(main_frames(dump(native + stacks.SAVE)))) == "train.py:61 in save"


def test_where_the_threads_of_a_script_stand() -> None:
    thread = (
        'Thread 0x0{} (most recent call first):\n  File "/home/me/train.py", line {} in upload\n'
        '  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap\n\n'
    )
    library = thread.replace("/home/me/train.py", "/opt/venv/lib/python3.11/site-packages/tqdm/_monitor.py")
    text = thread.format(1, 7) + thread.format(2, 7) + thread.format(3, 9) + library.format(4, 69)
    assert [str(place) for place in thread_places(text + stacks.SAVE)] == [
        "train.py:7 in upload",
        "train.py:9 in upload",
    ]


def test_a_comprehension_is_named_by_its_function() -> None:
    text = """Current thread 0x1 (most recent call first):
  File "/home/me/train.py", line 20 in <genexpr>
  File "/home/me/train.py", line 19 in area_under_curve
  File "/home/me/train.py", line 37 in <module>
"""
    assert str(user_frame(main_frames(dump(text)))) == "train.py:20 in area_under_curve"
    alone = text.replace("/home/me/train.py", "/home/me/metrics.py", 1)
    assert str(user_frame(main_frames(dump(alone)))) == "metrics.py:20 in <genexpr>"


def test_the_usual_stack_is_in_the_function_where_most_are() -> None:
    texts = [stacks.main_in(user=name) for name in ("log", "log", "save", "save", "save")]
    moved = [text.replace("line 61", f"line {61 + place // 2}") for place, text in enumerate(texts)]
    usual = usual_stack([dump(text) for text in moved])
    assert usual is not None
    assert str(user_frame(main_frames(usual))) == "train.py:62 in save"
    assert usual_stack([]) is None


def test_stacks_that_show_the_model_count_only_where_all_do() -> None:
    own, model = dump(stacks.main_in()), dump(stacks.main_in("_call_impl"))
    assert beside_model([model, own]) == [own]
    assert beside_model([model]) == [model]

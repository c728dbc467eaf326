"""Stacks of other processes, read from their memory: of each Python that is installed here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from loaderwatch.core.facts import NATIVE_FILE
from loaderwatch.streamer.profile import remote_stack
from loaderwatch.streamer.profile.layouts import LAYOUTS
from loaderwatch.streamer.profile.native_calls import Location
from loaderwatch.streamer.profile.remote_stack import RemoteStacks, Unreadable, location_in

pytestmark = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux's process_vm_readv")

HEAD = """
import ctypes, sys, threading, time, types
current = ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyThreadState_Get", ctypes.pythonapi))
print(*sys.version_info[:2], current(), id(types.CodeType), flush=True)
"""
SLEEPING = """
class Reader:
    def read(self):
        yield self.wait()

    def wait(self):
        naïve(
            60
        )

def naïve(seconds):
    time.sleep(seconds)

def deep(calls):
    if calls:
        return deep(calls - 1)
    return [next(Reader().read()) for _ in range(1)]

deep(5)
"""
BUSY = """
def low():
    return sum(range(50))

def generate():
    while True:
        yield low()

def work():
    numbers = generate()
    while True:
        next(numbers)
        sorted(range(200), key=lambda number: -number)

work()
"""


NATIVE = """
import zlib as compressor
from time import sleep as rest

class Reader:
    unpacker = compressor
    packed = compressor.compress(bytes(30_000_000))

def work(reader):
    while True:
        reader.unpacker.decompress(reader.packed)
        (reader.unpacker
            .decompress(
                reader.packed))
        for _ in range(4):
            rest(
                0.01,
            )
        1 + len(sorted(range(1_000_000)))

work(Reader())
"""


class Child(NamedTuple):
    """A process of some Python."""

    process: subprocess.Popen[str]
    version: tuple[int, int]
    thread: int
    code_type: int

    def stacks(self) -> RemoteStacks:
        """Read its memory."""
        return RemoteStacks(self.process.pid, self.version, self.code_type)


Start = Callable[[str, str], Child]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start scripts with a Python; skip where that Python is not installed."""
    children: list[Child] = []

    def begin(python: str, code: str) -> Child:
        path = python if python == sys.executable else shutil.which(python)
        if path is None or subprocess.run([path, "-V"], capture_output=True, check=False).returncode:
            pytest.skip(f"{python} is not installed")
        script = tmp_path / "child.py"
        script.write_text(HEAD + textwrap.dedent(code), encoding="utf-8")
        process = subprocess.Popen([path, str(script)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        major, minor, thread, code_type = map(int, process.stdout.readline().split())
        children.append(Child(process, (major, minor), thread, code_type))
        return children[-1]

    yield begin
    for child in children:
        child.process.kill()
        child.process.communicate()


def until(child: Child, function: str) -> list[tuple[int, str]]:
    """Return line and function of each frame once the innermost is in this function."""
    stacks = child.stacks()
    for _ in range(10_000):
        time.sleep(0.002)
        try:
            stack = [place for place in stacks.stack(child.thread) if place[0] != NATIVE_FILE]
        except Unreadable:
            continue
        if stack[0][2] == function:
            return [(line, name) for _, line, name in stack]
    raise AssertionError(f"never in {function}")


PYTHONS = [sys.executable, "python3.10", "python3.11", "python3.12", "python3.13"]


@pytest.mark.parametrize("python", PYTHONS)
def test_each_frame_has_its_line(start: Start, python: str) -> None:
    """Through a generator, a call of several lines, a name that is not ASCII, recursion, a comprehension."""
    child = start(python, SLEEPING)
    stack = until(child, "naïve")
    head = HEAD.count("\n")
    source = SLEEPING.split("\n")

    def line(text: str) -> int:
        return head + source.index(text) + 1

    inner = [(line("    time.sleep(seconds)"), "naïve")]
    inner += [(line("        naïve("), "wait"), (line("        yield self.wait()"), "read")]
    last = line("    return [next(Reader().read()) for _ in range(1)]")
    comprehension = [(last, "<listcomp>")] if child.version < (3, 12) else []
    deep = [(last, "deep"), *[(line("        return deep(calls - 1)"), "deep")] * 5]
    assert stack == [*inner, *comprehension, *deep, (line("deep(5)"), "<module>")]


@pytest.mark.parametrize("python", PYTHONS)
def test_a_running_thread_is_read_without_stopping_it(start: Start, python: str) -> None:
    """Torn reads are noticed and rare. One stack in thousands has the caller of an earlier call."""
    child = start(python, BUSY)
    until(child, "low")
    stacks = child.stacks()
    possible = [
        ("low", "generate", "work", "<module>"),
        ("<lambda>", "work", "<module>"),
        ("generate", "work", "<module>"),
        ("work", "<module>"),
    ]
    seen: Counter[tuple[str, ...]] = Counter()
    samples = torn = 0
    while samples < 1000 or not seen.keys() >= {possible[0], possible[1]}:
        assert samples < 50_000, seen
        samples += 1
        time.sleep(0.0005)
        try:
            seen[tuple(name for file, _, name in stacks.stack(child.thread) if file != NATIVE_FILE)] += 1
        except Unreadable:
            torn += 1
    assert torn <= samples / 20
    assert {names[-2:] for names in seen} == {("work", "<module>")}
    assert sum(count for names, count in seen.items() if names not in possible) <= samples / 100
    assert child.process.poll() is None


def test_all_threads_are_found(start: Start) -> None:
    """With the ids that the kernel gave them."""
    child = start(
        sys.executable,
        """
        for _ in range(3):
            threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        time.sleep(60)
        """,
    )
    stacks = child.stacks()
    for _ in range(10_000):
        time.sleep(0.002)
        threads = stacks.threads(child.thread)
        ids = {stacks.native_id(thread) for thread in threads}
        if len(threads) == 4 and len(ids) in (1, 4) and 0 not in ids:
            break
    assert threads[0] == child.thread
    assert child.version < (3, 11) or ids == {
        int(task.name) for task in Path(f"/proc/{child.process.pid}/task").iterdir()
    }


def test_an_ended_process(start: Start) -> None:
    """Its end is told apart from a torn read."""
    child = start(sys.executable, SLEEPING)
    stacks = child.stacks()
    until(child, "naïve")
    child.process.kill()
    child.process.wait()
    with pytest.raises(ProcessLookupError):
        stacks.stack(child.thread)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_not_permitted(start: Start) -> None:
    """As for a debugger."""
    child = start(sys.executable, SLEEPING)
    until(child, "naïve")
    reader = f"""
import sys
from loaderwatch.streamer.profile.remote_stack import NotPermitted, RemoteStacks
try:
    RemoteStacks({child.process.pid}, {child.version}, {child.code_type}).stack({child.thread})
except NotPermitted as error:
    print(error)
"""
    # The other user may not enter the folders of the environment, so modules are loaded first.
    code = f"import os, loaderwatch.streamer.profile.remote_stack\nos.setuid(65534)\n{reader}"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[4],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.strip() == "Operation not permitted"


def test_memory_that_is_no_stack(start: Start) -> None:
    """A wrong address ends in an error of ours, not in a stack."""
    child = start(sys.executable, SLEEPING)
    until(child, "naïve")
    with pytest.raises(Unreadable):
        child.stacks().stack(8)
    with pytest.raises(Unreadable):
        RemoteStacks(child.process.pid, child.version, child.code_type + 16).stack(child.thread)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="another table of lines")
def test_locations_are_those_of_python_itself() -> None:
    """For every instruction of several modules, as ``co_positions`` gives them."""
    codes = [
        compile(Path(module.__file__ or "").read_text(), "module", "exec")
        for module in (subprocess, textwrap, shutil)
    ]
    compared = 0
    while codes:
        code = codes.pop()
        codes += [constant for constant in code.co_consts if hasattr(constant, "co_code")]
        for place, (line, last_line, column, last_column) in enumerate(code.co_positions()):  # type: ignore[attr-defined]
            if line is not None:
                compared += 1
                found = location_in(code.co_linetable, code.co_firstlineno, 2 * place)
                known = (-1 if column is None else column, -1 if last_column is None else last_column)
                assert found == Location(line, last_line or line, *known), (code, place)
    assert compared > 10_000


def test_every_supported_python_has_a_layout() -> None:
    """3.14 keeps frames in tagged references, which nobody has tried yet."""
    assert set(LAYOUTS) == {(3, 10), (3, 11), (3, 12), (3, 13)}


def test_a_torn_table_of_lines_is_no_fault(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A code object may be freed while it is read."""
    child = start(sys.executable, SLEEPING)
    until(child, "naïve")
    for name in ("location_in", "line_in_pairs"):
        monkeypatch.setattr(remote_stack, name, lambda table, first_line, offset: table[len(table)])
    with pytest.raises(Unreadable):
        child.stacks().stack(child.thread)


@pytest.mark.parametrize("python", PYTHONS)
def test_native_functions_are_named_as_the_source_calls_them(start: Start, python: str) -> None:
    """Python 3.10 keeps no columns, so it names none."""
    child = start(python, NATIVE)
    stacks = child.stacks()
    expected = {"zlib.compress", "reader.unpacker.decompress", "decompress", "time.sleep", "sorted"}
    if child.version < (3, 11):
        expected = set()
    named: Counter[str] = Counter()
    samples = 0
    while samples < 1000 or not named.keys() >= expected - {"zlib.compress"}:
        assert samples < 50_000, named
        samples += 1
        time.sleep(0.002)
        with suppress(Unreadable):
            (file, line, function), (caller, called_at, *_) = stacks.stack(child.thread)[:2]
            if file == NATIVE_FILE:
                assert (Path(caller).name, line) == ("child.py", called_at)
                named[function] += 1
    assert named.keys() <= expected | {"work", "len", "range"}, named

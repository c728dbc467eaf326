"""The script closes our descriptors and reuses their numbers: we neither write to nor close its files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from loaderwatch.agent import hot
from tests.waiting import PATIENCE_S

pytestmark = [
    pytest.mark.usefixtures("data_dir", "no_streamer"),
    pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux's /proc"),
]

SCRIPT = """
import gc, itertools, mmap, os, signal, socket, sys
import torch
import loaderwatch
from loaderwatch.agent.session import close_session, current_session
from torch.utils.data import DataLoader, Dataset

where, way, folder = sys.argv[1:]
OURS = (".stack", ".ring", ".overrun", ".json")
CONTENT = b"CHECKPOINT" * 1000

def descriptors():
    '''Of this process: those that lead to files of ours, and where.'''
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            pass  # that of the listing itself
    return {number: path for number, path in found.items() if path.endswith(OURS)}

def own_file(number):
    file = open(os.path.join(folder, f"{os.getpid()}-{number}.bin"), "w+b", buffering=0)
    file.write(CONTENT)
    return file

def reuse(numbers):
    '''Close these descriptors and let the script's own files have their numbers; return a check of them.'''
    if way == "range":
        os.closerange(3, 4096)
        low = [own_file(number) for number in range(20)]
        return check([file.fileno() for file in low], low, [])
    for number in numbers:
        os.close(number)
    if way == "next":
        files = [own_file(number) for number in range(20)]
        return check([file.fileno() for file in files], files, [])
    if way == "mapped":
        files = [own_file(number) for number in range(20)]
        maps = [mmap.mmap(file.fileno(), len(CONTENT)) for file in files]  # each has a descriptor of its own
        return check([file.fileno() for file in files], files, maps)
    if way == "socket":
        pairs = [socket.socketpair() for _ in numbers]
        for (ours, _), number in zip(pairs, numbers):
            os.dup2(ours.fileno(), number)
        return check_sockets(numbers, pairs)
    files = [own_file(number) for number in numbers]
    for file, number in zip(files, numbers):
        os.dup2(file.fileno(), number)
    return check(numbers, files, [])

def check(numbers, files, maps):
    identities = [os.fstat(number) for number in numbers]
    def whole():
        assert [os.fstat(number)[:3] for number in numbers] == [found[:3] for found in identities], "closed"
        for file in files:
            assert os.pread(file.fileno(), 10**6, 0) == CONTENT, file.name
        for map in maps:
            assert map[:] == CONTENT
    return whole

def check_sockets(numbers, pairs):
    def whole():
        for number in numbers:
            os.fstat(number)
        for _, other in pairs:
            other.setblocking(False)
            try:
                raise AssertionError(other.recv(1000))
            except BlockingIOError:
                pass
    return whole

def attack():
    '''Reuse every descriptor of ours; then take stacks, and end what is watched.'''
    before = descriptors()
    assert len([path for path in before.values() if path.endswith(".stack")]) == 1, before
    assert not [path for path in before.values() if path.endswith(".ring")], before
    whole = reuse(list(before))
    answering = int(os.environ["ANSWERING"])
    for _ in range(3):
        os.kill(os.getpid(), answering)
    whole()
    return whole, [path for path in before.values() if path.endswith(".stack")][0]

def say(stack):
    with open(stack) as file:
        print("stacks" if "most recent call first" in file.read() else "none")
    print("whole", flush=True)

class Numbers(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        if where == "worker" and index == 4:
            say(attack()[1])
        if where == "ended" and index == 4:
            reuse([number for number, path in descriptors().items() if path.endswith(".overrun")])
            sum(itertools.repeat(0, 10**13))  # in C: nothing but a signal ends it
        return torch.zeros(1)

def daemonize():
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)

loader = DataLoader(Numbers(), batch_size=4, num_workers=int(where in ("worker", "ended")))
limits = {"worker": {"sample_timeout": 3000}, "ended": {"sample_timeout": 1}}
loaderwatch.attach(loader, **limits.get(where, {}))
os.environ["ANSWERING"] = str(int(current_session().stack_signal))
if where == "daemon":
    before_the_fork = reuse(list(descriptors()))
    daemonize()  # ends the session of the process that is gone
    gc.collect()
    before_the_fork()
    loaderwatch.attach(loader)
    os.environ["ANSWERING"] = str(int(current_session().stack_signal))
if where in ("main", "daemon"):
    whole, stack = attack()
try:
    for batch in loader:
        pass
except loaderwatch.SampleTimeout:
    print("ended")
if where in ("main", "daemon"):
    close_session()
    gc.collect()
    whole()
    say(stack)
"""

CASES = [
    *(("main", way) for way in ("next", "range", "mapped", "same", "socket")),
    *(("daemon", way) for way in ("range", "same")),
    *(("worker", way) for way in ("next", "same")),  # which needs its queues, so the range stays open
]


@pytest.mark.parametrize(("where", "way"), CASES)
def test_a_reused_number_is_left_alone(where: str, way: str, tmp_path: Path) -> None:
    """The next opened files, a whole range, mapped files, and exactly the numbers that were ours."""
    if hot.guard_stacks is None and way in ("same", "socket"):
        pytest.skip("not compiled, the number is out of reach only")
    reopens = hot.guard_stacks is not None and (3, 11) <= sys.version_info < (3, 13)
    assert run(where, way, tmp_path) == f"{'stacks' if reopens else 'none'}\nwhole\n"


@pytest.mark.skipif(hot.guard_last_stack is None, reason="not compiled, the number is out of reach only")
def test_the_stack_of_a_worker_that_is_ended_is_left_out(tmp_path: Path) -> None:
    """It is ended all the same."""
    assert run("ended", "same", tmp_path) == "ended\n"
    (file,) = tmp_path.glob("*.bin")
    assert file.read_bytes() == b"CHECKPOINT" * 1000


def run(where: str, way: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, where, way, str(folder)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout

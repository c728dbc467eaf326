"""Reads stacks as faulthandler writes them: whose frames they are, and what they wait for."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import PurePath
from typing import Final

from loaderwatch.core.answers import Text
from loaderwatch.core.facts import Call, StackDump
from loaderwatch.core.system import CHILD_FUNCTIONS, PIPE_FUNCTIONS, SOCKET_FUNCTIONS, waits_in
from loaderwatch.core.threshold import threshold


def code_line(frame: Frame | None) -> Text | None:
    """Return a line of code as a parameter of a message; None if no line is known."""
    return None if frame is None else frame.text


_THREAD: Final = re.compile(r"^(?:Current )?[Tt]hread 0x[0-9a-fA-F]+")
_FRAME: Final = re.compile(r'^\s*File "(?P<file>[^"]*)", line (?P<line>\d+|\?\?\?) in (?P<function>.+?)\s*$')
_LIBRARY: Final = re.compile(
    r"(site-packages|dist-packages|/lib(?:64)?/python\d|\\[Ll]ib\\|^<frozen|^<native>$|^<string>$|"
    r"/loaderwatch/(agent|core|streamer)/|/loaderwatch/demo/virtual_gpu\.py$)"
)  # the demo's GPU stands for torch's own calls
_DEBUGGER: Final = (
    "/pdb.py",
    "/bdb.py",
    "/ipdb/",
    "/pudb/",
    "/pydevd",
    "/debugpy/",
    "/IPython/core/debugger",
)
_NOTEBOOK: Final = ("/ipykernel/", "/IPython/", "/tornado/", "/jupyter")
_LOADER: Final = "torch/utils/data/dataloader.py"
_SAVING: Final = ("torch/serialization.py", "distributed/checkpoint", "safetensors")
_CHILDREN: Final = ("subprocess.py", "popen_fork.py", "popen_spawn_posix.py", "popen_forkserver.py")
# Where Python waits for non-daemon threads, and ``multiprocessing`` for children that do not end.
_ENDS: Final = (("threading.py", "_shutdown"), ("util.py", "_exit_function"))
# The outermost frames of a script, of ``python -m``, and of a thread.
_BEGINS: Final = ("<module>", "_run_module_as_main", "_bootstrap")
_NAMELESS: Final = ("<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>", "<lambda>")
MOST_FRAMES: Final = threshold(
    100, "frames", "CPython: faulthandler cuts a stack here, so its outermost frame is not the first"
)
_TAKING: Final = ("acquire", "lock", "__enter__")
_LOCK_FILES: Final = ("lock", "synchronize", "multiprocessing/managers", "multiprocessing\\managers")
_BUILDS: Final = (
    "/torch/_dynamo/convert_frame.py",
    "/torch/_inductor/compile_fx.py",
    "/torch/_inductor/codecache.py",
    "/torch/_inductor/async_compile.py",
    "/triton/compiler/",
)
_COMPILE: Final = ("/torch/_dynamo/", "/torch/_inductor/", "/triton/")

# The first pattern that matches, from the innermost frame outwards, names the collective.
_COLLECTIVES: Final = (
    (re.compile(r"_sync_module_buffers|_sync_buffers|_sync_params_and_buffers|_pre_forward$"), "buffer sync"),
    (re.compile(r"_verify_params?_(shape_)?across_processes"), "DistributedDataParallel()"),
    (re.compile(r"^barrier$|monitored_barrier"), "barrier"),
    (re.compile(r"^init_process_group$|^_create_c10d_store$"), "init_process_group"),
    (re.compile(r"^destroy_process_group$"), "destroy_process_group"),
    (re.compile(r"_broadcast_coalesced|^broadcast"), "broadcast"),
    (re.compile(r"^all_reduce|allreduce"), "all_reduce"),
    (re.compile(r"^all_gather|^gather"), "all_gather"),
    (re.compile(r"^reduce_scatter|^all_to_all|^scatter|^reduce$"), "collective"),
    (re.compile(r"^send(_object_list)?$"), "send"),
    (re.compile(r"^recv(_object_list)?$"), "recv"),
    (re.compile(r"^_engine_run_backward$|^backward$"), "backward"),
)


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a Python stack."""

    file: str
    line: str
    function: str

    @property
    def library(self) -> bool:
        """Whether the frame belongs to Python, an installed package or loaderwatch, not to the user."""
        return bool(_LIBRARY.search(self.file))

    @property
    def text(self) -> Text:
        """Return the line of code as a parameter of a message."""
        file = PurePath(self.file).name
        return Text("code-line", {"file": file, "line": self.line, "function": self.function})

    def __str__(self) -> str:
        return f"{PurePath(self.file).name}:{self.line} in {self.function}"


# The stack of a thread without Python code: the main one, when the interpreter has removed its modules.
NATIVE: Final = Frame("<frozen>", "???", "<no Python frame>")

# By kernel function, or by the innermost module of Python's library, because a socket with a timeout polls.
_WAITED_FOR: Final = (
    ("child", CHILD_FUNCTIONS, ("subprocess.py", "popen_fork.py")),
    ("pipe", PIPE_FUNCTIONS, ("connection.py",)),
    ("network", (*SOCKET_FUNCTIONS, "skb_wait"), ("socket.py", "ssl.py")),
)
# Functions of ``torch.nn.Module`` that are on the stack while a model computes.
_MODEL_PASS: Final = ("_call_impl", "forward")


@lru_cache(maxsize=4096)  # the stacks of several profiles, 1,000 in each
def threads(text: str) -> tuple[tuple[Frame, ...], ...]:
    """Return the stack of every thread in a dump, innermost frame first; the current thread comes first."""
    others: list[list[Frame]] = []
    current: list[list[Frame]] = []
    for line in text.splitlines():
        if _THREAD.match(line) or line.startswith("Stack (most recent call first)"):
            stack: list[Frame] = []
            (current if line.startswith("Current") else others).append(stack)
            target = stack
            continue
        match = _FRAME.match(line)
        if match or line.strip() == NATIVE.function:
            if not others and not current:
                others.append([])
                target = others[-1]
            target.append(Frame(match["file"], match["line"], match["function"]) if match else NATIVE)
    return tuple(tuple(stack) for stack in [*current, *others] if stack)


def main_frames(dump: StackDump | None) -> Sequence[Frame]:
    """Return the frames of a process that matter, innermost first; none without a dump.

    For a worker these are the frames inside ``_worker_loop``: a forked worker's stack continues with its
    parent's frames. For a training process it is the thread that runs the script, even if another thread
    wrote the dump because the main thread takes no signal.
    """
    if dump is None:
        return ()
    stacks = threads(dump.text)
    for stack in stacks:
        for depth, frame in enumerate(stack):
            if frame.function == "_worker_loop":
                return stack[:depth]
    own = [stack for stack in stacks if stack[-1].function != "_bootstrap"]  # no ``threading`` threads
    for stack in own:
        if any(frame.function == "<module>" for frame in stack):
            return stack
    return own[0] if own else ()


def user_frame(frames: Sequence[Frame]) -> Frame | None:
    """Return the innermost frame of the user's own code; None if there is none.

    A frame of a comprehension or lambda is named after the function around it.
    """
    own = [frame for frame in frames if not frame.library]
    if not own or own[0].function not in _NAMELESS:
        return own[0] if own else None
    around = (
        frame.function for frame in own if frame.function not in _NAMELESS and frame.file == own[0].file
    )
    return replace(own[0], function=next(around, own[0].function))


def usual_stack(dumps: Sequence[StackDump]) -> StackDump | None:
    """Return the newest of several stacks (oldest first) at the user's most frequent line; None if none.

    The line is searched in the most frequent function: long work there may be spread over several lines.
    """
    newest = [(dump, user_frame(main_frames(dump))) for dump in reversed(dumps)]
    for name_of in (_function, str):
        most_frequent = Counter(name_of(frame) for _, frame in newest).most_common(1)
        newest = [(dump, frame) for dump, frame in newest if name_of(frame) == most_frequent[0][0]]
    return newest[0][0] if newest else None


def _function(frame: Frame | None) -> str:
    return "" if frame is None else f"{frame.file} {frame.function}"


def beside_model(dumps: Sequence[StackDump]) -> Sequence[StackDump]:
    """Return the stacks that show no model and no optimizer; all of them if there is none.

    For stacks of a part of a step: a signal may arrive when the loop is already in its model.
    """
    return [dump for dump in dumps if not in_model(main_frames(dump))] or dumps


def loop_over_loader(frames: Sequence[Frame]) -> Frame | None:
    """Return the user's frame that iterates a DataLoader, if the thread is in its ``next``; else None."""
    inside = False
    for frame in frames:
        if _LOADER in frame.file.replace("\\", "/"):
            inside = True
        elif inside and not frame.library:
            return frame
    return None


def chooses_samples(frames: Sequence[Frame]) -> bool:
    """Whether the thread is in a sampler, from which a DataLoader takes the indices of a batch."""
    return any(
        frame.function == "_next_index" and _LOADER in frame.file.replace("\\", "/") for frame in frames
    )


def collective(frames: Sequence[Frame]) -> str | None:
    """Return the collective in which a thread is ("backward", "buffer sync", "barrier", ...), else None."""
    best: str | None = None
    for frame in frames:
        inside_torch = "/torch/" in frame.file or "\\torch\\" in frame.file or "torch/" in frame.file
        if not inside_torch:
            continue
        for pattern, name in _COLLECTIVES:
            if pattern.search(frame.function):
                if name == "buffer sync":
                    return name  # outranks the broadcast that it consists of
                best = best or name
    return best


def in_debugger(frames: Sequence[Frame]) -> bool:
    """Whether a person is at work: at a debugger prompt, or at an idle notebook kernel."""
    if any(mark in frame.file for frame in frames for mark in _DEBUGGER):
        return True
    innermost = frames[:6]
    return (
        bool(frames)
        and all(frame.library for frame in innermost)
        and any(mark in frame.file for frame in frames for mark in _NOTEBOOK)
        and not any(frame.function == "run_code" for frame in frames)
    )


def waits_on_queue(frames: Sequence[Frame]) -> bool:
    """Whether the thread is in ``queue.Queue.get``, so waits for another thread of the same process."""
    return any(PurePath(frame.file).name == "queue.py" and frame.function == "get" for frame in frames[:4])


def waits_for_lock(frames: Sequence[Frame]) -> bool:
    """Whether the thread takes a lock in a library: ``filelock``, ``portalocker``, ``multiprocessing``..."""
    inner = itertools.takewhile(lambda frame: frame.library, frames)
    return any(
        frame.function in _TAKING and any(part in frame.file for part in _LOCK_FILES) for frame in inner
    )


def compiling(frames: Sequence[Frame]) -> bool:
    """Whether the thread may compile: slow but not stuck. A running compiled model looks the same."""
    return any(mark in frame.file for frame in frames for mark in _COMPILE)


def builds_kernels(frames: Sequence[Frame]) -> bool:
    """Whether the thread surely compiles, and does not only run compiled code."""
    return any(mark in frame.file for frame in frames for mark in _BUILDS)


def saving(frames: Sequence[Frame]) -> bool:
    """Whether the thread writes a checkpoint. The same modules also read checkpoints."""
    return any(
        mark in frame.file and "save" in frame.function.lower() for frame in frames for mark in _SAVING
    )


def works_aside(frames: Sequence[Frame]) -> bool:
    """Whether the thread does other work of the script: no save, no model pass, no wait for other ranks."""
    return not (user_frame(frames) is None or saving(frames) or collective(frames) or in_model(frames))


def in_model(frames: Sequence[Frame]) -> bool:
    """Whether the thread is in a model's forward or backward pass, or in an optimizer's step."""
    optimizes = any(frame.library and "/torch/optim/" in frame.file for frame in frames)
    return collective(frames) == "backward" or optimizes or in_forward(frames)


def in_forward(frames: Sequence[Frame]) -> bool:
    """Whether the thread is in a forward pass of a model."""
    return any(frame.library and frame.function in _MODEL_PASS for frame in frames)


def in_optimizer(frames: Sequence[Frame]) -> bool:
    """Whether the thread is in a step of one of PyTorch's optimizers."""
    return any(frame.library and "/torch/optim/" in frame.file for frame in frames)


def computes_tensors(frames: Sequence[Frame]) -> bool:
    """Whether the innermost frame belongs to PyTorch, as in a loss function."""
    return bool(frames) and frames[0].library and "/torch/" in frames[0].file.replace("\\", "/")


def awaited(frames: Sequence[Frame], wchan: str) -> str:
    """Return what a process waits for from outside: "child", "pipe", "network" or "answer".

    Its kernel function or library module shows that. The message ``awaited`` chooses its words by it.
    """
    modules = {PurePath(frame.file).name for frame in frames[:3]}
    return next(
        (
            word
            for word, functions, files in _WAITED_FOR
            if waits_in(functions, wchan) or modules & set(files)
        ),
        "answer",
    )


def waits_for_child(frames: Sequence[Frame]) -> bool:
    """Whether the thread waits for a child process, which may well be at work."""
    return any(PurePath(frame.file).name in _CHILDREN for frame in frames[:4])


def runs_program(frames: Sequence[Frame]) -> bool:
    """Whether the thread waits for another program, such as an unpacker, which nobody watches."""
    return any(PurePath(frame.file).name == "subprocess.py" for frame in frames[:4])


def waits_for_thread(frames: Sequence[Frame]) -> bool:
    """Whether the thread waits for another thread's end, or for an event or condition of another thread."""
    return any(PurePath(frame.file).name == "threading.py" for frame in frames[:4])


def ends_interpreter(frames: Sequence[Frame]) -> bool:
    """Whether the script is over: Python waits for threads and children, or runs ``atexit`` functions.

    Python itself calls such functions, so their own frame is the outermost, not a module's.
    """
    if any((PurePath(frame.file).name, frame.function) in _ENDS for frame in frames):
        return True
    return 0 < len(frames) < MOST_FRAMES and frames[-1].function not in _BEGINS


def ends_loader_workers(frames: Sequence[Frame]) -> bool:
    """Whether Python waits at its end for child processes, such as DataLoader workers."""
    return any(
        frame.function == "_exit_function" or _LOADER in frame.file.replace("\\", "/") for frame in frames
    )


def thread_places(text: str) -> list[Frame]:
    """Return the user's line at which each thread started by the user stands, each line once."""
    places = [user_frame(stack) for stack in threads(text) if stack[-1].function == "_bootstrap"]
    return list(dict.fromkeys(frame for frame in places if frame is not None))


def working_thread(text: str) -> tuple[Frame, ...] | None:
    """Return the stack of a thread started by the user that computes in Python, in the user's own code."""
    for stack in threads(text):
        if (
            stack[-1].function == "_bootstrap"
            and not stack[0].library
            and "<module>" not in {frame.function for frame in stack}
        ):
            return stack
    return None


def in_loop_of(frames: Sequence[Frame], calls: Sequence[Call]) -> bool | None:
    """Whether the thread is in a loop that comes back to the training loader; None if no such loop is known.

    ``calls``: the calls that iterated the loader. A loop around one of them iterates the loader repeatedly,
    or it is the loop over the batches itself, which has been left by now.
    """
    if not calls:
        return None
    return any(
        (call.file, call.function) == (frame.file, frame.function)
        and call.loop is not None
        and frame.line.isdigit()
        and call.loop[0] <= int(frame.line) <= call.loop[1]
        for call in calls
        for frame in frames
    )

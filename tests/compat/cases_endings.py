"""How a training ends: errors, signals and exits within a step; exit code, stdout and stderr are compared."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader

from tests.compat.case import ATTACHED, EVERYTHING, RUN, Watcher, case
from tests.compat.training import Net, data, error_of

BOTH = (ATTACHED, RUN)


class Slow:
    """Samples that take their time."""

    def __len__(self) -> int:
        return 1200

    def __getitem__(self, index: int) -> int:
        time.sleep(0.05)
        return index


def _steps(watch: Watcher, **options: Any) -> Iterator[int]:
    """A training without an optimizer, whose import would cost seconds; stops inside each step."""
    model = Net()
    for number, (x, y) in enumerate(watch(data(**options), model=model)):
        model.zero_grad()
        loss = error_of(model, x, y)
        yield number
        loss.backward()
        with torch.no_grad():
            for one in model.parameters():
                one.sub_(one.grad, alpha=0.1)  # type: ignore[arg-type]
        print(number, loss.item(), flush=True)


@case(alone=True, long=True, ways=(ATTACHED, EVERYTHING, RUN))
def error_in_the_step(watch: Watcher) -> Any:
    for number in _steps(watch):
        if number == 2:
            raise ArithmeticError("loss is not finite") from KeyError("the cause")


@case(ways=(ATTACHED,))
def error_in_the_model(watch: Watcher) -> Any:
    """The same error from the same lines, with one more frame: PyTorch's own for modules with hooks."""
    model = Net()
    try:
        for x, y in watch(data(), model=model):
            error_of(model, x[:, :3], y)
    except RuntimeError as error:
        frames = traceback.extract_tb(error.__traceback__)
        return [str(error), [one.line for one in frames if not one.filename.endswith("nn/modules/module.py")]]


@case(alone=True, long=True, ways=BOTH)
def terminated_in_the_step(watch: Watcher) -> Any:
    """SIGTERM without a handler, with workers beside it."""
    for number in _steps(watch, num_workers=1):
        if number == 2:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)


@case(alone=True, long=True, ways=BOTH)
def terminated_with_a_handler(watch: Watcher) -> Any:
    """A handler that writes its checkpoint and leaves."""

    def leave(*_: Any) -> None:
        print("checkpoint", flush=True)
        sys.exit(143)

    signal.signal(signal.SIGTERM, leave)
    for number in _steps(watch, num_workers=1):
        if number == 2:
            os.kill(os.getpid(), signal.SIGTERM)


@case(alone=True, long=True, ways=BOTH)
def interrupted(watch: Watcher) -> Any:
    """Ctrl-C in a step: a KeyboardInterrupt, which nobody catches."""
    for number in _steps(watch):
        if number == 2:
            signal.raise_signal(signal.SIGINT)


@case(alone=True, long=True, ways=BOTH)
def interrupted_while_waiting(watch: Watcher) -> Any:
    """Ctrl-C while the loop waits for a batch; it is caught, and the training finishes its way."""
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with contextlib.suppress(KeyboardInterrupt):
        for _ in watch(DataLoader(Slow())):  # type: ignore[arg-type]
            pass
    print("finished", flush=True)
    raise SystemExit(3)


@case(alone=True, ways=BOTH)
def exits(watch: Watcher) -> Any:
    for number in _steps(watch, num_workers=1, persistent_workers=True):
        if number == 2:
            sys.exit(3)


@case(alone=True, long=True, ways=BOTH)
def exits_with_a_sentence(watch: Watcher) -> Any:
    for number in _steps(watch):
        if number == 2:
            sys.exit("nothing left to learn")


@case(alone=True, long=True, ways=BOTH)
def exits_at_once(watch: Watcher) -> Any:
    for number in _steps(watch):
        if number == 2:
            os._exit(7)


@case(alone=True, long=True, ways=BOTH)
def aborts(watch: Watcher) -> Any:
    for number in _steps(watch):
        if number == 2:
            os.abort()


@case(alone=True, long=True, ways=BOTH)
def killed(watch: Watcher) -> Any:
    for number in _steps(watch):
        if number == 2:
            os.kill(os.getpid(), signal.SIGKILL)


@case(alone=True, ways=BOTH)
def forks_while_training(watch: Watcher) -> Any:
    """Children by ``os.fork`` in a step: one works on and exits, one fails, one runs another program."""
    for number in _steps(watch):
        if number in (1, 2, 3):
            sys.stdout.flush()
            child = os.fork()
            if not child:
                if number == 1:
                    print("child", torch.ones(3).sum().item(), flush=True)
                    os._exit(5)
                if number == 2:
                    raise LookupError("of the child")
                os.execvp("sh", ["sh", "-c", "echo program; exit 9"])
            print("ended with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


@case(alone=True, long=True, ways=BOTH)
def last_words(watch: Watcher) -> Any:
    """``atexit``, ``sys.excepthook`` and ``threading.excepthook`` of the user's own."""
    import atexit

    atexit.register(lambda: print("at exit", flush=True))
    sys.excepthook = lambda kind, error, trace: print("hook", kind.__name__, error, bool(trace), flush=True)
    threading.excepthook = lambda failed: print("thread", failed.exc_value, flush=True)

    def in_thread() -> None:
        for number in _steps(watch):
            if number == 1:
                raise LookupError("in the thread")

    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    for number in _steps(watch):
        if number == 2:
            raise ArithmeticError("at last")

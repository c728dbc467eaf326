"""What a script prints as it fails is the same bare and under ``loaderwatch run``, to the letter."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

pytestmark = pytest.mark.usefixtures("data_dir", "no_streamer")

LOADER = """
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Numbers(Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, index):
            if index == BAD:
                raise LookupError("no such sample")
            return torch.tensor(index)

    BAD = None
"""

SCRIPTS = {
    "plain": """
        def fail():
            raise ValueError("of the script")
        fail()
    """,
    "chained": """
        def fail():
            try:
                {}["key"]
            except KeyError as error:
                raise RuntimeError("because of it") from error
        try:
            fail()
        except RuntimeError:
            1 / 0
    """,
    "syntax": "print('never')\nfor in range(3):\n    pass\n",
    "syntax of a module": "import odd\n",
    "group": "raise ExceptionGroup('all of these',"
    " [ValueError(1), ExceptionGroup('and', [KeyError('x')])])\n",
    "recursion": "def deeper(n):\n    return deeper(n + 1)\ndeeper(0)\n",
    "interrupted": "import signal\nsignal.raise_signal(signal.SIGINT)\n",
    "system exit": "import sys\nsys.exit('nothing to learn from')\n",
    "system exit of another kind": "class Stop(SystemExit):\n    pass\nraise Stop(7)\n",
    "thread": """
        import threading
        def fail():
            raise ValueError("of the thread")
        thread = threading.Thread(target=fail, name="mine")
        thread.start()
        thread.join()
        raise SystemExit(4)
    """,
    "at exit": """
        import atexit
        def fail():
            raise ValueError("at exit")
        atexit.register(fail)
        raise SystemExit(5)
    """,
    "own hook": """
        import sys, traceback
        def hook(kind, error, trace):
            print("the hook", kind.__name__, file=sys.stderr)
            traceback.print_exception(kind, error, trace)
            print(trace.tb_frame.f_code.co_name, error.__traceback__ is trace, file=sys.stderr)
        sys.excepthook = hook
        raise ValueError("for the hook")
    """,
    "hook that fails": """
        import sys
        def hook(*_):
            raise LookupError("of the hook")
        sys.excepthook = hook
        raise ValueError("for the hook")
    """,
    "destructor": """
        class Odd:
            def __del__(self):
                raise ValueError("of a destructor")
        Odd()
        raise SystemExit(6)
    """,
    "stack": """
        import faulthandler, sys, traceback, warnings
        traceback.print_stack()
        faulthandler.dump_traceback()
        warnings.warn("of whoever calls the script", stacklevel=2)
        sys.exit(1)
    """,
}
WITH_LOADERS = {
    "sample": LOADER + "    BAD = 5\n    for batch in DataLoader(Numbers(), 2):\n        pass\n",
    "worker": LOADER
    + "    BAD = 5\n    for batch in DataLoader(Numbers(), 2, num_workers=1):\n        pass\n",
    "step": LOADER
    + """
    def step(batch):
        if batch.sum() > 4:
            raise ArithmeticError("not finite")
    for batch in DataLoader(Numbers(), 2):
        step(batch)
    """,
    "joining": """
    import torch.distributed
    torch.distributed.init_process_group("gloo", "nosuch://", rank=0, world_size=2)
    """,
}


def end(*command: str, cwd: Path) -> tuple[int, str, str]:
    """Exit code, stdout and stderr; pids and the addresses of objects are not compared."""
    done = subprocess.run(
        [sys.executable, *command],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    errors = re.sub(r"0x[0-9a-f]+", "0x", done.stderr)
    return done.returncode, done.stdout, re.sub(r"\(pid\(s\) [\d, ]+\)", "(pid)", errors)


def compare(tmp_path: Path, text: str, *, as_module: bool) -> tuple[int, str, str]:
    """How the script ends, both ways. Only our last line, about the end of the training, may differ."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "train.py").write_text(dedent(text))
    for folder in (tmp_path, tmp_path / "package"):
        (folder / "odd.py").write_text("print('never')\nx = (1,\n")
    target = ["-m", "package.train"] if as_module else ["package/train.py"]
    bare = end(*target, cwd=tmp_path)
    code, out, errors = end("-m", "loaderwatch", "run", *target, cwd=tmp_path)
    errors = re.sub(r"^loaderwatch: train crashed .*\n\Z", "", errors, flags=re.MULTILINE)
    assert (code, out, errors) == bare
    return bare


@pytest.mark.parametrize(
    ("name", "as_module"),
    [
        *((name, False) for name in SCRIPTS),
        *((name, True) for name in ("chained", "syntax", "own hook", "stack")),
    ],
)
def test_a_script_fails_as_under_python(tmp_path: Path, name: str, as_module: bool) -> None:
    if name == "group" and sys.version_info < (3, 11):
        pytest.skip("this Python has no exception groups")
    code, _, said = compare(tmp_path, SCRIPTS[name], as_module=as_module)
    assert code, "it fails"
    assert said or name == "system exit of another kind"
    assert "loaderwatch" not in said
    if name == "interrupted":
        assert code == -signal.SIGINT


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name == "sample" else ()) for name in WITH_LOADERS]
)
def test_a_training_fails_as_under_python(tmp_path: Path, name: str) -> None:
    """There our own frames are between the script's and PyTorch's."""
    code, _, said = compare(tmp_path, WITH_LOADERS[name], as_module=False)
    assert code == 1
    assert "Traceback" in said

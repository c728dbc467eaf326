"""Runs a script for the doctor: ``python -m loaderwatch.agent.launcher.bootstrap [-m] SCRIPT ARGS``.

The variable LOADERWATCH_DOCTOR is ``FOLDER:FD``. The script runs up to its first training batch. Then a
report of its loaders goes to the folder. With LOADERWATCH_TUNE, several settings of the loader are tried.
"""

from __future__ import annotations

import builtins
import faulthandler
import importlib.util
import os
import runpy
import sys
import traceback
import zipfile
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

from loaderwatch.agent.doctor.inspection import Inspection
from loaderwatch.agent.tuning.tune import tuner
from loaderwatch.core import environment_variables as variables

try:
    import resource
except ImportError:  # Windows, which writes no core files
    resource = None  # type: ignore[assignment]


def main(argv: Sequence[str]) -> None:
    """Run the script; its exceptions and its exit code are unchanged."""
    as_module = argv[0] == "-m"
    target, arguments = (argv[1], argv[2:]) if as_module else (argv[0], argv[1:])
    sys.argv = [target, *arguments]
    folder, _, leash = variables.DOCTOR.take().rpartition(":")
    wanted = variables.TUNE.take()
    inspection = Inspection(target, Path(folder), int(leash), tuner(wanted, Path(folder)) if wanted else None)
    inspection.install()
    faulthandler.enable()  # prints the stack when the doctor stops the script for taking too long
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    try:
        _run(target, as_module)
    except SystemExit as ended:
        inspection.ended(f"exit code {ended.code}" if ended.code else "")
        raise
    except BaseException as error:  # noqa: BLE001 - any end of the script is the answer
        inspection.ended(f"{type(error).__name__}: {error}")
        _print_from_script(error)
        raise SystemExit(1) from None
    inspection.ended("")


def _print_from_script(error: BaseException) -> None:
    """Print the traceback without the frames that ran the script."""
    trace = error.__traceback__
    while trace is not None and (
        trace.tb_frame.f_code.co_filename == __file__ or trace.tb_frame.f_globals.get("__name__") == "runpy"
    ):
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)


def _run(target: str, as_module: bool) -> None:
    if as_module:
        _check_module(target)
        runpy.run_module(target, run_name="__main__", alter_sys=True)
        return
    sys.path[0] = str(Path(target).resolve().parent)
    if zipfile.is_zipfile(target) or target.endswith(".pyc"):
        runpy.run_path(target, run_name="__main__")
    else:
        _run_source(target)


def _run_source(target: str) -> None:
    """Run a file as Python does: absolute ``__file__`` with links, given ``sys.argv[0]`` (unlike runpy)."""
    path = os.path.abspath(target)  # noqa: PTH100 - the same
    loader = SourceFileLoader("__main__", path)
    code = loader.source_to_code(loader.get_data(path), path)
    module = ModuleType("__main__")
    module.__dict__.update(__file__=path, __loader__=loader, __cached__=None, __builtins__=builtins)
    sys.modules["__main__"] = module
    exec(code, module.__dict__)


def _check_module(name: str) -> None:
    """Print what ``python -m`` prints for a module that does not exist, and exit as it does."""
    if _can_run(name):
        return
    try:
        runpy.run_module(name)  # raises an error with Python's own words
    except ImportError as error:
        sys.stderr.write(f"{sys.executable}: {error}\n")
    raise SystemExit(1)


def _can_run(name: str) -> bool:
    """Whether a module exists and, if it is a package, has a ``__main__``."""
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the package exists, but imports a missing module
        return False
    if spec is None:
        return False
    is_package = spec.submodule_search_locations is not None
    return not is_package or importlib.util.find_spec(f"{name}.__main__") is not None


if __name__ == "__main__":
    main(sys.argv[1:])

"""Inspects a script for ``loaderwatch doctor``: reports its loaders before its first training batch."""

from __future__ import annotations

import multiprocessing
import os
import platform
import sys
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.data import DataLoader, dataloader, get_worker_info

from loaderwatch.agent.doctor.probe import probe_loader
from loaderwatch.agent.loader_description import describe_loader, is_shuffled, shuffles_by_epoch
from loaderwatch.agent.loaders.naming import name_of, names_evaluation, unique
from loaderwatch.agent.process.identity import find_gpu_uuid, find_ranks, thread_limits
from loaderwatch.agent.source import (
    has_main_guard,
    iterates_itself,
    line_outside,
    source_names,
)
from loaderwatch.core.clock import wall_ns
from loaderwatch.core.facts import LoaderInfo, LoaderProbe, LoaderRole, ProcessInfo, ScriptReport, Tuning
from loaderwatch.core.files import write_atomically

MOST_LOADERS: Final = 32
UNLEASHED_S: Final = 60.0
"""How long a process of the script waits to be killed, in s: by then the doctor has its report or is dead."""


class Inspection:
    """The loaders of this process, from construction to the first training pass."""

    def __init__(
        self,
        script: str,
        folder: Path,
        leash: int | None,
        tuner: Callable[[Any, str | None], Tuning] | None = None,
    ) -> None:
        """Make an inspection that writes its report to ``folder``.

        ``leash`` is a file that ends when the doctor is gone. A process that the script started has no leash.
        If there is a ``tuner``, it tries settings of the training loader, and no samples are read. It
        receives the loader and the line that made it.
        """
        self._script = script
        self._folder = folder
        self._leash = leash
        self._tuner = tuner
        self._pid = os.getpid()
        self._loaders: list[tuple[weakref.ref[Any], str | None]] = []  # each with the line that made it
        self._passed_over: Any = None  # the loader of the last validation before training
        self._reported = False

    def install(self) -> None:
        """Install the hooks on DataLoader."""
        own_init, own_iter = DataLoader.__init__, DataLoader.__iter__
        own_begin = dataloader._BaseDataLoaderIter.__init__
        inspection = self

        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            try:
                own_init(self, *args, **kwargs)
            except (ValueError, TypeError, AssertionError) as error:
                inspection.refused(error)
                raise
            inspection.made(self)

        def __iter__(self: Any) -> Any:
            inspection.begins(self)
            return own_iter(self)

        def begin(self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
            inspection.begins(loader)  # also for subclasses with their own __iter__
            own_begin(self, loader, *args, **kwargs)

        DataLoader.__init__ = __init__  # type: ignore[method-assign]
        DataLoader.__iter__ = __iter__  # type: ignore[method-assign]
        dataloader._BaseDataLoaderIter.__init__ = begin  # type: ignore[method-assign]
        register_optimizer_step_pre_hook(self.steps)

    def _is_here(self) -> bool:
        """Whether this is the script or a forked rank, not a worker or the child that reads samples."""
        return get_worker_info() is None and not self._reported

    def made(self, loader: Any) -> None:
        """Note a loader that was just constructed."""
        if self._is_here():
            self._loaders.append((weakref.ref(loader), line_outside()))

    def refused(self, error: Exception) -> None:
        """Report the error that DataLoader's constructor raised."""
        if self._is_here():
            text = f"{type(error).__name__}: {error}"
            self._leave(ScriptReport(process=self._process([]), refusal=text, refused_line=line_outside()))

    def begins(self, loader: Any) -> None:
        """Write the report if a training loader is about to be iterated: then all loaders are known."""
        if not self._is_here():
            return
        if all(ref() is not loader for ref, _ in self._loaders):
            self._loaders.append((weakref.ref(loader), None))  # a subclass may not call DataLoader's __init__
        if not torch.is_grad_enabled() or (not is_shuffled(loader) and names_evaluation(name_of(loader))):
            self._passed_over = loader
            return  # a validation before training begins
        self._leave(self._look_at(loader))

    def steps(self, *_: Any) -> None:
        """Write the report if an optimizer is about to step: the skipped loader trains, whatever its name."""
        if self._passed_over is not None and self._is_here():
            self._leave(self._look_at(self._passed_over))

    def ended(self, how: str) -> None:
        """Report that the script ended without a training pass."""
        if self._is_here() and os.getpid() == self._pid:
            self._write(msgspec.structs.replace(self._report(None), ended=how))

    def _look_at(self, iterated: Any) -> ScriptReport:
        if self._tuner is None:
            return self._report(iterated)
        self._reported = True
        line = next((line for ref, line in self._loaders if ref() is iterated), None)
        return ScriptReport(process=self._process([]), tuning=self._tuner(iterated, line))

    def _report(self, iterated: Any) -> ScriptReport:
        self._reported = True
        alive = [(loader, line) for ref, line in self._loaders if (loader := ref()) is not None][
            -MOST_LOADERS:
        ]
        loaders = [loader for loader, _ in alive]
        infos: list[LoaderInfo] = []
        probes: list[LoaderProbe] = []
        for number, loader in enumerate(loaders):
            name = unique(name_of(loader), infos)
            role: LoaderRole = "train" if loader is iterated else _role(loader, name)
            info = describe_loader(loader, number, name, role, type(loader).__name__)
            infos.append(info)
            probes.append(probe_loader(loader, number, info.batch_size or 1, info.start_method))
        first = next((i for i, loader in enumerate(loaders) if loader is iterated), None)
        return ScriptReport(
            process=self._process(infos),
            probes=probes,
            main_guard=has_main_guard(self._script),
            made_at={number: line for number, (_, line) in enumerate(alive) if line is not None},
            epoch_never_set=[first] if first is not None and self._never_sets_epoch(iterated) else [],
        )

    def _never_sets_epoch(self, loader: Any) -> bool:
        return (
            shuffles_by_epoch(getattr(loader, "sampler", None))
            and iterates_itself()
            and not source_names(self._script, "set_epoch")
        )

    def _process(self, infos: list[LoaderInfo]) -> ProcessInfo:
        ranks = find_ranks()
        return ProcessInfo(
            pid=os.getpid(),
            rank=ranks.rank,
            local_rank=ranks.local_rank,
            world_size=ranks.world_size,
            started_ns=wall_ns(),
            name=Path(self._script).name,
            python=platform.python_version(),
            torch=str(torch.__version__),
            gpu_uuid=find_gpu_uuid(),
            loaders=infos,
            cuda=bool(torch.cuda.is_initialized()),  # type: ignore[no-untyped-call]
            thread_limits=thread_limits(),
        )

    def _write(self, report: ScriptReport) -> None:
        write_atomically(self._folder / f"{report.process.rank}.json", msgspec.json.encode(report))

    def _leave(self, report: ScriptReport) -> NoReturn:
        """Write the report and end the process, so that training does not begin even after an ``except``."""
        self._write(report)
        sys.stdout.flush()
        sys.stderr.flush()
        if self._leash is None:
            time.sleep(UNLEASHED_S)
        else:
            os.read(self._leash, 1)  # other ranks may still need this one to reach their first batch
        for child in multiprocessing.active_children():
            child.terminate()
        os._exit(0)


def _role(loader: Any, name: str) -> LoaderRole:
    return "train" if is_shuffled(loader) and not names_evaluation(name) else "eval"

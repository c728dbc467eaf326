"""Attaches to scripts without loaderwatch: at a DataLoader's first iteration or an optimizer's steps.

Before that only ranks are watched (see ``rank_start``). A launcher or a script without a loader is not
watched and does not import torch because of us.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from loaderwatch.agent.guard import shield
from loaderwatch.agent.launcher.rank_start import begin_rank, mark_rank, watch_joining
from loaderwatch.agent.launcher.unwatched import await_end, found
from loaderwatch.agent.loaders import construction
from loaderwatch.agent.loaders.class_hook import IterHook
from loaderwatch.core import environment_variables as variables

MODULE: Final = "torch.utils.data.dataloader"
OPTIMIZERS: Final = "torch.optim.optimizer"
STEPS: Final = 3
"""Optimizer steps after which a process without a DataLoader counts as training."""
SITE: Final = Path(__file__).parent / "site"
"""The folder on PYTHONPATH that makes every Python process call ``start``."""

Hook = Callable[[Any], None]


def python_path(now: str | None) -> str:
    """Return a PYTHONPATH with which every Python process calls ``start``."""
    return os.pathsep.join(part for part in (str(SITE), now) if part)


def start() -> None:
    """Prepare a Python process of ``loaderwatch run`` (attach on demand) or of the doctor (report to it)."""
    folder = variables.DOCTOR_FOLDER.read()
    if folder is None:
        install()
        if mark_rank():
            _import_hooks({"torch": begin_rank})
        await_end()
    elif not variables.DOCTOR.read():  # the bootstrap has this variable and inspects by itself
        install(_inspecting(folder))


def install(hook: Hook | None = None) -> None:
    """Hook DataLoader now, or as soon as torch is imported."""
    _once_imported(MODULE, hook or _hook)


def _once_imported(name: str, hook: Hook) -> None:
    module = sys.modules.get(name)
    if module is not None:
        hook(module)
    else:
        _import_hooks({name: hook})


def _import_hooks(hooks: dict[str, Hook]) -> None:
    """Call each hook with its module once the module is imported. Each module keeps its first hook only."""
    finder = next((finder for finder in sys.meta_path if isinstance(finder, _Finder)), None)
    if finder is None:
        finder = _Finder()
        sys.meta_path.insert(0, finder)
    finder.hooks = {**hooks, **finder.hooks}


class _Finder(MetaPathFinder):
    """An import finder: other finders find a module, and this one calls a hook after its load."""

    def __init__(self) -> None:
        self.hooks: dict[str, Hook] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        hook = self.hooks.pop(fullname, None)  # so that the search below skips this finder
        if hook is None:
            return None
        if not self.hooks:
            sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        loader: Any = None if spec is None else spec.loader
        if loader is None:
            return spec
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            hook(module)

        loader.exec_module = exec_module
        return spec


def _hook(module: Any) -> None:
    shield(_hide_from_compile)()  # the attaching first iteration may be inside a compiled function

    def attach_first(loader: Any, own: Callable[[Any], Any]) -> Any:
        hook.remove()
        _attach()
        substitutes = sys.modules.get("loaderwatch.agent.loaders.substitutes")
        # It is missing if nothing is watched, e.g. with an unknown version of PyTorch.
        return own(loader) if substitutes is None else substitutes.arriving(loader, own)

    hook = IterHook(module.DataLoader, attach_first)
    hook.install()
    tuned = variables.TUNED.read()
    if tuned is not None:
        shield(_apply_tuned)(module.DataLoader, tuned)
    construction.install(module.DataLoader)
    shield(watch_joining)()

    def attach_alone() -> None:
        hook.remove()
        _attach()

    _once_imported(OPTIMIZERS, lambda found: shield(_await_steps)(found, attach_alone))


def _attach() -> None:
    shield(found)()
    import loaderwatch

    loaderwatch.attach()


def _await_steps(optimizers: Any, attach: Callable[[], None]) -> None:
    """Attach once optimizers have stepped a few times: the script trains without a DataLoader."""
    from loaderwatch.agent.model.optimizer_hooks import set_early

    hooks = set_early(optimizers)
    steps = itertools.count(1)

    def stepped(optimizer: Any, *_: object) -> None:
        hooks.note_step(optimizer)
        if next(steps) == STEPS:
            hooks.silence()
            attach()

    hooks.aim(lambda *_: None, shield(stepped))


def _apply_tuned(kind: Any, setting: str) -> None:
    from loaderwatch.agent.tuning.setting import apply_tuned

    apply_tuned(kind, setting)


def _hide_from_compile() -> None:
    from loaderwatch.agent.model.compilers import hide_from_compile

    hide_from_compile()


def _inspecting(folder: Path) -> Hook:
    def hook(module: Any) -> None:
        kind = module.DataLoader
        own = kind.__init__

        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            kind.__init__ = own
            from loaderwatch.agent.doctor.inspection import Inspection

            Inspection(sys.argv[0], folder, None).install()
            kind.__init__(self, *args, **kwargs)

        kind.__init__ = __init__

    return hook

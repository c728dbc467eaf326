"""``attach()`` at the first iteration of any DataLoader: for scripts that do not name loaderwatch themselves.

Nothing happens before: a launcher, or a script without a loader, is not watched and does not even import torch for us.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

MODULE: Final = "torch.utils.data.dataloader"


def install() -> None:
    """Hook into DataLoader now, or as soon as torch is imported."""
    module = sys.modules.get(MODULE)
    if module is not None:
        _hook(module)
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Lets the other finders find the module, and hooks into it once it is loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        loader: Any = None if spec is None else spec.loader
        if loader is None:
            return spec
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            _hook(module)

        loader.exec_module = exec_module
        return spec


def _hook(module: Any) -> None:
    kind = module.DataLoader
    own = kind.__iter__

    def __iter__(self: Any) -> Any:
        kind.__iter__ = own
        import loaderwatch

        loaderwatch.attach()
        return kind.__iter__(self)

    kind.__iter__ = __iter__

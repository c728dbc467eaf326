"""torch.compile of a watched training: the same numbers, and no additional graph, break or recompilation."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable
from types import CodeType
from typing import Any, Final

import torch
from torch import nn

from tests.compat.case import Watcher, case, seed
from tests.compat.training import Net, data, error_of, setup, state, train

OLD: Final = tuple(int(part) for part in torch.__version__.split(".")[:2]) <= (2, 4)
"""Has one more graph break, at an optimizer's hooks, if a whole step is compiled; the numbers are equal."""


def _counted(body: Callable[[], Any], *, stepping: bool = False) -> list[Any]:
    """What it gives, what torch.compile counted meanwhile, and the frames of ours that it compiled.

    Breaks by number: the reasons name functions.
    """
    import torch._dynamo
    from torch._dynamo.convert_frame import register_bytecode_hook
    from torch._dynamo.utils import counters

    ours: list[str] = []

    def note(code: CodeType, new_code: CodeType) -> None:
        if "/loaderwatch/" in code.co_filename:
            ours.append(code.co_qualname if hasattr(code, "co_qualname") else code.co_name)

    logging.getLogger("torch").setLevel(logging.ERROR)  # its lines bear the time
    torch._dynamo.reset()
    counters.clear()
    handle = register_bytecode_hook(note)
    with warnings.catch_warnings():
        # Of modules of PyTorch's own that the first compilation in a process imports.
        warnings.filterwarnings("ignore", ".*torch.jit.script_method", DeprecationWarning)
        given = body()
    handle.remove()
    if stepping and OLD:
        return [given, ours]
    return [
        given,
        sum(counters["graph_break"].values()),
        {name: counters[name] for name in ("stats", "recompiles")},
        ours,
    ]


@case()
def compiled_model(watch: Watcher) -> Any:
    """Attach before compiling, after it, and the compiled model; whole graphs, with another size last."""
    seen: list[Any] = []
    for backend in ("eager", "aot_eager"):
        for order in ("before", "after", "compiled"):

            def body(backend: str = backend, order: str = order) -> Any:
                seed()
                model = Net()
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                loader = data(22)
                if order == "before":
                    watch(loader, model=model, optimizer=optimizer)
                made = torch.compile(model, backend=backend, fullgraph=True)
                if order == "after":
                    watch(loader, model=model, optimizer=optimizer)
                elif order == "compiled":
                    watch(loader, model=made, optimizer=optimizer)
                losses = [train(made, optimizer, loader), train(made, optimizer, loader)]
                return [losses, state(model), [*made.state_dict()]]  # type: ignore[attr-defined]

            seen.append(_counted(body, stepping=True))  # PyTorch 2.4 recompiles when the model is found
    return seen


@case()
def compiled_in_place(watch: Watcher) -> Any:
    def body() -> Any:
        model, optimizer, loader = setup(watch)
        model.compile(backend="eager", fullgraph=True)
        return [train(model, optimizer, loader), train(model.eval(), optimizer, loader), state(model)]

    return _counted(body)


@case()
def compiled_step(watch: Watcher) -> Any:
    """A whole step as one compiled function, with autocast and a clipped gradient."""

    def body() -> Any:
        model, optimizer, loader = setup(watch)

        def step(x: torch.Tensor, y: torch.Tensor) -> Any:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = error_of(model, x, y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return loss

        made = torch.compile(step, backend="eager")
        return [[made(x, y) for x, y in loader], state(model)]

    return _counted(body, stepping=True)


@case()
def compiled_loop(watch: Watcher) -> Any:
    """The loop itself inside a compiled function, and an optimizer's compiled step."""

    def body() -> Any:
        model, optimizer, loader = setup(watch)
        made = torch.compile(train, backend="eager")
        return [made(model, optimizer, loader), made(model, optimizer, loader), state(model)]

    def stepped() -> Any:
        model, optimizer, loader = setup(watch)
        step: Any = torch.compile(optimizer.step, backend="eager")
        losses = []
        for x, y in loader:
            optimizer.zero_grad()
            loss = error_of(model, x, y)
            loss.backward()
            step()
            losses.append(loss)
        return [losses, state(model)]

    return [_counted(body, stepping=True), _counted(stepped, stepping=True)]


@case()
def compiled_copies(watch: Watcher) -> Any:
    """Copies of a watched model are compiled, and trained, as those of any other."""
    import copy

    def body() -> Any:
        model, _, loader = setup(watch)
        again = copy.deepcopy(model)
        own = torch.optim.SGD(again.parameters(), lr=0.1)
        return train(torch.compile(again, backend="eager", fullgraph=True), own, loader)

    return _counted(body)


@case()
def exported(watch: Watcher) -> Any:
    model, optimizer, loader = setup(watch)
    losses = train(model, optimizer, loader)
    made = torch.export.export(model.eval(), (torch.ones(3, 4),))
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(made, file)
    file.seek(0)
    return [losses, made.module()(torch.ones(3, 4)), str(made.graph), train(model.train(), optimizer, loader)]


@case(long=True)
def compiled_by_inductor(watch: Watcher) -> Any:
    """The default backend, which needs a C++ compiler."""

    def body() -> Any:
        seed()
        model = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = watch(data(), model=model, optimizer=optimizer)
        return [train(torch.compile(model), optimizer, loader), state(model)]

    return _counted(body)

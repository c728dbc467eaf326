"""What people do with a model besides training it: copy, save, script, trace, export. While it is watched."""

from __future__ import annotations

import copy
import io
import multiprocessing
import pickle
import warnings
from typing import Any

import torch
from torch import fx, nn

from tests.compat.case import ATTACHED, Watcher, case, failure
from tests.compat.training import Net, data, setup, state, train

ONES = torch.ones(3, 4)


def _round_trip(value: Any) -> Any:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@case(ways=(ATTACHED,))
def saved_whole(watch: Watcher) -> Any:
    """``torch.save(model)`` and what it gives back, which trains on."""
    model, optimizer, loader = setup(watch)
    seen: list[Any] = [train(model, optimizer, loader)]
    for again in (
        _round_trip(model),
        pickle.loads(pickle.dumps(model)),
        copy.deepcopy(model),
        copy.copy(model),
    ):
        seen.append(train(again, torch.optim.SGD(again.parameters(), lr=0.1), loader))
        seen.append([state(again), [*vars(again)]])
    return seen


@case(ways=(ATTACHED,))
def saved_optimizer(watch: Watcher) -> Any:
    model, optimizer, loader = setup(watch, torch.optim.AdamW)
    seen: list[Any] = [train(model, optimizer, loader)]
    for other, own in (_round_trip((model, optimizer)), copy.deepcopy((model, optimizer))):
        seen.append([own.state_dict(), sorted(vars(own)), train(other, own, loader)])
    return seen


@case(ways=(ATTACHED,))
def saved_states(watch: Watcher) -> Any:
    """Checkpoints hold the same keys in the same order, and load with ``weights_only``."""
    model, optimizer, loader = setup(watch)
    train(model, optimizer, loader)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    return [torch.load(file, weights_only=True), [*model.state_dict()], [*dict(model.named_modules())]]


def _of_another_process(model: nn.Module, out: Any) -> None:
    out.put(model.eval()(ONES).tolist())


@case(ways=(ATTACHED,), long=True)
def sent_to_a_process(watch: Watcher) -> Any:
    """A watched model as an argument of a spawned process."""
    model, optimizer, loader = setup(watch)
    train(model, optimizer, loader)
    context = multiprocessing.get_context("spawn")
    out = context.SimpleQueue()
    child = context.Process(target=_of_another_process, args=(model, out))
    child.start()
    answer = out.get() if child.exitcode is None else None
    child.join()
    return [answer, child.exitcode]


@case(ways=(ATTACHED,))
def traced(watch: Watcher) -> Any:
    model, optimizer, loader = setup(watch)
    losses = train(model, optimizer, loader)
    made = torch.jit.trace(model.eval(), ONES)  # type: ignore[no-untyped-call]
    return [losses, made(ONES), str(made.graph).count("aten::"), train(model.train(), optimizer, loader)]


@case(ways=(ATTACHED,))
def scripted(watch: Watcher) -> Any:
    """Scripted alone and inside another module; training goes on, watched."""
    model, optimizer, loader = setup(watch)
    seen: list[Any] = [train(model, optimizer, loader)]
    for one in (model.eval(), nn.Sequential(model, nn.ReLU())):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            made = torch.jit.script(one)
        file = io.BytesIO()
        torch.jit.save(made, file)
        file.seek(0)
        seen.append(
            [made(ONES), torch.jit.load(file)(ONES), [*made.state_dict()]]  # type: ignore[no-untyped-call]
        )
    return [seen, train(model.train(), optimizer, loader), state(model)]


@case(ways=(ATTACHED,))
def symbolically_traced(watch: Watcher) -> Any:
    model, optimizer, loader = setup(watch)
    made = fx.symbolic_trace(model)
    return [made.code, train(made, optimizer, loader)]


@case(ways=(ATTACHED,))
def quantized(watch: Watcher) -> Any:
    model, optimizer, loader = setup(watch)
    train(model, optimizer, loader)
    return failure(
        lambda: torch.ao.quantization.quantize_dynamic(  # type: ignore[no-untyped-call]
            model.eval(), {nn.Linear}
        )(ONES)
    )


@case(ways=(ATTACHED,))
def wrapped_later(watch: Watcher) -> Any:
    """A watched model that becomes part of another one, which is watched, too."""
    model, optimizer, loader = setup(watch)
    outer = nn.Sequential(model, nn.Linear(2, 2))
    own = torch.optim.SGD(outer.parameters(), lr=0.1)
    watch(loader, model=outer, optimizer=own)
    return [train(outer, own, loader), train(model, optimizer, loader), state(outer)]


@case(ways=(ATTACHED,))
def two_loaders_one_model(watch: Watcher) -> Any:
    model, optimizer, loader = setup(watch)
    other = watch(data(8), name="other", model=model)
    return [train(model, optimizer, [*loader, *other]), train(Net(), optimizer, other)]

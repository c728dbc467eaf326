"""Training loops as people write them, with model and optimizer watched."""

from __future__ import annotations

import contextlib
import copy
import warnings
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn.utils import prune
from torch.optim import lr_scheduler
from torch.optim.swa_utils import AveragedModel, update_bn
from torch.utils.checkpoint import checkpoint

from tests.compat.case import ATTACHED, Watcher, case, seed
from tests.compat.training import Net, data, error_of, setup, state, train


@case(ways=(ATTACHED,))
def plain(watch: Watcher) -> Any:
    model, optimizer, loader = setup(watch)
    return [
        train(model, optimizer, loader),
        train(model, optimizer, loader),
        state(model),
        optimizer.state_dict(),
    ]


@case(ways=(ATTACHED,))
def gradient_accumulation(watch: Watcher) -> Any:
    model, optimizer, loader = setup(watch)
    losses = []
    for number, (x, y) in enumerate(loader, 1):
        loss = error_of(model, x, y) / 3
        loss.backward()
        losses.append(loss)
        if number % 3 == 0:
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
    return [losses, state(model), [one.grad for one in model.parameters()]]


@case(ways=(ATTACHED,))
def one_forward_many_calls(watch: Watcher) -> Any:
    """The model called several times per step, and inside another module."""
    model, optimizer, loader = setup(watch)
    outer = nn.Sequential(model, nn.Tanh())
    losses = []
    for x, y in loader:
        optimizer.zero_grad()
        loss = error_of(outer, x, y) + error_of(model, x + 1, y) * error_of(model, x - 1, y)
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return [losses, state(model)]


@case(ways=(ATTACHED,))
def adversaries(watch: Watcher) -> Any:
    """Two models, two optimizers, and one loader: a GAN's loop."""
    seed()
    maker, judge = nn.Linear(2, 4), nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    makes = torch.optim.Adam(maker.parameters(), lr=0.01)
    judges = torch.optim.Adam(judge.parameters(), lr=0.01)
    loader = watch(data(), model=maker, optimizer=makes)
    watch(loader, model=judge, optimizer=judges)
    decide = nn.BCEWithLogitsLoss()
    losses = []
    for x, _ in loader:
        made = maker(torch.randn(len(x), 2))
        ones, zeros = torch.ones(len(x), 1), torch.zeros(len(x), 1)
        judges.zero_grad()
        judged = decide(judge(x), ones) + decide(judge(made.detach()), zeros)
        judged.backward()
        judges.step()
        makes.zero_grad()
        fooled = decide(judge(made), ones)
        fooled.backward()
        makes.step()
        losses += [judged, fooled]
    return [losses, state(maker), state(judge)]


@case(ways=(ATTACHED,))
def closures(watch: Watcher) -> Any:
    model, optimizer, loader = setup(watch, torch.optim.LBFGS, max_iter=4)
    losses = []
    for x, y in loader:

        def again(x: torch.Tensor = x, y: torch.Tensor = y) -> Any:
            optimizer.zero_grad()
            loss = error_of(model, x, y)
            loss.backward()
            return loss

        losses.append(optimizer.step(again))
    return [losses, state(model)]


@case(ways=(ATTACHED,))
def schedulers(watch: Watcher) -> Any:
    """Made before and after attach, in the right order and in the wrong one, with PyTorch's own warning."""
    rates: list[Any] = []
    for kind, options in (
        (lr_scheduler.StepLR, {"step_size": 2}),
        (lr_scheduler.OneCycleLR, {"max_lr": 0.2, "total_steps": 30}),
        (lr_scheduler.CosineAnnealingWarmRestarts, {"T_0": 3}),
    ):
        for early in (True, False):
            seed()
            model: Any = Net()
            optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
            before = kind(optimizer, **options) if early else None
            loader = watch(data(), model=model, optimizer=optimizer)
            scheduler = before or kind(optimizer, **options)
            for x, y in loader:
                optimizer.zero_grad()
                error_of(model, x, y).backward()
                optimizer.step()
                scheduler.step()
                rates.append(scheduler.get_last_lr())
    model, optimizer, loader = setup(watch)
    wrong = lr_scheduler.ExponentialLR(optimizer, 0.5)
    wrong.step()  # warns: before optimizer.step()
    return [rates, train(model, optimizer, loader), wrong.get_last_lr(), state(model)]


@case(ways=(ATTACHED,))
def mixed_precision(watch: Watcher) -> Any:
    model, optimizer, loader = setup(watch)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    off = torch.amp.GradScaler("cpu", enabled=False)
    losses = []
    for number, (x, y) in enumerate([*loader, *loader]):
        used = off if number % 4 == 3 else scaler
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = error_of(model, x, y)
        if number == 2:
            loss = loss * float("inf")  # a step that the scaler skips
        used.scale(loss).backward()
        used.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        used.step(optimizer)
        used.update()
        losses.append(loss)
    return [losses, scaler.get_scale(), scaler.state_dict(), state(model)]


@case(ways=(ATTACHED,))
def averages(watch: Watcher) -> Any:
    """Weight averaging: an EMA copy and SWA, made of a model that is already watched, and evaluated."""
    model, optimizer, loader = setup(watch)
    swa = AveragedModel(model)
    ema = copy.deepcopy(model).requires_grad_(False)
    for x, y in loader:
        optimizer.zero_grad()
        error_of(model, x, y).backward()
        optimizer.step()
        swa.update_parameters(model)
        with torch.no_grad():
            for mine, other in zip(ema.parameters(), model.parameters(), strict=True):
                mine.lerp_(other, 0.25)
    update_bn(loader, swa)
    again = copy.deepcopy(model)
    own = torch.optim.SGD(again.parameters(), lr=0.1)
    return [
        [*swa.state_dict()],
        state(swa),
        state(ema),
        ema.eval()(torch.ones(2, 4)),
        train(again, own, loader),  # the copy is trained on
        train(model, optimizer, loader),
        state(model),
    ]


@case(ways=(ATTACHED,))
def evaluation(watch: Watcher) -> Any:
    """``no_grad``, ``inference_mode`` and ``eval()`` in turn with training, each with its own loader."""
    model, optimizer, loader = setup(watch)
    held = watch(data(8, shuffle=False), role="eval", model=model)
    seen: list[Any] = []
    for mode in (torch.no_grad, torch.inference_mode, contextlib.nullcontext):
        seen.append(train(model, optimizer, loader))
        model.eval()
        with mode():
            seen.append([error_of(model, x, y).item() for x, y in held])
        model.train()
    return [seen, state(model)]


@case(ways=(ATTACHED,))
def checkpointing(watch: Watcher) -> Any:
    seen: list[Any] = []
    for reentrant in (True, False):
        model, optimizer, loader = setup(watch)
        for x, y in loader:
            optimizer.zero_grad()
            out = checkpoint(model, x.requires_grad_(), use_reentrant=reentrant)
            loss = ((out - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            seen.append(loss)
        seen.append(state(model))
    return seen


@case(ways=(ATTACHED,))
def graphs_kept(watch: Watcher) -> Any:
    """``retain_graph``, ``create_graph``, double backward, ``autograd.grad``, and a loss without backward."""
    model, optimizer, loader = setup(watch)
    seen: list[Any] = []
    for x, y in loader:
        optimizer.zero_grad()
        loss = error_of(model, x.requires_grad_(), y)
        loss.backward(retain_graph=True)
        loss.backward()
        seen.append([one.grad for one in model.parameters()])
        optimizer.step()
        optimizer.zero_grad()
        (slope,) = torch.autograd.grad(error_of(model, x, y), x, create_graph=True)
        (error_of(model, x, y) + slope.pow(2).sum()).backward()
        optimizer.step()
        error_of(model, x, y)
        seen.append(x.grad)
    try:
        loss.backward()
    except RuntimeError as error:
        seen.append(error)
    return [seen, state(model)]


@case(ways=(ATTACHED,))
def functional(watch: Watcher) -> Any:
    """torch.func over a watched model: per-sample gradients, in the loop."""
    seed()
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = watch(data(), model=model, optimizer=optimizer)
    seen: list[Any] = []

    def loss(parameters: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = functional_call(model, parameters, (x[None],))
        return ((out - y) ** 2).sum()

    for x, y in loader:
        weights = {name: one.detach() for name, one in model.named_parameters()}
        each = vmap(grad(loss), (None, 0, 0))(weights, x, y)
        for name, one in model.named_parameters():
            one.grad = each[name].mean(0)
        optimizer.step()
        seen.append({name: one.norm() for name, one in each.items()})
    return [seen, train(model, optimizer, loader), state(model)]


@case(ways=(ATTACHED,))
def hooks_of_the_user(watch: Watcher) -> Any:
    """The user's module, tensor, gradient and optimizer hooks: order, ``always_call``, removal, values."""
    seed()
    model: Any = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    said: list[str] = []

    def tell(what: str, answer: Any = None) -> Any:
        def told(*_: Any, **__: Any) -> Any:
            said.append(what)
            return answer

        return told

    before = [
        model.register_forward_pre_hook(tell("pre 1")),
        model.register_forward_hook(tell("post 1"), always_call=True),
        model.register_full_backward_hook(tell("full 1")),
        optimizer.register_step_pre_hook(tell("step pre 1")),
    ]
    loader = watch(data(), model=model, optimizer=optimizer)
    after = [
        model.register_forward_pre_hook(lambda _, inputs: (inputs[0] * 2,)),
        model.register_forward_pre_hook(tell("pre first"), prepend=True),
        model.register_forward_pre_hook(tell("pre with names"), with_kwargs=True),
        model.register_forward_hook(lambda _, __, out: out + 1),
        model.register_forward_hook(tell("post first"), prepend=True),
        model.register_full_backward_pre_hook(tell("full pre")),
        optimizer.register_step_pre_hook(tell("step pre 2")),
        optimizer.register_step_post_hook(tell("step post")),
        model.last.weight.register_hook(lambda gradient: gradient * 3),
        model.last.bias.register_post_accumulate_grad_hook(tell("bias")),
    ]
    losses: list[Any] = [train(model, optimizer, loader, 2)]
    for handle in (before[0], after[0], after[3], after[8]):
        handle.remove()
    losses.append(train(model, optimizer, loader, 2))
    broken = model.register_forward_pre_hook(lambda *_: 1 / 0)
    try:
        train(model, optimizer, loader)
    except ZeroDivisionError as error:
        losses.append(error)
    broken.remove()
    losses.append(train(model, optimizer, loader, 2))
    for handle in (*before, *after):
        handle.remove()
    return [losses, said, train(model, optimizer, loader), state(model)]


@case(ways=(ATTACHED,))
def hooks_left(watch: Watcher) -> Any:
    """After ``detach()`` nothing of ours is left in model, optimizer and loader."""
    model, optimizer, loader = setup(watch)
    losses = train(model, optimizer, loader)
    watch.detach(loader)
    return [
        losses,
        train(model, optimizer, loader),
        type(loader),
        sorted(vars(loader)),
        sorted(vars(optimizer)),
    ]


@case(ways=(ATTACHED,))
def data_parallel(watch: Watcher) -> Any:
    """Without GPUs ``DataParallel`` calls the module inside it directly."""
    seed()
    model = nn.DataParallel(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = watch(data(), model=model, optimizer=optimizer)
    return [train(model, optimizer, loader), state(model), [*model.state_dict()]]


@case(ways=(ATTACHED,))
def outputs(watch: Watcher) -> Any:
    """Models that return dicts, tuples, nothing with a gradient, the loss itself, or their own input."""

    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Net()
            self.kind = ""

        def forward(self, x: torch.Tensor, *, y: torch.Tensor) -> Any:
            out = self.inner(x)
            return {
                "dict": {"logits": out, "loss": ((out - y) ** 2).mean()},
                "tuple": (None, (out, [y])),
                "loss": ((out - y) ** 2).mean(),
                "none": None,
                "input": x,
                "view": out.view(-1)[1:],
            }[self.kind]

    seed()
    model = Odd()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = watch(data(), model=model, optimizer=optimizer)
    seen: list[Any] = []
    for model.kind in ("dict", "tuple", "loss", "none", "input", "view"):
        for x, y in loader:
            out = model(x, y=y)
            optimizer.zero_grad()
            if model.kind in ("dict", "loss"):
                (out if model.kind == "loss" else out["loss"]).backward()
            elif model.kind in ("tuple", "view"):
                (out[1][0] if model.kind == "tuple" else out).sum().backward()
            optimizer.step()
            seen.append(out)
    return [seen, state(model)]


@case(ways=(ATTACHED,))
def parameters_change(watch: Watcher) -> Any:
    """Frozen and thawed layers, replaced weights, a new group, other dtypes, ``load_state_dict``, ``to``."""
    model, optimizer, loader = setup(watch)
    saved = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())
    seen: list[Any] = []
    model.last.requires_grad_(False)
    seen.append(train(model, optimizer, loader))
    model.last.requires_grad_(True)
    model.last.weight = nn.Parameter(torch.ones(2, 8))
    optimizer.add_param_group({"params": [model.last.weight], "lr": 0.01})
    seen.append(train(model, optimizer, loader))
    optimizer.param_groups.pop()
    model.load_state_dict(saved[0])
    optimizer.load_state_dict(saved[1])
    seen.append(train(model, optimizer, loader))
    model.double()
    for x, y in loader:
        optimizer.zero_grad()
        error_of(model, x.double(), y.double()).backward()
        optimizer.step()
    return [seen, state(model)]


@case(ways=(ATTACHED,))
def spectral_and_pruned(watch: Watcher) -> Any:
    """Parametrized weights, which change the class of a module, and pruned ones, which add hooks to it."""
    model, optimizer, loader = setup(watch)
    nn.utils.parametrizations.spectral_norm(model.first)
    prune.l1_unstructured(model.last, "weight", 0.5)  # type: ignore[no-untyped-call]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = train(model, optimizer, loader)
    prune.remove(model.last, "weight")  # type: ignore[no-untyped-call]
    nn.utils.parametrize.remove_parametrizations(model.first, "weight")
    return [losses, state(model)]


@case(ways=(ATTACHED,))
def warnings_of_the_user(watch: Watcher) -> Any:
    """Warnings raised by a model and its loop point at the same lines."""
    model, optimizer, loader = setup(watch)
    model.register_forward_hook(lambda *_: warnings.warn("of the model", UserWarning, stacklevel=2))
    return train(model, optimizer, loader)

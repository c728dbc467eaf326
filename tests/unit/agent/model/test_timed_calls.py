"""A watched model's calls: timed, the same to the user, and the model's alone."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import traceback
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from loaderwatch.agent.hot import in_python
from loaderwatch.agent.hot.calls import FIELD
from loaderwatch.agent.model import compilers, timed_calls
from loaderwatch.agent.model.compilers import _hooks_aside, hide_from_script, show_to_script
from loaderwatch.agent.model.timed_calls import TimedCalls

try:
    from loaderwatch.agent.hot import _hot as compiled
except ImportError:
    compiled = None  # type: ignore[assignment]


class Net(torch.nn.Module):
    def __init__(self, scale: float = 2.0) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(scale))

    def forward(self, x: Any, *, more: float = 0.0) -> Any:
        if x is None:
            raise ValueError("nothing to compute")
        return x * self.scale + more


@pytest.fixture(
    params=[
        pytest.param(in_python, id="python"),
        pytest.param(
            compiled,
            id="compiled",
            marks=pytest.mark.skipif(compiled is None, reason="installed without a C compiler"),
        ),
    ]
)
def hot(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Either hot path, under the modules that choose one."""
    monkeypatch.setattr(
        timed_calls,
        "ClassCalls",
        type(
            "ClassCalls",
            (request.param.CallsOf,),
            {name: vars(timed_calls.ClassCalls)[name] for name in ("__reduce__", "without")},
        ),
    )
    monkeypatch.setattr(timed_calls, "TimedCall", request.param.TimedCall)
    monkeypatch.setattr(compilers, "CallsOf", request.param.CallsOf)
    return request.param


@pytest.fixture
def clock(hot: Any) -> Any:
    def note(fault: Exception) -> None:
        raise fault

    class Clock(hot.PhaseClock):  # type: ignore[misc]
        outputs: list[Any]

        def moved(self, inputs: Any) -> None:
            self.inputs = inputs

        def look_at_output(self, module: Any, output: Any) -> None:
            self.outputs.append((module, output))

    made = Clock(None, torch.Tensor, torch.is_grad_enabled, print, note)
    made.outputs = []
    return made


@pytest.fixture
def calls(clock: Any) -> Iterator[TimedCalls]:
    made = TimedCalls(clock)
    yield made
    made.remove()
    assert FIELD not in vars(Net)


def test_a_call_is_timed_and_gives_the_same(calls: TimedCalls, clock: Any) -> None:
    model, x = Net(), torch.ones(2)
    expected = model(x, more=1.0)
    calls.add(model)
    output = model(x, more=1.0)
    assert torch.equal(output, expected)
    assert clock.forward_ns > 0
    assert clock.forward_depth == 0
    ((looked_at, seen),) = clock.outputs
    assert looked_at is model
    assert seen is output


def test_what_lies_elsewhere_is_told_whole(calls: TimedCalls, clock: Any) -> None:
    class Any2(Net):
        def forward(self, *x: Any, **_: Any) -> Any:
            return x

    model = Any2()
    calls.add(model)
    assert model("words", 2) == ("words", 2)
    assert clock.inputs == ("words", 2)


def test_an_error_is_the_users(calls: TimedCalls, clock: Any) -> None:
    model = Net()
    calls.add(model)
    with pytest.raises(ValueError, match="nothing to compute") as caught:
        model(None)
    assert not [
        one for one in traceback.extract_tb(caught.value.__traceback__) if "loaderwatch/agent" in one.filename
    ]
    assert clock.forward_depth == clock.forward_since == 0
    model(torch.ones(1))  # as after an out-of-memory error, in the same step
    assert clock.forward_ns > 0


def test_no_copy_is_timed_or_computes_with_anothers_weights(calls: TimedCalls, clock: Any) -> None:
    """Neither one by Python's protocols, nor a replica, which takes over the fields as they are."""
    model = Net()
    calls.add(model)
    replica: Any = model._replicate_for_data_parallel()  # type: ignore[no-untyped-call]
    fields_of = Net.__new__(Net)
    fields_of.__dict__ = dict(vars(model))
    for one in (replica, fields_of):
        one._parameters = {"scale": torch.nn.Parameter(torch.tensor(10.0))}
        assert one(torch.ones(1)).item() == 10.0
    for one in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert one(torch.ones(1)).item() == 2.0
        assert vars(one).keys() == vars(model).keys()
    assert clock.forward_ns == 0
    assert FIELD not in vars(model)


def test_others_of_its_class_and_subclasses_are_not_timed(calls: TimedCalls, clock: Any) -> None:
    class Finer(Net):
        pass

    model, other, finer = Net(), Net(), Finer()
    calls.add(model)
    other(torch.ones(1))
    finer(torch.ones(1))
    assert clock.forward_ns == 0
    calls.add(finer)
    finer(torch.ones(1))
    first = clock.forward_ns
    model(torch.ones(1))
    assert 0 < first < clock.forward_ns


def test_what_compile_has_set_goes_first(calls: TimedCalls, clock: Any) -> None:
    model = Net()
    calls.add(model)
    model._compiled_call_impl = lambda x: x + 7
    assert model(torch.ones(1)).item() == 8.0
    assert vars(copy.deepcopy(model)).keys() == vars(model).keys() - {FIELD}
    del model._compiled_call_impl
    assert model(torch.ones(1)).item() == 2.0
    first = clock.forward_ns
    with pytest.raises(AttributeError):
        del model._compiled_call_impl
    model._compiled_call_impl = None  # as some code undoes it
    model(torch.ones(1))
    assert 0 < first < clock.forward_ns


def test_to_others_a_watched_model_is_not_compiled(calls: TimedCalls) -> None:
    """Scripts ask for that before they compile; and what they keep and put back later is not ours."""
    model = Net()
    calls.add(model)
    assert model._compiled_call_impl is None
    assert getattr(model, FIELD) is None


def test_what_stays_where_another_thread_detaches_only_calls(clock: Any) -> None:
    model, calls = Net(), TimedCalls(clock)
    calls.add(model)
    other = threading.Thread(target=calls.remove)
    other.start()
    other.join()
    assert model(torch.ones(1)).item() == 2.0
    assert clock.forward_ns == 0
    calls.add(model)
    model(torch.ones(1))
    assert clock.forward_ns > 0
    clock.outputs.clear()
    del model
    assert FIELD not in vars(Net)


def test_models_that_are_no_more_leave_nothing(calls: TimedCalls, clock: Any) -> None:
    class Own(Net):
        pass

    for _ in range(50):
        model = Own()
        calls.add(model)
        model(torch.ones(1))
        clock.outputs.clear()
        assert len(vars(Own)[FIELD].calls) == 1
        del model
    assert FIELD not in vars(Own)


def test_modules_own_class_is_not_touched(calls: TimedCalls) -> None:
    model: Any = torch.nn.Module()
    model.forward = torch.relu
    assert not calls.add(model)
    calls.remove()
    assert vars(torch.nn.Module)[FIELD] is None


def test_a_class_that_takes_no_fields_is_left_alone(calls: TimedCalls) -> None:
    class Closed(type):
        def __setattr__(cls, name: str, value: object) -> None:
            raise TypeError("closed")

    class Shut(Net, metaclass=Closed):
        pass

    assert not calls.add(Shut())


def test_a_model_is_let_go_at_once(calls: TimedCalls, clock: Any) -> None:
    """Its memory on the GPU is: no cycle keeps it until a collection."""
    model = Net()
    calls.add(model)
    model(torch.ones(1))
    clock.outputs.clear()
    gone = weakref.ref(model)
    gc.disable()
    try:
        del model
        assert gone() is None
    finally:
        gc.enable()
    Net()(torch.ones(1))


def test_somebody_is_told_first(calls: TimedCalls, clock: Any) -> None:
    model, told = Net(), []
    calls.add(model)
    calls.tell_first(lambda: told.append(clock.forward_depth))
    model(torch.ones(1))
    calls.tell_first(None)
    model(torch.ones(1))
    assert told == [0]


def test_two_clocks_take_turns(calls: TimedCalls, hot: Any, clock: Any) -> None:
    """What one takes out is not the other's."""
    one, other = Net(), Net()
    calls.add(one)
    more = TimedCalls(clock)
    more.add(other)
    more.remove()
    other(torch.ones(1))
    assert clock.forward_ns == 0
    one(torch.ones(1))
    assert clock.forward_ns > 0
    assert isinstance(vars(Net)[FIELD], hot.CallsOf)


def test_somebody_elses_is_left_alone(clock: Any) -> None:
    class Theirs(Net):
        _compiled_call_impl = staticmethod(lambda x: x + 5)

    model, calls = Theirs(), TimedCalls(clock)
    calls.add(model)
    assert model(torch.ones(1)).item() == 6.0
    calls.remove()
    assert model(torch.ones(1)).item() == 6.0


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:FutureWarning")  # from torch 2.14 on
def test_it_is_scripted_as_any_other(calls: TimedCalls, clock: Any) -> None:
    class Plain(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    class Finer(Plain):
        pass

    model = Plain()
    calls.add(model)
    hide_from_script()
    try:
        made = [torch.jit.script(one) for one in (torch.nn.Sequential(model), Finer())]
    finally:
        show_to_script()
    assert [one(torch.ones(1)).item() for one in made] == [2.0, 2.0]
    assert clock.forward_ns == 0
    model(torch.ones(1))
    assert clock.forward_ns > 0


def test_a_detach_while_it_is_scripted_lasts(clock: Any) -> None:
    model, calls = Net(), TimedCalls(clock)
    calls.add(model)
    with _hooks_aside(model):
        calls.remove()
    model(torch.ones(1))
    assert clock.forward_ns == 0
    assert FIELD not in vars(Net)


def test_no_hook_is_in_the_way_of_a_cuda_graph(calls: TimedCalls) -> None:
    """``torch.cuda.make_graphed_callables`` refuses a module with any."""
    model = Net()
    calls.add(model)
    for name, hooks in vars(model).items():
        if name.endswith("_hooks"):
            assert not hooks, name


def test_the_class_is_pickled_by_value_without_it(calls: TimedCalls) -> None:
    """As cloudpickle does with classes of a script."""
    model = Net()
    calls.add(model)
    assert pickle.loads(pickle.dumps(vars(Net)[FIELD])) is None


def test_wrong_arguments_are_refused(hot: Any, clock: Any) -> None:
    with pytest.raises(TypeError):
        hot.TimedCall(clock)
    if hot is compiled:
        with pytest.raises(TypeError):
            hot.TimedCall(None, None)
        with pytest.raises(TypeError):
            hot.CallsOf().calls = [1]
        with pytest.raises(TypeError):
            hot.TimedCall.__new__(hot.TimedCall)()

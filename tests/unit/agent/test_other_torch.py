"""A PyTorch whose private names are others: less is known, nothing fails, and no fault is counted."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import loaderwatch
from loaderwatch.agent.hot.layout import nothing_to_read
from loaderwatch.agent.loaders import iterator as iterators
from loaderwatch.agent.loaders.iterator import reader_of
from loaderwatch.agent.model import hooks
from loaderwatch.agent.workers import probe
from loaderwatch.core.records import UNKNOWN, IterKind, RecordKind
from tests.conftest import RingFolder
from tests.waiting import PATIENCE_S


def uncounted() -> int:
    """macOS has no ``sem_getvalue``."""
    raise NotImplementedError


def iterator(**others: Any) -> SimpleNamespace:
    """What we read of PyTorch's iterator over workers: three tasks, one of them received out of order."""
    queue = SimpleNamespace(
        _maxsize=100, _sem=SimpleNamespace(_semlock=SimpleNamespace(_get_value=lambda: 98))
    )
    usual = {
        "_task_info": {5: (1,), 6: (0, "batch"), 7: (1,)},
        "_tasks_outstanding": 2,
        "_rcvd_idx": 5,
        "_dataset_kind": 0,
        "_worker_result_queue": queue,
    }
    return SimpleNamespace(**{name: value for name, value in (usual | others).items() if value is not ...})


@pytest.mark.parametrize(
    ("others", "read"),
    [
        ({}, (2, 1, 1)),
        ({"_worker_result_queue": ...}, (UNKNOWN, 1, 1)),
        (
            {
                "_worker_result_queue": SimpleNamespace(
                    _maxsize=100, _sem=SimpleNamespace(_semlock=SimpleNamespace(_get_value=uncounted))
                )
            },
            (UNKNOWN, 1, 1),
        ),
        ({"_worker_result_queue": SimpleNamespace()}, (UNKNOWN, 1, 1)),
        ({"_task_info": ...}, None),
        ({"_task_info": [1, 2]}, None),
        ({"_tasks_outstanding": ...}, None),
        ({"_rcvd_idx": ...}, None),
        ({"_dataset_kind": ...}, None),
    ],
)
def test_what_an_iterator_does_not_tell_is_unknown(
    others: dict[str, Any], read: tuple[int, int, int] | None
) -> None:
    one = iterator(**others)
    reader = reader_of(one)
    if read is None:
        assert reader is nothing_to_read
    else:
        assert reader(one) == read


@pytest.mark.usefixtures("data_dir", "no_streamer")
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("persistent", [False, True])
def test_an_iterator_of_another_base_is_timed_as_anybodys(
    rings: RingFolder, monkeypatch: pytest.MonkeyPatch, workers: int, persistent: bool
) -> None:
    """Waits, steps and fetches are known; what lies ready in the queues is not."""
    if persistent and not workers:
        pytest.skip("there is nothing to persist")
    monkeypatch.setattr(iterators, "_TORCH", ())
    loader = DataLoader(
        TensorDataset(torch.arange(8.0)), batch_size=2, num_workers=workers, persistent_workers=persistent
    )
    assert loaderwatch.attach(loader) is loader
    for _ in range(2):
        assert [batch.tolist() for (batch,) in loader] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    main = rings.main()
    found = main.of(RecordKind.STEP)
    assert [step["batch"] for step in found] == [0, 1, 2, 3] * 2
    assert all(step["wait_ns"] > 0 and step["step_ns"] > 0 for step in found)
    assert {step["awaited_worker"] for step in found} == {UNKNOWN}
    kinds = [epoch["iter_kind"] for epoch in main.of(RecordKind.EPOCH_BEGIN)]
    first = IterKind.STARTED if workers else IterKind.IN_PROCESS
    assert kinds == [first, IterKind.RESET if persistent else first]
    fetches = [fetch for ring in (main, *rings.workers()) for fetch in ring.of(RecordKind.FETCH)]
    assert len(fetches) == 8
    loaderwatch.detach(loader)
    assert type(loader) is DataLoader


@pytest.mark.usefixtures("data_dir", "no_streamer")
def test_without_the_engines_callback_backward_is_unknown(
    rings: RingFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end could not be told, so neither is its beginning."""
    monkeypatch.setattr(hooks, "_engine_calls_back", None)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters())
    loader = DataLoader(TensorDataset(torch.rand(12, 1)), batch_size=1)
    loaderwatch.attach(loader, model=model, optimizer=optimizer)
    for (batch,) in loader:
        model(batch).sum().backward()
        optimizer.step()
    found = rings.main().of(RecordKind.STEP)
    assert len(found) == 12
    assert {step["backward_ns"] for step in found} == {UNKNOWN}
    assert all(step["forward_ns"] > 0 and step["optimizer_ns"] > 0 for step in found)


def test_a_worker_without_our_names_works_unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says that it started and that it ended; its fetches are unknown."""
    clock: Any = SimpleNamespace()
    for names in (
        {},
        {"_DatasetKind": SimpleNamespace(), "_utils": SimpleNamespace(worker=SimpleNamespace())},
    ):
        monkeypatch.setattr(probe, "torch_data", SimpleNamespace(**names))
        probe.time_fetchers(clock)
        probe.trim_tracebacks()


BROKEN = """
    import sys
    from importlib.abc import MetaPathFinder

    class Broken(MetaPathFinder):
        def find_spec(self, name, path, target=None):
            if name == {module!r}:
                raise {error}
            return None

    sys.meta_path.insert(0, Broken())
"""
TRAIN = """
    import torch
    from torch.utils.data import DataLoader, TensorDataset
    loader = DataLoader(TensorDataset(torch.arange(4.0)), batch_size=2)
"""
ATTACH = """
    import loaderwatch
    assert loaderwatch.attach(loader) is loader
    assert loaderwatch.attach(loader, role="eval", name="again") is loader
    for wrong, error in (({"role": "no role"}, ValueError), ({"name": 5}, TypeError)):
        try:
            loaderwatch.attach(loader, **wrong)
        except error:
            print(error.__name__)
    with loaderwatch.phase("checkpoint"):
        pass
    assert loaderwatch.url() == ""
    assert loaderwatch.detach(loader) is loader
"""
LOOP = """
    print([batch.tolist() for (batch,) in loader], type(loader).__name__)
"""


def run(source: list[str], *before: str) -> subprocess.CompletedProcess[str]:
    """A script in a process of its own."""
    code = "".join(map(textwrap.dedent, source))
    return subprocess.run(
        [sys.executable, "-W", "error", *before, "-c", code],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize(
    ("module", "error"),
    [
        ("loaderwatch.agent.loaders.iterator", "ImportError('cannot import name _BaseDataLoaderIter')"),
        ("loaderwatch.agent.session", "AttributeError('module torch has no attribute x')"),
        ("loaderwatch.agent.loaders.substitutes", "ImportError('IterableDataset')"),
        ("loaderwatch.agent.model.compilers", "TypeError('no such class')"),
    ],
)
def test_a_fault_while_we_are_loaded_never_reaches_training(data_dir: Path, module: str, error: str) -> None:
    """It is reported once, and training goes on unwatched. Wrong arguments still raise at once."""
    shown = run([TRAIN, BROKEN.format(module=module, error=error), ATTACH, LOOP])
    assert (shown.returncode, shown.stdout) == (
        0,
        "ValueError\nTypeError\n[[0.0, 1.0], [2.0, 3.0]] DataLoader\n",
    ), shown.stderr
    said = shown.stderr.splitlines()
    assert len(said) == 1
    assert said[0].startswith("loaderwatch: cannot be loaded here (")
    assert said[0].endswith("; training goes on unwatched")
    assert not data_dir.exists()


def test_a_script_that_loaderwatch_runs_goes_on_too(data_dir: Path, tmp_path: Path) -> None:
    """There the hook is in every DataLoader, and attaches inside the script's own ``iter``."""
    script = tmp_path / "train.py"
    broken = BROKEN.format(module="loaderwatch.agent.loaders.iterator", error="ImportError('no')")
    script.write_text("".join(map(textwrap.dedent, [broken, TRAIN, LOOP, LOOP])))
    shown = subprocess.run(
        [sys.executable, "-m", "loaderwatch", "run", str(script)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    line = "[[0.0, 1.0], [2.0, 3.0]] DataLoader\n"
    assert (shown.returncode, shown.stdout) == (0, line * 2), shown.stderr
    assert shown.stderr.count("loaderwatch: cannot be loaded here") == 1
    assert not data_dir.exists()

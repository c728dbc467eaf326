"""Which settings two runs do not share."""

from __future__ import annotations

from typing import Any

from loaderwatch.advise.comparison.settings import changed
from loaderwatch.core.facts import GpuInfo, HostInfo, LoaderInfo, ProcessInfo


def loader(name: str = "train_loader", role: str = "train", **more: Any) -> LoaderInfo:
    facts: dict[str, Any] = {"loader": 0, "name": name, "role": role, "class_name": "DataLoader"}
    return LoaderInfo(**(facts | more))


def process(*loaders: LoaderInfo, **more: Any) -> ProcessInfo:
    facts: dict[str, Any] = {
        "pid": 1,
        "rank": 0,
        "local_rank": 0,
        "world_size": 1,
        "started_ns": 0,
        "name": "train.py",
    }
    return ProcessInfo(loaders=list(loaders), **(facts | more))


def told(a: ProcessInfo, b: ProcessInfo) -> list[tuple[str, str, str | None, str | None]]:
    return [(each.where, each.what, each.a, each.b) for each in changed(([a], [], {}), ([b], [], {}))]


def test_the_same_has_none() -> None:
    assert told(process(loader(num_workers=2)), process(loader(num_workers=2, loader=5), pid=9)) == []


def test_a_loaders_settings_come_first() -> None:
    a = process(loader(num_workers=0), torch="2.6.0", argv=["train.py", "--lr", "1"])
    b = process(
        loader(num_workers=8, prefetch_factor=2),
        torch="2.7.0",
        argv=["train.py"],
        thread_limits={"OMP_NUM_THREADS": "1"},
    )
    assert told(a, b) == [
        ("train_loader", "num_workers", "0", "8"),
        ("train_loader", "prefetch_factor", None, "2"),
        ("process", "arguments", "--lr 1", None),
        ("process", "torch", "2.6.0", "2.7.0"),
        ("process", "OMP_NUM_THREADS", None, "1"),
    ]


def test_a_renamed_loader_is_the_same() -> None:
    assert told(process(loader("loader", num_workers=1)), process(loader("train", num_workers=2))) == [
        ("train", "num_workers", "1", "2")
    ]


def test_a_loader_more_is_told() -> None:
    a, b = process(loader()), process(loader(), loader("val", "eval"))
    assert told(a, b) == [("val", "loader", None, "used")]
    assert told(b, a) == [("val", "loader", "used", None)]


def test_machines() -> None:
    hosts = (
        [HostInfo(name="gpu01", cpus=16)],
        [HostInfo(name="gpu01", cpus=16), HostInfo(name="gpu02", cpus=8)],
    )
    gpus = [GpuInfo(gpu=number, uuid=str(number), name="H100", rank=number) for number in range(2)]
    found = changed(([], hosts[0], {}), ([], hosts[1], {"gpu01": gpus}))
    assert [(each.what, each.a, each.b) for each in found] == [
        ("hosts", "gpu01", "gpu01, gpu02"),
        ("cpus", "16", "16 and 8"),
        ("gpus", None, "2 × H100"),
    ]

"""Envelopes to spoil: every field and every table there is, as plain structures."""

from __future__ import annotations

from typing import Any

import msgspec

from loaderwatch.core.facts import FlightEntry, FlightGroup, GpuInfo, Loss, StackDump
from loaderwatch.core.records import TABLES, TIME_COLUMN
from loaderwatch.core.wire import pack_table
from tests.fakes.feed import Feed

STACK = 'Thread 0x1 (most recent call first):\n  File "/home/me/data.py", line 3 in __getitem__\n'


def full_envelope(run_id: str = "run-1") -> dict[str, Any]:
    """A new one, made now."""
    feed = Feed(run_id)
    envelope = feed.envelope()
    now = envelope.made_ns
    envelope.tables.update(
        {
            name: pack_table(
                name,
                [[now if column.name == TIME_COLUMN[name] else 0 for column in columns] for _ in range(3)],
            )
            for name, columns in TABLES.items()
            if name not in envelope.tables
        }
    )
    flight = FlightGroup(
        group="g", written_ns=now, entries=[FlightEntry(number=1, what="nccl:all_reduce", state="started")]
    )
    full = msgspec.structs.replace(
        envelope,
        processes=[
            feed.process(
                argv=["train.py"],
                flight=[flight],
                phase_names=["eval"],
                thread_limits={"OMP_NUM_THREADS": "1"},
            )
        ],
        stacks=[StackDump(rank=0, worker=-1, pid=4000, taken_ns=now, text=STACK)],
        gpus=[GpuInfo(gpu=0, uuid="GPU-1", name="H100", rank=0)],
        losses=[Loss(what="ring", rank=0, count=3, t_ns=now)],
    )
    built: dict[str, Any] = msgspec.to_builtins(full, builtin_types=(bytes,))
    return built

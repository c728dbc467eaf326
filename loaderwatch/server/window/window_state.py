"""The state that is kept in memory for each rank and each host of a run."""

from __future__ import annotations

from dataclasses import dataclass, field

from loaderwatch.core.facts import GpuState, SpanInfo
from loaderwatch.server.window.kept_stacks import KeptStacks
from loaderwatch.server.window.row_buffer import RowBuffer


@dataclass
class HeldRank:
    """A rank: its newest rows by table, its stacks, and its processes' open spans."""

    buffers: dict[str, RowBuffer] = field(default_factory=dict)
    stacks: KeptStacks = field(default_factory=KeptStacks)
    span: SpanInfo | None = None
    workers: list[SpanInfo] = field(default_factory=list)
    last_workers: list[SpanInfo] = field(default_factory=list)  # the newest worker spans


@dataclass
class HeldHost:
    """A host: its newest rows, and its streamer."""

    buffer: RowBuffer
    made_ns: int = 0
    stream: str = ""  # of its newest envelope
    ranks: set[int] = field(default_factory=set)  # the ranks of its newest spans
    gpu_states: list[GpuState] = field(default_factory=list)
    looked_ns: int = 0  # when the GPU states were read

"""What ``loaderwatch doctor`` learns of a script without training: its loaders, and what a few samples cost.

Written by the process that runs the script, read by the command line.
"""

from __future__ import annotations

import msgspec

from loaderwatch.core.facts import ProcessInfo


class LoaderProbe(msgspec.Struct, frozen=True, kw_only=True):
    """A few samples of a loader's dataset, read and collated in a forked child as a worker does. None: not known."""

    loader: int
    samples: int = 0  # how many were read
    batch: int = 0  # samples of a batch
    wall_s: float | None = None  # reading and collating them, less what the thread waited for a CPU
    cpu_s: float | None = None  # CPU time of all threads meanwhile
    main_cpu_s: float | None = None  # of that, the thread that reads
    threads: int | None = None  # the reading thread, and those that reading started
    bytes: int | None = None  # tensor and array bytes of the collated samples
    tensors: int | None = None  # tensors in a batch
    arrays: int | None = None  # NumPy arrays in a batch
    objects: int | None = None  # strings, numbers and other objects in a batch
    error: str | None = None  # what reading them raised
    died: str | None = None  # the signal that ended the process which read them
    unfinished_s: float | None = None  # it was still reading, or pickling, after so long
    pickle_bytes: int | None = (
        None  # dataset, collate_fn and worker_init_fn, when workers do not inherit them
    )
    pickle_s: float | None = None
    pickle_error: str | None = None  # begins with what it is: "dataset.transform: …"


class ScriptReport(msgspec.Struct, frozen=True, kw_only=True):
    """One process of a script, at the moment its training was about to begin."""

    process: ProcessInfo
    probes: list[LoaderProbe] = []
    refusal: str | None = None  # what DataLoader itself raised, with the call's arguments
    refused_line: str | None = None  # the line of that call
    main_guard: bool | None = None  # the script has ``if __name__ == "__main__"``
    made_at: dict[int, str] = {}  # by loader: file and line of its construction
    epoch_never_set: list[
        int
    ] = []  # loaders whose sampler needs set_epoch, which the script's own source never names
    ended: str | None = None  # how the script ended when it did so by itself

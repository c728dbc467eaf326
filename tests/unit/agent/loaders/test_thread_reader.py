"""What the reader of a pass in another thread notes of the loop."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

from loaderwatch.agent.loaders.thread_reader import CALLS_AT, ReadPass, ThreadReader
from loaderwatch.agent.prefetch_thread_waits import ReadAhead, unwatch
from loaderwatch.agent.source import calls_outside


def test_where_the_loop_is_is_noted_while_it_was_not_seen_to_wait() -> None:
    """It may be slower than the thread all along, and then no wait tells from where it takes the batches."""
    noted: list[int | None] = []
    watch = SimpleNamespace(note_calls=noted.append, note_reader=lambda *_: None)
    loop = threading.get_ident()
    one: Any = SimpleNamespace(
        watch=watch,
        recorder=SimpleNamespace(thread=loop),
        trains=True,
        batch=0,
        awaited=0,
        waits=True,
        publish=lambda *_: None,
    )
    reader = ThreadReader(cast("ReadPass", one), ReadAhead(loop, lambda: False))

    def read() -> None:
        for one.batch in range(CALLS_AT[1] + 1):
            reader.asks(1)

    thread = threading.Thread(target=read)
    try:
        thread.start()
        thread.join()
    finally:
        unwatch()
    assert noted == [loop, loop]


def test_the_calls_of_another_thread_are_those_that_led_to_where_it_is() -> None:
    found: list[str] = []
    loop = threading.get_ident()

    def look() -> None:
        found.extend(call.function for call in calls_outside(loop))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert "test_the_calls_of_another_thread_are_those_that_led_to_where_it_is" in found
    assert "look" not in found

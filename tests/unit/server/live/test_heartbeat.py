"""A host that falls silent beside others that go on."""

from __future__ import annotations

from loaderwatch.server.live.heartbeat import LOST_BEHIND_S, Hearing


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_lost_is_who_is_silent_while_others_speak() -> None:
    clock = Clock()
    hearing = Hearing(clock)
    for _ in range(10):
        clock.now += 0.5
        hearing.heard("a")
        hearing.heard("b")
    assert not hearing.lost("a")
    for _ in range(4):
        clock.now += LOST_BEHIND_S / 4
        hearing.heard("a")
        assert not hearing.lost("b")
    clock.now += 0.1
    hearing.heard("a")
    assert hearing.lost("b")
    assert not hearing.lost("a")
    hearing.heard("b")
    assert not hearing.lost("b")


def test_when_nobody_is_heard_nobody_is_singled_out() -> None:
    """The network, or this server, stood still for a minute."""
    clock = Clock()
    hearing = Hearing(clock)
    hearing.heard("a")
    clock.now += 0.4
    hearing.heard("b")
    clock.now += 60
    assert not hearing.lost("a")
    hearing.heard("b")
    assert hearing.lost("a")
    hearing.heard("a")
    assert not hearing.lost("a")


def test_after_a_restart_of_the_server_a_host_has_time_to_speak() -> None:
    clock = Clock()
    hearing = Hearing(clock)
    clock.now += 1.0
    hearing.heard("a")
    assert not hearing.lost("b")
    clock.now += 2.0
    hearing.heard("a")
    assert hearing.lost("b")

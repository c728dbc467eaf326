"""A host that falls silent beside others that go on."""

from __future__ import annotations

from loaderwatch.server.live.run import LOST_BEHIND_S, Heartbeats


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_lost_is_who_is_silent_while_others_speak() -> None:
    clock = Clock()
    heartbeats = Heartbeats(clock)
    for _ in range(10):
        clock.now += 0.5
        heartbeats.heard("a")
        heartbeats.heard("b")
    assert not heartbeats.lost(8)("a")
    for _ in range(4):
        clock.now += LOST_BEHIND_S / 4
        heartbeats.heard("a")
        assert not heartbeats.lost(8)("b")
    clock.now += 0.1
    heartbeats.heard("a")
    assert heartbeats.lost(8)("b")
    assert not heartbeats.lost(8)("a")
    heartbeats.heard("b")
    assert not heartbeats.lost(8)("b")


def test_when_nobody_is_heard_nobody_is_singled_out() -> None:
    """The network, or this server, stood still for a minute."""
    clock = Clock()
    heartbeats = Heartbeats(clock)
    heartbeats.heard("a")
    clock.now += 0.4
    heartbeats.heard("b")
    clock.now += 60
    assert not heartbeats.lost(8)("a")
    heartbeats.heard("b")
    assert heartbeats.lost(8)("a")
    heartbeats.heard("a")
    assert not heartbeats.lost(8)("a")


def test_after_a_restart_of_the_server_a_host_has_time_to_speak() -> None:
    clock = Clock()
    heartbeats = Heartbeats(clock)
    clock.now += 1.0
    heartbeats.heard("a")
    assert not heartbeats.lost(8)("b")
    clock.now += 2.0
    heartbeats.heard("a")
    assert heartbeats.lost(8)("b")


def test_hosts_that_are_told_to_send_seldom_are_not_lost_in_between() -> None:
    clock = Clock()
    heartbeats = Heartbeats(clock)
    for second in range(40):
        clock.now += 1.0
        heartbeats.heard(f"host-{second % 4}")  # each every four seconds
        assert not [host for host in range(4) if heartbeats.lost(10_240)(f"host-{host}")]
    assert heartbeats.lost(8)("host-0")
    clock.now += 8.0
    heartbeats.heard("host-1")
    assert heartbeats.lost(10_240)("host-0")

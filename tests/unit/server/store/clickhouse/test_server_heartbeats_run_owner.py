"""Runs lie evenly over servers, and only those move that have to when one comes or goes."""

from __future__ import annotations

from collections import Counter

from loaderwatch.server.store.clickhouse.server_heartbeats import Server, owner_of

RUNS = [f"run-{number}" for number in range(6000)]


def _servers(count: int) -> list[Server]:
    return [Server(f"id-{number}", f"http://server-{number}:8790") for number in range(count)]


def test_every_server_has_about_its_share_whoever_counts() -> None:
    servers = _servers(5)
    owners = Counter(owner_of(run, servers).id for run in RUNS)
    assert len(owners) == 5
    assert all(1000 < count < 1400 for count in owners.values()), owners
    assert all(owner_of(run, servers) == owner_of(run, reversed(servers)) for run in RUNS[:100])


def test_a_server_that_leaves_moves_only_its_runs() -> None:
    before = {run: owner_of(run, _servers(5)) for run in RUNS}
    left = _servers(5)[2]
    rest = [server for server in _servers(5) if server != left]
    moved = {run for run in RUNS if owner_of(run, rest) != before[run]}
    assert moved == {run for run in RUNS if before[run] == left}
    assert {owner_of(run, rest) for run in moved} == set(rest)


def test_a_server_that_joins_gets_its_share_and_nothing_else_moves() -> None:
    joined = _servers(6)[5]
    moved = {run for run in RUNS if owner_of(run, _servers(6)) != owner_of(run, _servers(5))}
    assert 800 < len(moved) < 1200
    assert {owner_of(run, _servers(6)) for run in moved} == {joined}


def test_a_server_that_comes_back_at_another_address_has_the_same_runs() -> None:
    servers = _servers(3)
    moved = [Server(server.id, f"http://elsewhere:{number}") for number, server in enumerate(servers)]
    assert all(owner_of(run, servers).id == owner_of(run, moved).id for run in RUNS[:300])

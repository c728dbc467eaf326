"""Who counts as being there, when a server may believe to be alone, and when it may claim."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest

from loaderwatch.core.errors import ConfigError
from loaderwatch.server.store.clickhouse.address import parse_address
from loaderwatch.server.store.clickhouse.database import Database
from loaderwatch.server.store.clickhouse.schema import SCHEMA_VERSION
from loaderwatch.server.store.clickhouse.server_heartbeats import FRESH_S, Members, Server

_INSERT = re.compile(r"INSERT INTO \S+ SELECT '(.*?)', '(.*?)', (\d+), (\d), (\d),")


class Table:
    """The table of servers, and ClickHouse's clock."""

    name = "runs"
    address = parse_address("clickhouse://db/runs")

    def __init__(self) -> None:
        self.now_s = 100.0
        self.rows_by_id: dict[str, tuple[str, int, int, int, float]] = {}

    def engine(self, name: str) -> str:
        """It has no replicas."""
        return name

    def command(self, sql: str) -> None:
        """Take a row in."""
        if found := _INSERT.match(sql):
            id, url, schema, alone, over = found.groups()
            self.rows_by_id[id] = url, int(schema), int(alone), int(over), self.now_s

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of the others."""
        (asked_by,) = re.findall(r"id != '(.*?)'", sql)
        return [
            (id.encode(), url.encode(), schema, alone, self.now_s - seen_s)
            for id, (url, schema, alone, over, seen_s) in self.rows_by_id.items()
            if id != asked_by and not over
        ]


@pytest.fixture
def table() -> Table:
    return Table()


def _member(table: Table, name: str, host: str = "server") -> Members:
    member = Members(cast(Database, table), Server(name, f"http://{host}-{name}:8790"), lambda: table.now_s)
    member.join()
    return member


def _ids(member: Members) -> set[str]:
    return {server.id for server in member.view.servers}


def test_a_server_is_there_until_it_has_not_been_heard_of_for_five_seconds(table: Table) -> None:
    one, two = _member(table, "one"), _member(table, "two")
    one.beat()
    assert _ids(one) == _ids(two) == {"one", "two"}
    for second in range(1, 7):
        table.now_s += 1.0
        one.beat()
        assert _ids(one) == ({"one", "two"} if second < FRESH_S else {"one"})
    assert two.beat().returned
    one.beat()
    assert _ids(one) == _ids(two) == {"one", "two"}


def test_a_server_that_leaves_is_gone_at_once(table: Table) -> None:
    one, two = _member(table, "one"), _member(table, "two")
    two.leave()
    assert _ids(one) == {"one"} or one.beat().servers == {one.view.me}


def test_who_is_alone_says_so_first_and_nobody_claims_until_it_is_taken_back(table: Table) -> None:
    one = _member(table, "one")
    assert one.view.may_claim
    assert not one.alone  # somebody who came at the same moment may not have been seen
    table.now_s += 1.0
    one.beat()
    assert one.alone
    table.now_s += 0.5
    two = _member(table, "two")
    assert not two.view.may_claim
    assert not two.alone
    assert one.alone  # and so it is right
    table.now_s += 0.5
    one.beat()
    assert not one.alone
    two.beat()
    assert two.view.may_claim


def test_who_slept_is_not_alone_until_it_has_looked(table: Table) -> None:
    one = _member(table, "one")
    table.now_s += 1.0
    one.beat()
    table.now_s += FRESH_S
    assert not one.alone
    assert not one.is_heard
    two = _member(table, "two")  # comes meanwhile
    assert two.view.may_claim
    assert _ids(two) == {"two"}
    assert one.beat().returned
    assert not one.alone
    assert _ids(one) == {"one", "two"}


def test_when_clickhouse_was_away_nobody_is_given_up_at_once(table: Table) -> None:
    one, two = _member(table, "one"), _member(table, "two")
    one.beat()
    table.now_s += 60.0
    one.beat()
    assert _ids(one) == {"one", "two"}
    table.now_s += 0.5
    two.beat()
    assert _ids(two) == {"one", "two"}
    for _ in range(6):
        table.now_s += 1.0
        one.beat()
    assert _ids(one) == {"one"}  # this time it was two


def test_a_server_of_an_older_version_owns_nothing_beside_a_newer_one(table: Table) -> None:
    one = _member(table, "one")
    table.rows_by_id["newer"] = ("http://server-newer:8790", SCHEMA_VERSION + 1, 0, 0, table.now_s)
    assert {server.id for server in one.beat().servers} == {"newer"}
    assert not one.view.owns("run-1")


def test_addresses_of_which_one_leads_nowhere_are_refused_in_one_line(table: Table) -> None:
    _member(table, "one")
    with pytest.raises(ConfigError, match="give both --host and --advertise") as refused:
        Members(cast(Database, table), Server("two", "http://127.0.0.1:8790"), lambda: table.now_s).join()
    assert "\n" not in str(refused.value)

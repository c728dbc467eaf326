"""docker-compose.yml says what the documents say. (No container engine is asked: this reads the file.)"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from loaderwatch.cli import build_parser
from loaderwatch.server.store.clickhouse.address import PASSWORD_VARIABLE, parse_address
from loaderwatch.server.store.clickhouse.database import LEAST_VERSION

yaml = pytest.importorskip("yaml", reason="PyYAML reads the file")


@pytest.fixture
def services(repo_root: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((repo_root / "docker-compose.yml").read_text())
    assert set(loaded["volumes"]) == {"data", "clickhouse", "data-clickhouse", "data-1", "data-2"}
    services: dict[str, Any] = loaded["services"]
    return services


def test_the_server_has_a_volume_a_health_check_and_a_command_that_parses(services: dict[str, Any]) -> None:
    server = services["server"]
    assert "data:/data" in server["volumes"]
    assert "healthcheck" in server
    compile(server["healthcheck"]["test"][-1], "healthcheck", "exec")
    args = build_parser(server["command"]).parse_args(server["command"])
    assert (args.host, args.port) == ("0.0.0.0", 8790)
    assert server["ports"] == ["127.0.0.1:8790:8790"]
    assert "LOADERWATCH_TOKEN" in server["environment"]


def test_a_profile_has_clickhouse_and_a_server_that_uses_it(services: dict[str, Any]) -> None:
    server, database = services["server-clickhouse"], services["clickhouse"]
    assert server["profiles"] == ["clickhouse"]
    assert database["profiles"] == ["clickhouse", "servers"]
    assert {name for name in services if "profiles" not in services[name]} == {"server", "trainer"}
    args = build_parser(server["command"]).parse_args(server["command"])
    address = parse_address(args.store)
    assert address.hosts == (("clickhouse", 8123),)
    assert (address.user, address.database) == (
        database["environment"]["CLICKHOUSE_USER"],
        database["environment"]["CLICKHOUSE_DB"],
    )
    assert server["environment"][PASSWORD_VARIABLE] == database["environment"]["CLICKHOUSE_PASSWORD"]
    assert "ports" not in database  # its password is the token
    assert server["ports"][0] not in services["server"]["ports"]
    version = database["image"].rpartition(":")[2]
    assert tuple(int(part) for part in version.split(".")) >= LEAST_VERSION
    assert server["build"]["args"]["EXTRA"] == "clickhouse"


def test_another_has_two_servers_that_share_it_behind_one_address(
    services: dict[str, Any], repo_root: Path
) -> None:
    one, two, balancer = services["server-1"], services["server-2"], services["balancer"]
    assert one["profiles"] == two["profiles"] == balancer["profiles"] == ["servers"]
    assert one["command"] == two["command"]
    assert one["environment"] == two["environment"]  # the token is the same for both
    args = build_parser(one["command"]).parse_args(one["command"])
    assert parse_address(args.store).hosts == (("clickhouse", 8123),)
    assert args.public_url == "http://localhost:8792"
    assert balancer["ports"] == ["127.0.0.1:8792:8790"]
    assert args.allow_host == ["balancer"]
    for name, server in (("server-1", one), ("server-2", two)):
        assert server["hostname"] == name  # which is how servers on all addresses find each other
        assert "ports" not in server
    assert one["volumes"] != two["volumes"]
    loaded = yaml.safe_load((repo_root / "docker-compose.yml").read_text())
    assert "reverse_proxy server-1:8790 server-2:8790" in loaded["configs"]["balancer"]["content"]


def test_the_trainer_uses_the_server_and_has_shared_memory(services: dict[str, Any]) -> None:
    trainer = services["trainer"]
    assert trainer["environment"]["LOADERWATCH_SERVER"] == "http://server:8790"
    assert trainer["depends_on"]["server"]["condition"] == "service_healthy"
    assert trainer["shm_size"] == "1gb"
    words = shlex.split(trainer["command"][0])
    compile(words[words.index("-c") + 1], "command", "exec")
    assert "loaderwatch.demo.train" in words

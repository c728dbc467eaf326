"""docker-compose.yml says what the documents say. (No container engine is asked: this reads the file.)"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from loaderwatch.cli import build_parser
from loaderwatch.core.config import load_settings
from loaderwatch.core.environment_variables import CLICKHOUSE_PASSWORD
from loaderwatch.server.store.clickhouse.address import parse_address
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
    assert set(server["environment"]) == {"LOADERWATCH_TOKEN", "LOADERWATCH_AGENT_TOKEN"}


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
    assert server["environment"][CLICKHOUSE_PASSWORD.name] == database["environment"]["CLICKHOUSE_PASSWORD"]
    assert "LOADERWATCH_TOKEN" not in database["environment"]["CLICKHOUSE_PASSWORD"], "it has its own"
    assert "ports" not in database
    assert server["ports"][0] not in services["server"]["ports"]
    version = database["image"].rpartition(":")[2]
    assert tuple(int(part) for part in version.split(".")) >= LEAST_VERSION
    assert server["build"]["args"]["EXTRA"] == "clickhouse"


def test_another_has_two_servers_that_share_it_behind_one_address(services: dict[str, Any]) -> None:
    one, two, balancer = services["server-1"], services["server-2"], services["balancer"]
    assert one["profiles"] == two["profiles"] == balancer["profiles"] == ["servers"]
    assert one["command"] == two["command"]
    assert one["environment"] == two["environment"]  # the token is the same for both
    args = build_parser(one["command"]).parse_args(one["command"])
    assert parse_address(args.store).hosts == (("clickhouse", 8123),)
    assert args.public_url == "http://127.0.0.1:8792"
    assert balancer["ports"] == ["127.0.0.1:8792:8790"]
    assert args.allow_host == ["balancer"]
    for name, server in (("server-1", one), ("server-2", two)):
        assert server["hostname"] == name  # which is how servers on all addresses find each other
        assert "ports" not in server
    assert one["volumes"] != two["volumes"]
    assert "reverse_proxy server-1:8790 server-2:8790" in balancer["environment"]["CADDYFILE"]


def test_the_trainer_uses_the_server_and_has_shared_memory(services: dict[str, Any]) -> None:
    trainer = services["trainer"]
    assert trainer["environment"]["LOADERWATCH_SERVER"] == "http://server:8790"
    assert trainer["depends_on"]["server"]["condition"] == "service_healthy"
    assert trainer["shm_size"] == "1gb"
    words = shlex.split(trainer["command"][0])
    compile(words[words.index("-c") + 1], "command", "exec")
    assert "loaderwatch.demo.train" in words


def test_every_container_is_confined(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["mem_limit"].endswith(("g", "m")), name
        assert any(mount.startswith("/tmp:") for mount in service["tmpfs"]), name
        assert "privileged" not in service
        assert all(":/var/run" not in volume for volume in service.get("volumes", ())), name
        if name != "trainer":  # which ends by itself
            assert service["healthcheck"]["test"][0] == "CMD", name
    assert {name for name, service in services.items() if "cap_add" in service} == {"balancer"}


def test_the_trainer_may_send_and_nothing_else(services: dict[str, Any]) -> None:
    told = services["trainer"]["environment"]
    assert told["LOADERWATCH_TOKEN"] == services["server"]["environment"]["LOADERWATCH_AGENT_TOKEN"]
    assert "LOADERWATCH_AGENT_TOKEN:?" in told["LOADERWATCH_TOKEN"]
    assert not {name for name in told if "PAGE" in name or "CLICKHOUSE" in name}
    assert load_settings({"LOADERWATCH_AGENT_TOKEN": "x"}).agent_token == "x"


def test_every_secret_is_made_by_the_command_at_the_top(repo_root: Path) -> None:
    text = (repo_root / "docker-compose.yml").read_text()
    made = re.search(r"for name in ([A-Z_ ]+); do", text)
    assert made is not None
    names = {f"LOADERWATCH_{name}" for name in made[1].split()}
    assert set(re.findall(r"\$\{(\w+):\?", text)) == names
    assert not re.search(r"\$\{\w+(:-|\})", text), "none has a default"


def test_the_image_installs_what_is_pinned_each_from_one_index(repo_root: Path) -> None:
    lines = (repo_root / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    installs = [
        part.split()
        for line in lines
        if line.startswith("RUN")
        for part in re.split(r"&&|;", line.removeprefix("RUN "))
        if "pip install" in part
    ]
    assert len(installs) == 2
    for words in installs:
        assert "--extra-index-url" not in words
        assert "/wheels/constraints.txt" in " ".join(words)
        assert ("--index-url" in words) == ("--no-deps" in words)
    (healthcheck,) = [line for line in lines if line.startswith("HEALTHCHECK")]
    command = json.loads(healthcheck[healthcheck.index("[") :])
    services = yaml.safe_load((repo_root / "docker-compose.yml").read_text())["services"]
    assert ["CMD", *command] == services["server"]["healthcheck"]["test"]
    assert lines.index("USER loaderwatch") < lines.index(healthcheck)


def test_pages_are_named_by_the_one_address_at_which_they_are_published(repo_root: Path) -> None:
    """Another user may listen at the other address of localhost, and would be sent the token."""
    assert "localhost" not in (repo_root / "docker-compose.yml").read_text()

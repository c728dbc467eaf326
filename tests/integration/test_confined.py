"""Server and trainer, confined as in docker-compose.yml: read-only files, no capabilities, another user.

No container engine is needed: a mount namespace gives the file system, ``setpriv`` removes the rights.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fakes.feed import Feed
from tests.fakes.page_session import sign_in
from tests.fakes.serving import Access, wait_until
from tests.waiting import PATIENCE_S

yaml = pytest.importorskip("yaml", reason="PyYAML reads docker-compose.yml")

ROOT = Path(__file__).parents[2]
USER = 10001  # the image's
TOKEN, AGENT = "a-token-that-may-do-everything", "a-token-for-agents-alone"
# /mnt stands for the volume: it, and what compose declares, are all that can be written to.
SCRIPT = """
set -e
mount --make-rprivate /
mount -t tmpfs -o mode=0755 tmpfs /mnt
install -d -o {user} -g {user} -m 0700 /mnt/data
if [ -n "{hidden}" ]; then  # Python lies in a home that is closed to other users: show that part of it alone
  mkdir /mnt/python
  mount --bind "{python}" /mnt/python
  mount -t tmpfs -o mode=0755 tmpfs "{hidden}"
  mkdir -p "{python}"
  mount --bind /mnt/python "{python}"
fi
for place in {places}; do mount -t tmpfs -o mode=1777 tmpfs "$place"; done
mount --bind / /
mount -o remount,bind,ro /
if touch /usr/written 2>/dev/null; then echo "/ can be written to" >&2; exit 99; fi
cd /
exec setpriv --reuid={user} --regid={user} --clear-groups \\
    --bounding-set=-all --inh-caps=-all --no-new-privs "$@"
"""


def services() -> dict[str, Any]:
    """What docker-compose.yml declares."""
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    return loaded


def confined(
    service: dict[str, Any], *command: str, all_end: bool = False, **environ: str
) -> subprocess.Popen[str]:
    """Start a command confined like the service. With ``all_end`` its children end with it."""
    own_pids = ("--pid", "--fork", "--kill-child", "--mount-proc") if all_end else ()
    places = [mount.partition(":")[0] for mount in service["tmpfs"]]
    if "shm_size" in service:
        places.append("/dev/shm")
    python = Path(sys.base_prefix).resolve()
    hidden = next((each for each in reversed(python.parents) if each.stat().st_mode & 0o005 != 0o005), "")
    script = SCRIPT.format(user=USER, places=" ".join(places), python=python, hidden=hidden)
    return subprocess.Popen(
        ["unshare", "--mount", *own_pids, "sh", "-c", script, "sh", *command],
        env={
            "PATH": os.environ["PATH"],
            "HOME": "/home/loaderwatch",
            "PYTHONDONTWRITEBYTECODE": "1",
            **environ,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


@pytest.fixture(autouse=True)
def needs_a_namespace() -> None:
    """Root, and a checkout that the other user can read."""
    if os.name == "nt" or os.geteuid() != 0 or not (shutil.which("unshare") and shutil.which("setpriv")):
        pytest.skip("needs root, unshare and setpriv")
    if str(ROOT).startswith(("/tmp/", "/mnt/", "/dev/shm/")):
        pytest.skip("the checkout lies where the container's own folders would hide it")
    probe = confined({"tmpfs": []}, "sh", "-c", f"{sys.executable} -c 'import loaderwatch'")
    said = probe.communicate(timeout=PATIENCE_S)[0]
    if probe.returncode:
        pytest.skip(f"no mount namespace, or another user cannot read this checkout: {said[-200:]}")


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """End the process and its children with the block."""
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=PATIENCE_S)


@contextmanager
def serving_confined(port: int) -> Iterator[Access]:
    """The compose file's server, at a port of its own and on loopback."""
    words = [sys.executable, "-m", "loaderwatch", "serve", "--host", "127.0.0.1", "--port", str(port)]
    started = confined(
        services()["server"],
        *words,
        LOADERWATCH_DIR="/mnt/data",
        LOADERWATCH_TOKEN=TOKEN,
        LOADERWATCH_AGENT_TOKEN=AGENT,
    )
    access = Access(f"http://127.0.0.1:{port}", AGENT, TOKEN, TOKEN)

    def ready() -> bool:
        assert started.poll() is None, started.communicate()[0]
        try:
            return httpx.get(f"{access.url}/readyz", timeout=PATIENCE_S, trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    with ended(started):
        wait_until("the server is ready", ready)
        yield access
        started.send_signal(signal.SIGTERM)
        output, _ = started.communicate(timeout=PATIENCE_S)
        assert started.returncode == 0, output
        assert "Traceback" not in output
        assert "ead-only file system" not in output


def test_the_server_works_and_the_agents_token_sends_alone(free_port: int) -> None:
    with serving_confined(free_port) as access:
        feed = Feed()
        access.send(feed.envelope(steps=200))
        run = f"/runs/{feed.run_id}"
        wait_until("the run", lambda: access.get(f"{run}/summary")["verdict"])
        assert access.get(f"{run}/series", metric="step_s", rank=0)["mean"]
        with access.client() as owner, access.client(AGENT) as agent, access.client("") as page:
            assert owner.get(f"/api/v1{run}/recording").status_code == 200
            assert owner.patch(f"/api/v1{run}", json={"name": "mine"}).status_code == 200
            assert sign_in(page, TOKEN).ask(page, "GET", "/api/v1/runs").status_code == 200
            for method, path in (
                ("GET", "/runs"),
                ("GET", f"{run}/summary"),
                ("DELETE", run),
                ("POST", "/server/stop"),
            ):
                assert agent.request(method, f"/api/v1{path}").status_code == 403
            with pytest.raises(AssertionError):
                sign_in(page, AGENT)


@pytest.mark.long
def test_the_trainer_works(free_port: int) -> None:
    """The demo's training, as compose starts it but for the installed torchrun, until its steps arrive."""
    service = services()["trainer"]
    told = {name: value for name, value in service["environment"].items() if name != "LOADERWATCH_TOKEN"}
    command = service["command"][0].replace("python -c", f"{sys.executable} -c")
    command = command.replace("torchrun", f"{sys.executable} -m torch.distributed.run")
    with serving_confined(free_port) as access:
        told |= {"LOADERWATCH_SERVER": access.url, "LOADERWATCH_TOKEN": AGENT}
        with ended(confined(service, *service["entrypoint"], command, all_end=True, **told)) as trainer:

            def steps() -> bool:
                assert trainer.poll() is None, trainer.communicate()[0]
                runs = access.get("/runs")
                return (
                    bool(runs)
                    and runs[0]["world_size"] == 2
                    and access.get(f"/runs/{runs[0]['run_id']}/summary")["steps"] > 10
                )

            wait_until("steps of both ranks", steps)

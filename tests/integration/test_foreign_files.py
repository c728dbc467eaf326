"""We do not trust another user's data directory, nor any file in it that we would read or run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from loaderwatch.agent.process.launch import start_streamer
from loaderwatch.core.config import load_settings
from loaderwatch.core.files import NotPrivate
from tests.fakes.serving import ServeProcess
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.skipif(
    os.name == "nt" or os.geteuid() != 0, reason="only root can make files of another user's"
)

OTHER = 12345
THEIRS = f"it belongs to user {OTHER}, not to you"
TOKENS = {name: f"{name}-token-that-another-user-knows" for name in ("agent", "viewer", "owner", "page_key")}


def ask(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A command of ours, with the command line's own time to end."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LOADERWATCH_")}
    return subprocess.run(
        [sys.executable, *arguments],
        env={**kept, **environ},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def give_away(path: Path) -> Path:
    """Make a file, or a folder with all that is in it, another user's."""
    for each in (path, *path.rglob("*")):
        os.chown(each, OTHER, OTHER)
    return path


def trap(folder: Path) -> Path:
    """A data directory that another user prepared: with known tokens, and a module where helpers start."""
    (folder / "logs" / "loaderwatch").mkdir(parents=True)
    (folder / "logs" / "loaderwatch" / "__init__.py").write_text(
        f"open({str(folder / 'run')!r}, 'w').close()"
    )
    (folder / "token.json").write_text(json.dumps(TOKENS))
    (folder / "server.json").write_text('{"url": "http://127.0.0.1:9", "pid": 1}')
    folder.chmod(0o777)
    return give_away(folder)


@pytest.mark.parametrize(
    "command",
    [
        ("serve", "--port", "0"),
        ("serve", "--port", "0", "--resume"),
        ("token", "rotate"),
        ("runs",),
        ("import", "x.lwrec"),
    ],
)
def test_commands_refuse_the_directory_and_leave_nothing_in_it(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    folder = trap(tmp_path / "data")
    before = sorted(folder.rglob("*"))
    recording = Path(__file__).parents[1] / "scenarios" / "recordings" / "s26_grown.lwrec"
    words = [str(recording) if word == "x.lwrec" else word for word in command]
    done = ask("-m", "loaderwatch", *words, "--data-dir", str(folder))
    assert done.returncode != 0
    assert THEIRS in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(folder.rglob("*")) == before


def test_a_job_trains_on_unwatched_and_runs_nothing_from_it(tmp_path: Path) -> None:
    folder = trap(tmp_path / "data")
    script = tmp_path / "train.py"
    script.write_text(
        "import loaderwatch\nfrom torch.utils.data import DataLoader\n"
        "for _ in loaderwatch.attach(DataLoader(list(range(8)))): pass\nprint('trained')\n"
    )
    done = ask(str(script), LOADERWATCH_DIR=str(folder))
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert f"{folder} ({THEIRS}); training goes on unwatched. Set LOADERWATCH_DIR to" in done.stderr
    assert not (folder / "run").exists()
    streamer = ask("-m", "loaderwatch.streamer", "--run-id", "run-1", LOADERWATCH_DIR=str(folder))
    assert streamer.returncode == 1
    assert THEIRS in streamer.stderr


def test_a_link_that_leads_nowhere_yet_is_refused(tmp_path: Path) -> None:
    """Its owner could have it lead to a folder of his own at any later moment."""
    link = tmp_path / "data"
    link.symlink_to(tmp_path / "not there yet")
    os.chown(link, OTHER, OTHER, follow_symlinks=False)
    for command in (("serve", "--port", "0"), ("token", "rotate")):
        done = ask("-m", "loaderwatch", *command, "--data-dir", str(link))
        assert done.returncode != 0
        assert f"it is a link of user {OTHER}'s" in done.stderr
    streamer = ask("-m", "loaderwatch.streamer", "--run-id", "run-1", LOADERWATCH_DIR=str(link))
    assert f"it is a link of user {OTHER}'s" in streamer.stderr


def test_no_streamer_starts_where_somebody_was_quicker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory was missing when the job looked; another user made it before the job did."""
    (theirs := tmp_path / "theirs").mkdir(mode=0o755)
    give_away(theirs)
    monkeypatch.delenv("LOADERWATCH_NO_STREAMER", raising=False)
    settings = load_settings({"LOADERWATCH_DIR": str(theirs)})
    with pytest.raises(NotPrivate, match=THEIRS):
        start_streamer(settings, "run-1", "run")
    assert not list(theirs.rglob("*.log"))


@pytest.mark.parametrize("inside", ["runs", "outbox", "logs", "notify"])
def test_a_folder_in_it_counts_as_well(tmp_path: Path, inside: str) -> None:
    (tmp_path / "data" / inside).mkdir(parents=True, mode=0o700)
    give_away(tmp_path / "data" / inside)
    (tmp_path / "data").chmod(0o700)
    done = ask("-m", "loaderwatch", "serve", "--port", "0", "--data-dir", str(tmp_path / "data"))
    assert done.returncode != 0
    assert f"{inside} cannot hold tokens and runs: {THEIRS}" in done.stderr


@pytest.mark.parametrize("inside", ["runs", "logs"])
def test_where_others_may_add_files_the_folders_of_runs_and_modules_are_ours_alone(
    tmp_path: Path, inside: str
) -> None:
    """A file system in memory, as it is mounted without options: everybody may add files."""
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    data_dir.chmod(0o1777)
    with ServeProcess(data_dir, "--port", "0") as server:
        server.start()
        server.stop()
    (data_dir / inside).mkdir(exist_ok=True)
    (data_dir / inside).chmod(0o1777)
    done = ask("-m", "loaderwatch", "serve", "--port", "0", "--data-dir", str(data_dir))
    assert done.returncode != 0
    assert f"{inside} cannot hold tokens and runs: others may write to it" in done.stderr


@pytest.mark.parametrize(
    ("name", "content"),
    [("token.json", json.dumps(TOKENS)), ("config.toml", '[notify]\nto = ["json://127.0.0.1:9/"]')],
)
def test_a_server_does_not_start_with_a_file_of_another_users(
    tmp_path: Path, name: str, content: str
) -> None:
    (tmp_path / name).write_text(content)
    give_away(tmp_path / name)
    done = ask("-m", "loaderwatch", "serve", "--port", "0", "--data-dir", str(tmp_path))
    assert done.returncode != 0
    assert THEIRS in done.stderr
    assert name in done.stderr
    assert "Traceback" not in done.stderr


def test_options_that_another_user_left_are_not_taken_up(tmp_path: Path) -> None:
    """They could have switched tokens off."""
    with ServeProcess(tmp_path, "--port", "0", "--no-auth") as server:
        server.start()
        kept = (tmp_path / "serve.json").read_bytes()
    assert json.loads(kept)["no_auth"] is True
    (tmp_path / "server.json").unlink(missing_ok=True)
    give_away(tmp_path / "serve.json")
    with (
        ServeProcess(tmp_path, "--port", "0", "--resume") as server,
        server.start().client("") as nobody,
    ):
        assert nobody.get("/api/v1/runs").status_code == 401


@pytest.mark.parametrize("name", ["server.json", "token.json"])
def test_no_server_is_found_by_a_file_of_another_users(tmp_path: Path, name: str) -> None:
    with ServeProcess(tmp_path, "--port", "0") as server:
        server.start()
        asked = ("-m", "loaderwatch", "stop", "--data-dir", str(tmp_path))
        assert server.process is not None
        server.process.send_signal(signal.SIGSTOP)  # else it writes its file again within a second
        give_away(tmp_path / name)
        done = ask(*asked)
        assert "has ended" not in done.stdout
        os.chown(tmp_path / name, 0, 0)
        server.process.send_signal(signal.SIGCONT)
        assert "has ended" in ask(*asked).stdout

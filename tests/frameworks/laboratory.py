"""Runs trainings bare and watched, each in a fresh process, and asks a real server what it knows of them."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from loaderwatch.core.config import load_settings
from tests.compat.harness import Outcome, difference, kill_streamers, run_to_its_end
from tests.fakes.own_faults import stored_faults
from tests.fakes.serving import Access, ServeProcess, wait_until
from tests.frameworks.environments import python_of
from tests.frameworks.trainings import ATTACH, CALLBACK, RUN, Changes, Training

HERE: Final = Path(__file__).resolve().parent
BARE: Final = "bare"
LIMIT_S: Final = 400
SETTLE_S: Final = 60.0
"""Until the server knows the run's end, on a machine that is busy."""

_LOSS: Final = re.compile(r"\bloss [\d\[]")
_OURS: Final = re.compile(r"(?m)^loaderwatch: .*\n")
_DURATION: Final = re.compile(
    r"\d+(\.\d+)?(±\d+(\.\d+)?)?( ?(m?s/it|s|ms|h|hours|[KM]?it/s|ba/s|[KMG]?B/s|GB|G)\b)"
    r"|\d+:\d\d(:\d\d)?(\.\d+)?"
    r"|(?<=runtime': )'?\d+(\.\d+)?|(?<=per_second': )'?\d+(\.\d+)?"
)
"""What frameworks print of time and speed."""
_REDRAWN: Final = re.compile(r"(?m)^\x1b\[K.*\n(?=\x1b\[K)")
"""A line that was drawn again over itself, as often as there was time for."""


@dataclass
class Seen:
    """What a run left: its own output and end, and what the server knows of it."""

    outcome: Outcome
    told: list[str] = field(default_factory=list)  # loaderwatch's own lines
    summary: dict[str, Any] = field(default_factory=dict)
    epochs: list[dict[str, Any]] = field(default_factory=list)
    findings: list[dict[str, Any]] = field(default_factory=list)
    phases: set[str] = field(default_factory=set)
    faults: dict[Any, int] = field(default_factory=dict)

    @property
    def losses(self) -> list[str]:
        """The lines that tell a loss."""
        return [line for line in self.outcome.stdout.splitlines() if _LOSS.search(line)]

    def loaders(self, rank: int) -> list[tuple[str, tuple[int, ...]]]:
        """Role, and the batches of each epoch, of the loaders of a rank that gave any."""
        found = []
        for loader in self.summary["loaders"]:
            if loader["rank"] != rank:
                continue
            passes = [
                row
                for row in self.epochs
                if (row["rank"], row["loader"]) == (rank, loader["loader"]) and row["batches"] != 0
            ]
            numbers = [row["epoch"] for row in passes]
            assert numbers == list(range(len(passes))), f"epochs {numbers} of {loader['name']}"
            if passes:
                found.append((loader["role"], tuple(row["batches"] for row in passes)))
        return sorted(found, reverse=True)


class Laboratory:
    """``with Laboratory(folder) as it``: a server, and the runs that were asked for, each once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server = ServeProcess(folder / "server", "--port", "0")
        self._access: Access | None = None
        self._seen: dict[tuple[str, str], Seen] = {}

    def __enter__(self) -> Laboratory:
        self._access = self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.kill()

    def seen(self, training: Training, way: str) -> Seen:
        """The training, run in a way."""
        if (training.id, way) not in self._seen:
            self._seen[training.id, way] = self._run(training, way)
        return self._seen[training.id, way]

    def compare(self, training: Training, way: str) -> Seen:
        """Fail if losses, output or end differ from the bare run; return what the server knows of the run."""
        bare, watched = (self.seen(training, each) for each in (BARE, way))
        for one in (bare, watched):
            assert not one.outcome.late, f"did not end in time:\n{one.outcome.stdout}\n{one.outcome.stderr}"
        ends = [[one.outcome.exit_code, one.outcome.stdout, one.outcome.stderr] for one in (bare, watched)]
        assert bare.outcome.exit_code == 0, bare.outcome.stderr
        assert len(bare.losses) == training.losses, bare.outcome.stdout
        assert ends[0] == ends[1], difference(*ends)
        assert watched.faults == {}
        return watched

    def _run(self, training: Training, way: str) -> Seen:
        assert self._access is not None
        # as long in every way: some frameworks break their lines where paths end
        directory = Path(tempfile.mkdtemp(prefix="loaderwatch-frameworks-"))
        run_id = f"{training.id.replace('_', '-')}-{way}"
        env = {name: value for name, value in os.environ.items() if not name.startswith("LOADERWATCH_")}
        env |= {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "COLUMNS": "200"}
        env["YOLO_CONFIG_DIR"] = str(
            directory
        )  # ultralytics keeps settings there, below the home folder else
        if way != BARE:
            env |= {
                "LOADERWATCH_DIR": str(directory / "watched"),
                "LOADERWATCH_SERVER": self._access.url,
                "LOADERWATCH_TOKEN": self._access.agent,
                "LOADERWATCH_RUN": run_id,
            }
        try:
            command = command_of(training, way, directory)
            seen = Seen(run_to_its_end(command, env, directory, LIMIT_S))
            seen.told = _OURS.findall(seen.outcome.stderr)
            seen.outcome.stderr = _plain(_OURS.sub("", seen.outcome.stderr), directory)
            seen.outcome.stdout = _plain(seen.outcome.stdout, directory)
            if way != BARE and not (way == RUN and training.without):
                self._ask(seen, run_id)
            return seen
        finally:
            if way != BARE:
                kill_streamers(directory / "watched")
                shutil.rmtree(load_settings(env).rings_dir, ignore_errors=True)
            shutil.rmtree(directory, ignore_errors=True)

    def _ask(self, seen: Seen, run_id: str) -> None:
        assert self._access is not None
        path = f"/api/v1/runs/{run_id}"
        with self._access.client() as client:

            def ended() -> bool:
                answer = client.get(f"{path}/summary")
                return answer.status_code == 200 and answer.json()["state"] not in ("live", "hung")

            try:
                wait_until(f"the end of {run_id}", ended, SETTLE_S)
            except AssertionError as error:
                raise AssertionError(f"{error}\n{seen.told}\n{seen.outcome.stderr[-3000:]}") from error
            seen.summary = client.get(f"{path}/summary").json()
            seen.epochs = client.get(f"{path}/epochs").json()
            seen.findings = client.get(f"{path}/findings").json()
            for phase in ("h2d", "forward", "backward", "optimizer"):
                series = client.get(f"{path}/series", params={"metric": f"{phase}_s"}).json()
                if any(value is not None for value in series["mean"]):
                    seen.phases.add(phase)
        seen.faults = stored_faults(self._server.data_dir / "runs", run_id)


def command_of(training: Training, way: str, directory: Path) -> list[str]:
    """The command line of a training; its files are put beside its working directory."""
    script = HERE / "scripts" / f"{training.script}.py"
    args = list(training.args)
    attached: list[str] = []
    if way == CALLBACK:
        script = _changed(script, training.callback, directory / "changed")
    elif way == ATTACH and training.line:
        script = _changed(script, training.line, directory / "changed")
    elif way == ATTACH and training.inner_attach:
        args += training.inner_attach
    elif way == ATTACH:
        attached = [str(HERE / "attached.py")]
    python = str(python_of(training.environment))
    if training.ranks > 1:
        launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(training.ranks)]
        launcher += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
        watch = ["-m", "loaderwatch", "run", "--", python] if way == RUN else []
        return [python, *watch, *launcher, *attached, str(script), *args]
    watch = ["-m", "loaderwatch", "run"] if way == RUN else []
    return [python, *watch, *attached, str(script), *args]


def _changed(script: Path, changes: Changes, folder: Path) -> Path:
    """A copy of the script, and of what lies beside it, with these changes."""
    shutil.copytree(script.parent, folder)
    text = script.read_text()
    for words, instead in changes:
        assert text.count(words) == 1, f"{words!r} stands {text.count(words)} times in {script.name}"
        text = text.replace(words, instead)
    (folder / script.name).write_text(text)
    return folder / script.name


def _plain(text: str, directory: Path) -> str:
    return _DURATION.sub("TIME", _REDRAWN.sub("", text).replace(str(directory), "TMP"))


def main(names: Sequence[str]) -> None:
    """Run trainings and print results for a person: ``python -m tests.frameworks.laboratory NAME ...``."""
    from tests.frameworks.trainings import TRAININGS

    way, *chosen = names
    with tempfile.TemporaryDirectory() as folder, Laboratory(Path(folder)) as laboratory:
        for training in TRAININGS:
            if chosen and training.id not in chosen:
                continue
            try:
                seen = laboratory.seen(training, way)
                roles = [seen.loaders(rank) for rank in range(training.ranks)] if seen.summary else None
                names_ = [one["name"] for one in seen.summary.get("loaders", ())]
                print(
                    f"== {training.id} {way}: exit {seen.outcome.exit_code}, {len(seen.losses)} losses,"
                    f" told {seen.told}"
                )
                print(
                    f"   steps {seen.summary.get('steps')}, loaders {roles}, names {names_},"
                    f" phases {sorted(seen.phases)}"
                )
                print(f"   verdict {seen.summary.get('verdict', {}).get('title')!r}, faults {seen.faults}")
                print(f"   findings {[(f['scenario'], f['severity'], f['title']) for f in seen.findings]}")
                if seen.outcome.exit_code or way == BARE:
                    print(seen.outcome.stdout[-600:], seen.outcome.stderr[-3000:])
            except AssertionError as error:
                print(f"== {training.id} {way}: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Imports point one way, and heavy modules stay where they belong."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S

PACKAGE = Path(__file__).resolve().parents[2] / "loaderwatch"

MAY_IMPORT: dict[str, set[str]] = {
    "": {"agent", "core"},  # the public names
    "__main__": {"cli"},
    "core": set(),
    "pipeline": set(),
    "agent": {"core", "pipeline", "texts"},  # texts only late, see IMPORTS_LATE
    "frameworks": {"", "agent", "core"},
    "streamer": {"core", "texts"},
    "texts": {"core"},
    "detect": {"core", "texts"},
    "advise": {"core", "detect", "pipeline", "texts"},
    "server": {"core", "detect", "advise", "texts"},
    "report": {"core", "detect", "advise", "server"},
    "demo": {"core", "texts", ""},
    "supervisor": {"core", "texts"},
    "cli": {
        "core",
        "agent",
        "streamer",
        "supervisor",
        "texts",
        "detect",
        "advise",
        "server",
        "report",
        "demo",
        "",
    },
}
"""Which parts a part may import, besides itself. "" is the package's own ``__init__``."""

FOLDER_MAY_IMPORT: dict[str, set[str]] = {"server/store": {"core", "server/store", "server/times"}}
"""Folders that may import less than their part. A store keeps rows and judges nothing."""

HEAVY: dict[str, set[str]] = {
    "torch": {"agent", "demo"},
    "fluent": {"texts"},
    "babel": {"texts"},
    "pynvml": {"streamer/samplers"},
    "psutil": {"streamer/samplers", "core", "supervisor"},
    "fastapi": {"server"},
    "starlette": {"server"},
    "uvicorn": {"server"},
    "duckdb": {"server"},
    "clickhouse_connect": {"server"},
    "apprise": {"server"},
    "sklearn": {"demo"},
    "PIL": {"demo"},
    "lightning": {"frameworks"},
    "pytorch_lightning": {"frameworks"},
    "transformers": {"frameworks"},
    "accelerate": {"frameworks"},
}
"""The folders under which a module may be imported."""


TESTS = PACKAGE.parent / "tests" / "unit"

IMPORTS_LATE: dict[str, tuple[set[str], str]] = {
    "__init__.py": (
        {"agent/guard", "agent/model/phase", "agent/tuning/tune"},
        "import loaderwatch is quick: what attach needs comes with attach",
    ),
    "agent/guard.py": (
        {"core/message", "texts/__init__"},
        "a process of the job loads the catalogues when it prints its first line, and most print none",
    ),
    "agent/launcher/ondemand.py": (
        {
            "__init__",
            "agent/doctor/inspection",
            "agent/model/compilers",
            "agent/model/optimizer_hooks",
            "agent/tuning/setting",
        },
        "runs in every Python that a watched script starts: most never iterate a loader",
    ),
    "agent/launcher/rank_start.py": (
        {"agent/process/identity", "agent/session", "core/config", "core/errors"},
        "as above: few are ranks",
    ),
    "agent/launcher/unwatched.py": (
        {"agent/hot/__init__", "core/config", "core/errors", "core/files"},
        "as above, at the end of the process",
    ),
    "cli/run.py": (
        {"supervisor/supervise"},
        "becomes the job at once where nothing beside it is asked for, which needs none of the supervisor",
    ),
    "streamer/__main__.py": (
        {"streamer/streamer"},
        "a standby waits for as long as a run takes, and needs none of what streams",
    ),
}
"""Modules that import some of ours inside functions: which, and why."""

OF_MANY = {
    "advise/test_words.py",
    "agent/test_other_torch.py",
    "cli/test_main.py",
    "detect/test_anything.py",
    "detect/test_asynchronous.py",
    "server/test_hostile_envelopes.py",
    "server/test_refused_envelopes.py",
    "server/test_shared_gpu.py",
    "streamer/test_elsewhere.py",
    "streamer/test_gpu_of_a_process.py",
    "texts/test_agent_lines.py",
    "texts/test_catalogues.py",
}
"""Unit tests whose subject lies in several modules."""


TESTED_TOGETHER: dict[tuple[str, str], str] = {
    ("", "unit/cli/test_main.py"): "__main__",
    (
        "advise",
        "unit/advise/test_audit.py",
    ): "batches epoch_start facts options prefetch sharding threads workers",
    ("agent", "integration/test_agent_loader.py"): "session",
    ("agent", "integration/test_agent_steps.py"): "recorder",
    ("agent", "integration/test_agent_threads.py"): "prefetch_thread_waits",
    ("agent", "integration/test_cli_run_tracebacks.py"): "frames",
    ("agent", "integration/test_doctor.py"): "source",
    ("agent", "integration/test_framework_callbacks.py"): "progress",
    ("agent", "unit/agent/test_attach.py"): "arguments",
    ("agent/doctor", "integration/test_doctor.py"): "inspection probe",
    ("agent/hot", "unit/agent/model/test_timed_calls.py"): "calls",
    ("agent/hot", "unit/agent/test_hot.py"): "fetches layout passes phases samples",
    ("agent/launcher", "integration/test_agent_subclasses.py"): "ondemand",
    ("agent/launcher", "integration/test_cli_run.py"): "bootstrap unwatched",
    ("agent/launcher", "integration/test_rank_start.py"): "rank_start",
    ("agent/launcher/site", "integration/test_cli_run.py"): "sitecustomize",
    ("agent/loaders", "compat/test_loader.py"): "wrapper",
    ("agent/loaders", "integration/test_agent_loader.py"): "dataloader epoch iterator watch",
    ("agent/loaders", "integration/test_agent_made_anew.py"): "lineage",
    ("agent/loaders", "integration/test_agent_roles.py"): "roles",
    ("agent/loaders", "integration/test_agent_subclasses.py"): "class_hook",
    ("agent/loaders", "integration/test_agent_substitutes.py"): "substitutes",
    ("agent/loaders", "integration/test_agent_without_loader.py"): "step_loop",
    ("agent/loaders", "integration/test_sample_timeout.py"): "sample_timeout_reader",
    ("agent/loaders", "unit/agent/loaders/test_naming.py"): "construction",
    ("agent/model", "compat/test_training.py"): "compilers",
    ("agent/model", "integration/test_agent_loader.py"): "phase",
    ("agent/model", "integration/test_agent_scout.py"): "discovery",
    ("agent/model", "integration/test_agent_steps.py"): "hooks",
    ("agent/model", "integration/test_agent_without_loader.py"): "optimizer_hooks",
    ("agent/tuning", "integration/test_autotune.py"): "pass_measures",
    ("agent/workers", "integration/test_agent_failed_sample.py"): "failed_sample",
    ("agent/workers", "integration/test_agent_loader.py"): "probe",
    ("agent/workers", "integration/test_sample_timeout.py"): "ended_workers sample_limit stand_ins",
    ("cli", "integration/test_cli_run.py"): "run",
    ("cli", "integration/test_cli_stacks.py"): "stacks",
    ("cli", "integration/test_demo_acts.py"): "demo",
    ("cli", "integration/test_doctor.py"): "doctor script",
    ("cli", "integration/test_server_cli.py"): "analyze serve token",
    ("cli", "integration/test_server_lifetime.py"): "stop",
    ("cli", "unit/cli/test_main.py"): "flags",
    ("cli/recordings", "integration/test_import.py"): "destination imports",
    ("cli/recordings", "unit/server/recordings/test_export.py"): "export",
    ("core", "faults/test_clocks.py"): "clock",
    ("core", "integration/test_agent_descriptors.py"): "kept_files",
    ("core", "unit/agent/process/test_launch.py"): "detached_processes",
    ("core", "unit/core/test_config.py"): "errors",
    ("core", "unit/core/test_wire.py"): "facts",
    ("core", "unit/detect/test_nested_evaluation.py"): "columns",
    ("core", "unit/server/store/sql/test_others_wait.py"): "wait_rules",
    ("core", "unit/texts/test_catalogues.py"): "message",
    ("core/answers", "unit/core/test_answers.py"): "basics charts comparison current_state findings runs",
    ("core/ring", "unit/core/test_ring.py"): "span",
    ("demo", "integration/test_demo_acts.py"): "processes train",
    ("detect", "unit/detect/input_bound/test_worker_causes.py"): "iterable_datasets",
    ("detect", "unit/detect/measures/test_pace.py"): "evidence",
    ("detect", "unit/detect/test_anything.py"): "shared_thresholds",
    ("detect", "unit/detect/test_detectors.py"): "codes rule",
    ("detect/crash", "unit/detect/crash/test_detector.py"): "death_traces killed",
    ("detect/epoch_boundary", "unit/detect/epoch_boundary/test_detector.py"): "causes",
    ("detect/hang", "integration/test_flight.py"): "flight_recorder",
    ("detect/hang", "unit/detect/hang/test_detector.py"): "expected_standstills outside_loops rank_positions",
    ("detect/hang", "unit/detect/test_detectors.py"): "rules",
    ("detect/input_bound", "unit/detect/input_bound/test_detector.py"): "spikes stalls symptoms",
    ("detect/measures", "unit/detect/input_bound/test_detector.py"): "boundaries machine progress",
    ("detect/measures", "unit/detect/running_out/test_slower_fetches.py"): "history_slices",
    ("detect/running_out", "unit/detect/running_out/test_slower_fetches.py"): "nearest_rank",
    ("detect/slow_step", "unit/detect/measures/test_coupling.py"): "slow_rank",
    ("detect/slow_step", "unit/detect/slow_step/test_pauses.py"): "long_steps step_finding",
    ("detect/slow_step", "unit/detect/test_detectors.py"): "rules",
    (
        "frameworks",
        "integration/test_framework_callbacks.py",
    ): "accelerate callback_base lightning transformers ultralytics",
    ("server", "integration/test_server_lifetime.py"): "idle_shutdown",
    ("server", "integration/test_server_process.py"): "process",
    ("server", "unit/server/test_app.py"): "services",
    ("server/http", "integration/test_http_api_doc.py"): "runs",
    ("server/http", "integration/test_import.py"): "recordings",
    ("server/http", "integration/test_server_identity.py"): "server",
    ("server/http", "unit/server/test_app.py"): "errors ingest",
    ("server/peers", "integration/test_servers.py"): "handover",
    ("server/queries", "integration/test_http_api_doc.py"): "parameters",
    ("server/recordings", "integration/test_import.py"): "incoming_runs outgoing_run",
    ("server/store", "integration/test_store_charts.py"): "metrics",
    ("server/store", "integration/test_store_duckdb.py"): "protocol rows schema",
    (
        "server/store/clickhouse",
        "integration/test_store_clickhouse.py",
    ): "claims database list_entries schema",
    ("server/store/clickhouse", "integration/test_store_conformance.py"): "snapshot",
    ("server/store/duckdb", "integration/test_store_duckdb.py"): "files",
    ("server/store/sql", "integration/test_import.py"): "transfer",
    ("server/store/sql", "integration/test_store_charts.py"): "charts snapshot store",
    ("server/store/sql", "integration/test_store_duckdb.py"): "row_queries sums",
    ("server/window", "integration/test_replay.py"): "replay",
    ("agent/process", "unit/streamer/profile/test_sampler.py"): "readable_thread",
    ("streamer/profile", "unit/streamer/profile/test_remote_stack.py"): "layouts",
    ("streamer", "integration/test_flight.py"): "flight_recorder",
    ("streamer", "integration/test_streamer_run.py"): "__main__ drain rings streamer",
    ("streamer", "unit/streamer/test_election.py"): "streamer_start",
    ("streamer", "unit/streamer/test_upload.py"): "job_stderr server_finder",
    ("streamer/outbox", "unit/streamer/outbox/test_outbox.py"): "files",
    ("streamer/samplers", "unit/streamer/test_gpu_of_a_process.py"): "gpu nvml",
    ("streamer/samplers", "unit/streamer/test_samplers.py"): "cgroup host process",
    ("supervisor", "integration/test_supervisor.py"): "job say supervise watch",
}
"""Modules of a folder without a test of their own name, and which test under ``tests/`` is about them."""

TESTED_BY = {
    f"{folder}/{name}.py".removeprefix("/"): test
    for (folder, test), names in TESTED_TOGETHER.items()
    for name in names.split()
}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


NAMES = {name_of(path): path for path in modules()}


def our_imports(tree: ast.AST) -> Iterator[tuple[ast.stmt, str]]:
    """Every import of ours with its module, also those for type checkers and inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            while name and name not in NAMES:
                name = name.rpartition(".")[0]
            if name:
                yield node, name


def imported_names(path: Path) -> Iterator[str]:
    """Absolute names of what a module imports at run time; ``if TYPE_CHECKING`` is for type checkers."""
    tree = ast.parse(path.read_text())
    typing_only = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the direction; write the whole name"
            assert node.module is not None
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def part_of(path: Path) -> str:
    relative = path.relative_to(PACKAGE)
    if len(relative.parts) > 1:
        return relative.parts[0]
    return "" if relative.stem == "__init__" else relative.stem


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path: Path) -> None:
    part = part_of(path)
    allowed = MAY_IMPORT[part] | {part}
    for name in imported_names(path):
        if name.partition(".")[0] != "loaderwatch":
            continue
        parts = name.split(".")
        target = parts[1] if len(parts) > 1 and (PACKAGE / parts[1]).is_dir() else ""
        if name in (
            "loaderwatch",
            "loaderwatch.__version__",
        ):  # where it lies and what it is: nothing of its parts
            continue
        assert target in allowed, f"{part or 'loaderwatch/__init__'} imports {name}"


@pytest.mark.parametrize("folder", FOLDER_MAY_IMPORT)
def test_a_folder_imports_no_more_than_its_row_says(folder: str) -> None:
    for path in (PACKAGE / folder).rglob("*.py"):
        for _, name in our_imports(ast.parse(path.read_text())):
            target = NAMES[name].relative_to(PACKAGE).with_suffix("").as_posix()
            allowed = FOLDER_MAY_IMPORT[folder]
            assert any(f"{target}/".startswith(f"{each}/") for each in allowed), f"{path} imports {name}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_heavy_modules_stay_where_they_belong(path: Path) -> None:
    folder = path.relative_to(PACKAGE).parent.as_posix()
    for name in imported_names(path):
        homes = HEAVY.get(name.partition(".")[0])
        assert homes is None or any(folder == home or folder.startswith(f"{home}/") for home in homes), (
            f"{path.relative_to(PACKAGE)} imports {name}, which belongs under {sorted(homes or ())}"
        )


def test_import_loaderwatch_loads_nothing_heavy() -> None:
    code = (
        "import sys, loaderwatch; "
        f"print(sorted({set(HEAVY) | {'numpy'}!r} & {{name.partition('.')[0] for name in sys.modules}}))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert shown.stdout.strip() == "[]"


def test_the_table_covers_every_part() -> None:
    assert {part_of(path) for path in modules()} <= set(MAY_IMPORT)


def functions(tree: ast.AST) -> list[ast.AST]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def late_nodes(tree: ast.AST) -> set[int]:
    return {id(node) for function in functions(tree) for node in ast.walk(function)}


def circles(needs: dict[str, set[str]]) -> dict[str, list[str]]:
    """What lies in circles or needs what does, with what of that it needs."""
    left = dict(needs)
    while free := {name for name, others in left.items() if not others & left.keys()}:
        left = {name: others for name, others in left.items() if name not in free}
    return {name: sorted(others & left.keys()) for name, others in left.items()}


def imports_at_the_top(room: Callable[[str], str]) -> dict[str, set[str]]:
    """Which rooms each room imports."""
    needs: dict[str, set[str]] = {}
    for name, path in NAMES.items():
        tree = ast.parse(path.read_text())
        late = late_nodes(tree)
        here = room(name)
        others = {room(other) for node, other in our_imports(tree) if id(node) not in late}
        needs[here] = needs.get(here, set()) | others - {here}
    return needs


def folder_of(name: str) -> str:
    """The folder of a module, such as ``loaderwatch.server.http``; a part's own modules count singly."""
    folder = name if NAMES[name].stem == "__init__" else name.rpartition(".")[0]
    return folder if folder.count(".") > 1 else name


def test_no_imports_in_a_circle() -> None:
    """Those for type checkers count: who reads one module of a circle has to read them all."""
    assert not circles(imports_at_the_top(str))


def test_no_folders_in_a_circle() -> None:
    """What two folders need lies below both."""
    assert not circles(imports_at_the_top(folder_of))


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_stand_at_the_top(path: Path) -> None:
    tree = ast.parse(path.read_text())
    late = late_nodes(tree)
    hidden = {
        NAMES[name].relative_to(PACKAGE).with_suffix("").as_posix()
        for node, name in our_imports(tree)
        if id(node) in late
    }
    assert hidden == IMPORTS_LATE.get(path.relative_to(PACKAGE).as_posix(), (set(), ""))[0]


def test_unit_tests_lie_as_their_modules_do() -> None:
    """``test_roster.py`` and ``test_roster_output.py`` test ``roster.py`` of the folder of that name."""
    lost = set()
    for path in TESTS.rglob("test_*.py"):
        if path.parent == TESTS:
            continue  # of the repository: its layout, its docs, its benches
        folder, words = PACKAGE / path.parent.relative_to(TESTS), path.stem.split("_")[1:]
        subjects = [folder / "_".join(words[:count]) for count in range(1, len(words) + 1)]
        if not any(subject.with_suffix(".py").exists() or subject.is_dir() for subject in subjects):
            lost.add(path.relative_to(TESTS).as_posix())
    assert lost == OF_MANY


def has_own_test(name: str) -> bool:
    return (TESTS / name).with_name(f"test_{Path(name).name}").exists()


def test_every_module_has_a_test_to_open() -> None:
    names = {path.relative_to(PACKAGE).as_posix() for path in modules() if path.stem != "__init__"}
    others = {name for name in names if not has_own_test(name)}
    assert not others - TESTED_BY.keys(), "give it a test of its name, or say in TESTED_BY which one tests it"
    assert not TESTED_BY.keys() - others, "these have tests of their names now, or are gone"
    assert not [test for test in TESTED_BY.values() if not (TESTS.parent / test).exists()]


def test_no_decoder_is_made_where_another_thread_may_make_it_too(repo_root: Path) -> None:
    """``decode_json`` says why: at its first use of a type msgspec is not safe with threads."""
    at_use = re.compile(r"(?<![\w.])msgspec\.(?:json|msgpack)\.decode\([^)]*type=")
    found = [
        str(path) for path in (repo_root / "loaderwatch").rglob("*.py") if at_use.search(path.read_text())
    ]
    assert found == []

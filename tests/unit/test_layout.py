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
    "core/test_wire_properties.py",
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


TESTED_BY: dict[str, str] = {
    "__main__.py": "unit/cli/test_main.py",
    "agent/arguments.py": "unit/agent/test_attach.py",
    "agent/frames.py": "integration/test_cli_run_tracebacks.py",
    "agent/hot/calls.py": "unit/agent/model/test_timed_calls.py",
    "agent/hot/collector.py": "unit/agent/process/test_garbage.py",
    "agent/launcher/ondemand.py": "integration/test_agent_subclasses.py",
    "agent/launcher/rank_start.py": "integration/test_rank_start.py",
    "agent/launcher/site/sitecustomize.py": "integration/test_cli_run.py",
    "agent/loaders/class_hook.py": "integration/test_agent_subclasses.py",
    "agent/loaders/construction.py": "unit/agent/loaders/test_naming.py",
    "agent/loaders/dataloader.py": "integration/test_agent_loader.py",
    "agent/loaders/epoch.py": "integration/test_agent_loader.py",
    "agent/loaders/iterator.py": "integration/test_agent_loader.py",
    "agent/loaders/sample_timeout_reader.py": "integration/test_sample_timeout.py",
    "agent/loaders/lineage.py": "integration/test_agent_made_anew.py",
    "agent/loaders/roles.py": "integration/test_agent_roles.py",
    "agent/loaders/step_loop.py": "integration/test_agent_without_loader.py",
    "agent/loaders/substitutes.py": "integration/test_agent_substitutes.py",
    "agent/loaders/watch.py": "integration/test_agent_loader.py",
    "agent/loaders/wrapper.py": "compat/test_loader.py",
    "agent/model/compilers.py": "compat/test_training.py",
    "agent/model/discovery.py": "integration/test_agent_scout.py",
    "agent/model/hooks.py": "integration/test_agent_steps.py",
    "agent/model/modules.py": "integration/test_agent_scout.py",
    "agent/model/optimizer_hooks.py": "integration/test_agent_without_loader.py",
    "agent/model/phase.py": "integration/test_agent_loader.py",
    "agent/session.py": "integration/test_agent_loader.py",
    "agent/progress.py": "integration/test_framework_callbacks.py",
    "agent/prefetch_thread_waits.py": "integration/test_agent_threads.py",
    "agent/recorder.py": "integration/test_agent_steps.py",
    "agent/source.py": "integration/test_doctor.py",
    "agent/workers/ended_workers.py": "integration/test_sample_timeout.py",
    "agent/workers/failed_sample.py": "integration/test_agent_failed_sample.py",
    "agent/workers/probe.py": "integration/test_agent_loader.py",
    "agent/workers/sample_limit.py": "integration/test_sample_timeout.py",
    "agent/workers/stand_ins.py": "integration/test_sample_timeout.py",
    "advise/comparison/measures.py": "unit/advise/comparison/test_compare.py",
    "cli/analyze.py": "integration/test_server_cli.py",
    "cli/demo.py": "integration/test_demo_acts.py",
    "agent/tuning/pass_measures.py": "integration/test_autotune.py",
    "cli/doctor.py": "integration/test_doctor.py",
    "cli/recordings/destination.py": "integration/test_import.py",
    "cli/recordings/export.py": "unit/server/recordings/test_export.py",
    "cli/recordings/imports.py": "integration/test_import.py",
    "cli/flags.py": "unit/cli/test_main.py",
    "cli/run.py": "integration/test_cli_run.py",
    "cli/script.py": "integration/test_doctor.py",
    "cli/serve.py": "integration/test_server_cli.py",
    "cli/stacks.py": "integration/test_cli_stacks.py",
    "cli/stop.py": "integration/test_server_lifetime.py",
    "cli/token.py": "integration/test_server_cli.py",
    "core/answers/basics.py": "unit/core/test_answers.py",
    "core/answers/charts.py": "unit/core/test_answers.py",
    "core/answers/comparison.py": "unit/core/test_answers.py",
    "core/answers/findings.py": "unit/core/test_answers.py",
    "core/answers/current_state.py": "unit/core/test_answers.py",
    "core/answers/runs.py": "unit/core/test_answers.py",
    "core/answers/settings.py": "unit/core/test_answers.py",
    "core/answers/timeline.py": "unit/core/test_answers.py",
    "detect/hang/across_ranks.py": "unit/detect/hang/test_collectives.py",
    "detect/hang/left_behind.py": "unit/detect/hang/test_collectives.py",
    "detect/hang/expected_standstills.py": "unit/detect/hang/test_detector.py",
    "detect/running_out/nearest_rank.py": "unit/detect/running_out/test_slower_fetches.py",
    "detect/measures/history_slices.py": "unit/detect/running_out/test_slower_fetches.py",
    "detect/iterable_datasets.py": "unit/detect/input_bound/test_worker_causes.py",
    "detect/input_bound/message_names.py": "unit/detect/input_bound/test_rules.py",
    "core/clock.py": "faults/test_clocks.py",
    "core/columns.py": "unit/detect/test_nested_evaluation.py",
    "core/message.py": "unit/texts/test_catalogues.py",
    "core/errors.py": "unit/core/test_config.py",
    "core/facts.py": "unit/core/test_wire.py",
    "core/kept_files.py": "integration/test_agent_descriptors.py",
    "core/ring/span.py": "unit/core/test_ring.py",
    "core/detached_processes.py": "unit/agent/process/test_launch.py",
    "core/wait_rules.py": "unit/server/store/sql/test_others_wait.py",
    "demo/processes.py": "integration/test_demo_acts.py",
    "demo/tour.py": "integration/test_demo_acts.py",
    "demo/train.py": "integration/test_demo_acts.py",
    "detect/evidence.py": "unit/detect/measures/test_pace.py",
    "detect/detectors.py": "unit/detect/test_anything.py",
    "detect/epoch_boundary/causes.py": "unit/detect/epoch_boundary/test_detector.py",
    "detect/explanation.py": "unit/detect/input_bound/test_rules.py",
    "detect/finding.py": "unit/detect/incidents/test_tracker.py",
    "detect/hang/flight_recorder.py": "integration/test_flight.py",
    "detect/shared_thresholds.py": "unit/detect/test_anything.py",
    "detect/slow_step/batch_sizes.py": "unit/detect/slow_step/test_pauses.py",
    "detect/slow_step/long_steps.py": "unit/detect/slow_step/test_pauses.py",
    "detect/slow_step/slow_rank.py": "unit/detect/measures/test_coupling.py",
    "server/access/connection.py": "integration/test_server_doors.py",
    "server/encoding.py": "unit/server/test_app.py",
    "server/http/import_routes.py": "integration/test_import.py",
    "server/http/comparison.py": "integration/test_compare.py",
    "server/http/errors.py": "unit/server/test_app.py",
    "server/http/identity.py": "integration/test_server_identity.py",
    "server/http/ingest.py": "unit/server/test_app.py",
    "server/http/recording.py": "unit/server/recordings/test_export.py",
    "server/http/server.py": "integration/test_server_lifetime.py",
    "server/options.py": "integration/test_server_cli.py",
    "server/services.py": "unit/server/test_app.py",
    "server/process.py": "integration/test_server_process.py",
    "server/recovery.py": "integration/test_server_runs.py",
    "server/idle_shutdown.py": "integration/test_server_lifetime.py",
    "server/store/facts.py": "unit/server/store/test_attempts.py",
    "server/tls.py": "integration/test_server_tls.py",
    "server/window/replay.py": "integration/test_replay.py",
    "streamer/flight_recorder.py": "integration/test_flight.py",
    "streamer/outbox/files.py": "unit/streamer/outbox/test_outbox.py",
    "streamer/stack_moments/slow_loops.py": "integration/test_streamer_stacks.py",
    "streamer/streamer_start.py": "unit/streamer/test_election.py",
}
"""Which test, under ``tests/``, to open for a module that has none of its own name."""

TESTED_TOGETHER: dict[tuple[str, str], str] = {
    ("detect", "unit/detect/test_families.py"): "rule threshold_table",
    ("detect/crash", "unit/detect/test_families.py"): "rules",
    ("detect/epoch_boundary", "unit/detect/test_families.py"): "rules",
    ("detect/hang", "unit/detect/test_families.py"): "rules",
    ("detect/running_out", "unit/detect/test_families.py"): "rules",
    ("detect/slow_step", "unit/detect/test_families.py"): "rules",
    (
        "advise",
        "unit/advise/test_audit.py",
    ): "advice batches epoch_start facts options prefetch sharding threads workers",
    ("agent/doctor", "integration/test_doctor.py"): "inspection probe",
    ("agent/hot", "unit/agent/test_hot.py"): "fetches layout nexts passes phases samples",
    ("agent/launcher", "integration/test_cli_run.py"): "bootstrap unwatched",
    (
        "detect/crash",
        "unit/detect/crash/test_detector.py",
    ): "death_traces failed_sample full_disk killed late_sample",
    ("detect/hang", "unit/detect/hang/test_detector.py"): "loader_hang_causes outside_loops rank_positions",
    ("detect/input_bound", "unit/detect/input_bound/test_detector.py"): "spikes stalls symptoms",
    (
        "detect/measures",
        "unit/detect/input_bound/test_detector.py",
    ): "boundaries machine progress time_use",
    (
        "frameworks",
        "integration/test_framework_callbacks.py",
    ): "accelerate callback_base lightning transformers ultralytics",
    ("server/http", "integration/test_http_api_doc.py"): "alerts runs",
    ("server/queries", "integration/test_http_api_doc.py"): "coupling live_answers parameters",
    ("server/peers", "integration/test_servers.py"): "handover",
    ("server/store", "integration/test_store_charts.py"): "metrics",
    ("server/store", "integration/test_store_duckdb.py"): "protocol rows schema",
    ("server/store/sql", "integration/test_store_charts.py"): "charts snapshot store",
    ("server/store/sql", "integration/test_store_duckdb.py"): "row_queries sums",
    (
        "server/store/clickhouse",
        "integration/test_store_clickhouse.py",
    ): "claims database list_entries partitions schema",
    ("server/recordings", "integration/test_import.py"): "incoming_runs outgoing_run",
    ("server/store/sql", "integration/test_import.py"): "transfer",
    ("server/store/clickhouse", "integration/test_import.py"): "incoming_run",
    ("server/store/clickhouse", "integration/test_store_conformance.py"): "snapshot",
    ("server/store/duckdb", "integration/test_import.py"): "incoming_run",
    ("server/store/duckdb", "integration/test_store_duckdb.py"): "files",
    ("server/window", "integration/test_in_part.py"): "joined_envelopes window_state",
    ("streamer", "integration/test_streamer_run.py"): "__main__ drain rings streamer",
    ("streamer", "unit/streamer/test_upload.py"): "job_stderr server_finder",
    ("streamer/samplers", "unit/streamer/test_gpu_of_a_process.py"): "gpu nvml",
    ("streamer/samplers", "unit/streamer/test_samplers.py"): "cgroup host process procfs threads",
    (
        "supervisor",
        "integration/test_supervisor.py",
    ): "job rescue restart runs say signals stack_text supervise watch",
}
"""The same for tests of several modules of a folder. Modules are named, so that a new one needs a test."""

TESTED_BY |= {
    f"{folder}/{name}.py": test for (folder, test), names in TESTED_TOGETHER.items() for name in names.split()
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
    """``tests/unit/detect/crash/test_unexplained.py`` is of ``loaderwatch/detect/crash/unexplained.py``."""
    lost = set()
    for path in TESTS.rglob("test_*.py"):
        if path.parent == TESTS:
            continue  # of the repository: its layout, its docs, its benches
        subject = PACKAGE / path.parent.relative_to(TESTS) / path.stem.removeprefix("test_")
        if not subject.with_suffix(".py").exists() and not subject.is_dir():
            lost.add(path.relative_to(TESTS).as_posix())
    assert lost == OF_MANY


def has_own_test(name: str) -> bool:
    return (TESTS / name).with_name(f"test_{Path(name).name}").exists()


def test_every_module_has_a_test_to_open() -> None:
    names = {path.relative_to(PACKAGE).as_posix() for path in modules() if path.stem != "__init__"}
    others = {name for name in names if not has_own_test(name)}
    assert not others - TESTED_BY.keys(), "give it a test of its name, or say in TESTED_BY which one tests it"
    assert not TESTED_BY.keys() - names, "these are gone"
    assert not [test for test in TESTED_BY.values() if not (TESTS.parent / test).exists()]


def test_no_decoder_is_made_where_another_thread_may_make_it_too(repo_root: Path) -> None:
    """``decode_json`` says why: at its first use of a type msgspec is not safe with threads."""
    at_use = re.compile(r"(?<![\w.])msgspec\.(?:json|msgpack)\.decode\([^)]*type=")
    found = [
        str(path) for path in (repo_root / "loaderwatch").rglob("*.py") if at_use.search(path.read_text())
    ]
    assert found == []

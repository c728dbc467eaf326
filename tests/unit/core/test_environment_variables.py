"""The rows of the environment variables: parsers, documents, and that nothing else reads a variable."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from apprise.utils.parse import parse_urls

from loaderwatch.core import environment_variables as variables
from loaderwatch.core.environment_variables import ADDRESSES, FLAG, VARIABLES, ValueType
from loaderwatch.core.errors import ConfigError
from tests.docs import configuration
from tests.waiting import PATIENCE_S

NAME = re.compile(r"LOADERWATCH_[A-Z]+(?:_[A-Z]+)*")
SECRET = "S3CRET"
NEVER_WRONG = {"text", "password", "file", "JSON", "flag", "language"}
"""Types of which every value can be used. The code that reads JSON checks it."""
WRONG = [
    ("LOADERWATCH_SERVER", "box:8790", "is 'box:8790'; use a URL such as http://127.0.0.1:8790"),
    ("LOADERWATCH_SERVER", "http://box:99999",
     "is 'http://box:99999'; use a URL such as http://127.0.0.1:8790"),
    ("LOADERWATCH_SERVER", f"ftp://me:{SECRET}@box",
     "is 'ftp://box'; use a URL such as http://127.0.0.1:8790"),
    ("LOADERWATCH_TOKEN", f"{SECRET}\n",
     "has a character that cannot be sent in a request; use letters and digits,"),
    ("LOADERWATCH_NOTIFY", SECRET, "has no scheme; use an Apprise address such as json://host/path"),
    ("LOADERWATCH_NOTIFY", f"{SECRET} json://b", "has no scheme in address 1; use an Apprise"),
    ("LOADERWATCH_DIR", "~nobody-of-this-name/x", r"is '~nobody-of-this-name/x': .+; use an absolute path"),
    ("LOADERWATCH_OUTBOX_BYTES", "256MB", "is '256MB'; use a whole number of bytes, 1 or more"),
    ("LOADERWATCH_OUTBOX_BYTES", "0", "is '0'; use a whole number of bytes, 1 or more"),
    ("LOADERWATCH_CACHED_BATCHES", "many", "is 'many'; use a whole number of batches, 0 or more"),
    ("LOADERWATCH_CACHED_BATCHES", "-1", "is '-1'; use a whole number of batches, 0 or more"),
    ("LOADERWATCH_CACHED_BATCHES", "1.5", "is '1.5'; use a whole number of batches, 0 or more"),
    ("LOADERWATCH_CACHED_BATCHES", "9" * 20, "is '9+'; use a whole number of batches, 0 or more"),
    ("LOADERWATCH_IDLE_HOURS", "soon", "is 'soon'; use a number of hours, such as 4, or 0 for never"),
    ("LOADERWATCH_IDLE_HOURS", "-1", "is '-1'; use a number of hours, such as 4, or 0 for never"),
    ("LOADERWATCH_IDLE_HOURS", "inf", "is 'inf'; use a number of hours, such as 4, or 0 for never"),
]  # fmt: skip
BY_NAME = {variable.name: variable for variable in VARIABLES}


@pytest.mark.parametrize(("name", "text", "said"), WRONG)
def test_a_wrong_value_is_an_error_with_name_value_and_what_is_allowed(
    name: str, text: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{name} {said}") as caught:
        BY_NAME[name].read({name: text})
    assert SECRET not in str(caught.value)


def test_every_type_has_a_wrong_value_or_takes_any() -> None:
    tried = {BY_NAME[name].value_type.name for name, _, _ in WRONG}
    assert {variable.value_type.name for variable in VARIABLES} == tried | NEVER_WRONG
    assert not tried & NEVER_WRONG
    for variable in VARIABLES:
        if variable.value_type.name in NEVER_WRONG:
            variable.read({variable.name: "\udcff nonsense"})


def test_a_long_value_is_cut_in_an_error() -> None:
    with pytest.raises(ConfigError) as caught:
        variables.SERVER.read({"LOADERWATCH_SERVER": "x" * 10_000})
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(("text", "on"), [("", False), ("0", False), ("1", True), ("true", True)])
def test_flags(text: str, on: bool) -> None:
    assert variables.DISABLE.read({"LOADERWATCH_DISABLE": text}) is on
    assert FLAG.parse(text or "0", "it") is on


def test_a_missing_and_an_empty_variable_have_the_default() -> None:
    for variable in VARIABLES:
        assert variable.read({}) == variable.read({variable.name: ""}) == variable.default


def test_what_is_taken_is_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOADERWATCH_TUNE", "{}")
    assert variables.TUNE.take() == "{}"
    assert "LOADERWATCH_TUNE" not in os.environ
    assert variables.TUNE.take() is None


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        (" , ", ()),
        ("slack://T/B/X", ("slack://T/B/X",)),
        ("json://a json://b\n", ("json://a", "json://b")),
        ("json://a, json://b;json://c ,JSONS://d", ("json://a", "json://b", "json://c", "JSONS://d")),
        ("mailto://u:p@h?to=a@x,b@y,json://a", ("mailto://u:p@h?to=a@x,b@y", "json://a")),
    ],
)
def test_addresses_stand_apart_as_apprise_reads_them(text: str, addresses: tuple[str, ...]) -> None:
    assert ADDRESSES.parse(text, "notify") == addresses
    assert list(addresses) == parse_urls(text, store_unparseable=False)  # type: ignore[no-untyped-call]


def test_every_row_is_complete() -> None:
    assert len(BY_NAME) == len(VARIABLES)
    for variable in VARIABLES:
        assert NAME.fullmatch(variable.name)
        assert variable.meaning.endswith(".")
        sentences = re.split(r"(?<=\.) ", variable.meaning)
        assert all(len(sentence.split()) <= 30 for sentence in sentences), variable.name
        constant = variable.name.removeprefix(variables.PREFIX)
        assert getattr(variables, constant) is variable


def sources(root: Path) -> list[Path]:
    """The files of the product in which a variable may stand, and the documents that tell people of one."""
    folders = [
        path for name in ("loaderwatch", "web", "benchmarks", "docs") for path in (root / name).rglob("*")
    ]
    names = {
        "Makefile",
        "Dockerfile",
        "docker-compose.yml",
        "hatch_build.py",
        "README.md",
        "README.zh-CN.md",
        "CONTRIBUTING.md",
    }
    kinds = {".py", ".c", ".h", ".js", ".json", ".html", ".md", ".ftl"}
    return [*(path for path in folders if path.suffix in kinds),
            *(root / name for name in names)]  # fmt: skip


def test_every_variable_that_is_named_has_a_row(repo_root: Path) -> None:
    files = sources(repo_root)
    assert len(files) > 500
    named = {
        (name, path.relative_to(repo_root).as_posix())
        for path in files
        for name in NAME.findall(path.read_text(encoding="utf-8"))
    }
    assert {where for where in named if where[0] not in BY_NAME} == set()
    assert BY_NAME.keys() <= {name for name, _ in named}


def test_python_code_reads_variables_through_their_rows(repo_root: Path) -> None:
    """A row's ``name`` is for environments of child processes. A string with a name would bypass the row."""
    package = repo_root / "loaderwatch"
    other_ways = set()
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and NAME.fullmatch(node.value):
                other_ways.add((path.relative_to(package).as_posix(), node.value))
    own = {way for way in other_ways if way[0] == "core/environment_variables.py"}
    # sitecustomize asks before it has found loaderwatch
    assert other_ways - own == {("agent/launcher/site/sitecustomize.py", "LOADERWATCH_SCRIPT")}


def test_the_hot_path_reads_no_variable(repo_root: Path) -> None:
    """No batch or step reads the environment: only the import of ``agent.hot`` does, once."""
    agent = repo_root / "loaderwatch" / "agent"
    paths = [*(agent / "hot").glob("*.py"), *(agent / "model").glob("*.py"), agent / "recorder.py"]
    assert len(paths) > 10
    for path in paths:
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef):
                source = ast.unparse(function)
                assert not re.search(r"\bvariables\.|\benviron\b|\bgetenv\b", source), (path, function.name)


def test_the_rows_load_little() -> None:
    """``import loaderwatch`` and every Python that a watched script starts import them."""
    code = (
        "import sys, pathlib, re; before = set(sys.modules); import loaderwatch.core.environment_variables\n"
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    loaded = set(ast.literal_eval(done.stdout))
    assert {name for name in loaded if name.startswith("loaderwatch")} == {
        "loaderwatch",
        "loaderwatch.core",
        "loaderwatch.core.environment_variables",
        "loaderwatch.core.errors",
    }
    assert not loaded & {
        "dataclasses",
        "hashlib",
        "inspect",
        "ipaddress",
        "msgspec",
        "subprocess",
        "threading",
    }


def test_the_document_is_generated() -> None:
    assert configuration.FILE.read_text(encoding="utf-8") == configuration.text(), "run `make docs`"


def test_types_are_named_apart() -> None:
    types = {variable.value_type for variable in VARIABLES}
    assert all(isinstance(value_type, ValueType) for value_type in types)
    assert len({value_type.name for value_type in types}) == len(types)

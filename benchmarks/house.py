"""How the code is kept, by its source: sentences in rules, numbers without a source, parsed keys, sizes.

    .venv/bin/python -m benchmarks.house [--places] [--json FILE]

*Sentences*: strings of three words and more in ``detect``, ``advise``, ``streamer`` and ``agent`` that may
end up in a message. They belong to the catalogues of ``loaderwatch/texts``. What does not count: docstrings,
the log, errors that are raised, help of a command line, regular expressions, sources of thresholds, and texts
that others are compared with.
*Constant numbers without unit and source*: those of ``detect`` that ``threshold`` does not define. A
collection counts if it holds a number that is no integer; integers in one are orders or codes.
*Names with several values*: of constant numbers that have another value in another module of ``detect``.
*Parsed keys*: a finding's key that is split, cut or searched. Its fields hold what a key is made of.
*Modules with one importer*: packages, protocols and what the public names import do not count.

It reads the source text of the checkout and runs nothing of it. ``--places`` names each place that is
counted. It prints a table, and writes it to FILE as JSON; exit code 1: a target is missed.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Final

REPO: Final = Path(__file__).resolve().parents[1]
LONGEST_LINE: Final = 110
SHORT_MODULE: Final = 60
LEAST_WORDS: Final = 3
SPEAKING: Final = ("detect", "advise", "streamer", "agent")
WRITTEN: Final = {
    "loaderwatch": ("*.py",),
    "tests": ("*.py", "*.js", "*.mjs"),
    "benchmarks": ("*.py",),
    "web/js": ("*.js",),
}
"""Files whose lines are measured, by folder."""
MATCHED: Final = ("startswith", "endswith", "removeprefix", "removesuffix")
PARSED: Final = (
    *MATCHED,
    "split",
    "rsplit",
    "partition",
    "rpartition",
    "find",
    "rfind",
    "index",
    "rindex",
    "replace",
)
NAMING: Final = ("threshold", "KnownCost")
"""Calls whose texts name sources, libraries and functions."""
LOGGED: Final = ("debug", "info", "warning", "error", "exception", "critical", "log")
ASKED: Final = ("ArgumentParser", "add_argument", "add_parser", "error")
PUBLIC: Final = ("loaderwatch/__init__.py", "loaderwatch/frameworks/")

_WORD: Final = re.compile(r"(?<![\w#<%./-])[A-Za-z][A-Za-z'’-]*(?![\w(=/>])")
_PATTERN: Final = re.compile(r"\(\?[:P<=!]")
_CONSTANT: Final = re.compile(r"_?[A-Z][A-Z0-9_]+")

Sources = Mapping[str, str]
"""Source texts by path, as "loaderwatch/detect/shared_thresholds.py"."""


@dataclass(frozen=True)
class Row:
    """One count, the most that it is to be, and the places that are counted."""

    what: str
    today: int
    target: int | None
    places: list[str] = field(default_factory=list)

    @property
    def met(self) -> bool:
        """Return whether the target is met."""
        return self.target is None or self.today <= self.target


def sentences(sources: Sources) -> list[str]:
    """Return the places of sentences that may end up in messages."""
    found = []
    for path, text in sources.items():
        tree = ast.parse(text)
        above = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        compared = _compared(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant | ast.JoinedStr):
                written = _written(node)
                words = len(_WORD.findall(written))
                if (
                    words >= LEAST_WORDS
                    and not _PATTERN.search(written)
                    and _is_message(node, above, compared)
                ):
                    found.append(f"{path}:{node.lineno}: {written!r}")
    return found


def _written(node: ast.expr) -> str:
    """Return a string with "{}" for each value that is put in; "" for what is no string."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_written(part) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return ""


def _is_message(string: ast.expr, above: Mapping[ast.AST, ast.AST], compared: Collection[str]) -> bool:
    """Whether a string may end up in a message, by the expressions and the statement that it is part of."""
    part: ast.AST = string
    while part in above:
        whole = above[part]
        match whole:
            case ast.JoinedStr() | ast.Compare() | ast.Raise() | ast.Assert():
                return False
            case ast.Dict(keys=keys) if part in keys:
                return False
            case ast.Call(func=called) if part is not called and _keeps_silent(called):
                return False
            case ast.arg() | ast.AnnAssign() if part is whole.annotation:
                return False
            case ast.Expr():
                return part is not string  # a string alone is a docstring
            case ast.AnnAssign(target=target, annotation=annotation):
                return not (_name(target) in compared or "TypeAlias" in ast.unparse(annotation))
            case ast.Assign(targets=targets):
                return not any(_name(target) in compared for target in targets)
            case ast.stmt():
                return True
        part = whole
    return True


def _keeps_silent(called: ast.expr) -> bool:
    """Whether a function makes no message of what it is given: it logs, matches, or names a source."""
    owner, _, name = ast.unparse(called).rpartition(".")
    logs = name in LOGGED and "log" in owner.lower()
    asks = name in ASKED and ("pars" in owner or owner == "argparse")
    return logs or asks or owner == "re" or name in (*MATCHED, *NAMING, "log_to_stderr", "warn", "cast")


def _name(target: ast.expr) -> str:
    return target.id if isinstance(target, ast.Name) else ""


def _compared(tree: ast.Module) -> set[str]:
    """Return the names of texts that others are only compared with, as in ``word in SENT``."""
    compared: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            compared.update((node.left, *node.comparators))
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MATCHED
        ):
            compared.update(node.args)
    uses: dict[str, list[bool]] = defaultdict(list)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            uses[node.id].append(node in compared)
    return {name for name, of in uses.items() if all(of)}


def unsourced(sources: Sources) -> list[str]:
    """Return the places of constant numbers without a unit or a source."""
    return [
        f"{path}:{line}: {name}"
        for path, text in sources.items()
        for name, line, value in _constants(text)
        if (_is_number(value) if (call := _threshold(value)) is None else not _says_why(call))
    ]


def ambiguous(sources: Sources) -> list[str]:
    """Return the names of constant numbers that have several values, with these and their places."""
    places: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path, text in sources.items():
        for name, line, value in _constants(text):
            call = _threshold(value)
            if call is not None or _is_number(value):
                number = ast.unparse(call.args[0] if call is not None and call.args else value)
                places[name][number].append(f"{path}:{line}")
    return [
        f"{name}: {'; '.join(f'{number} in {chr(32).join(where)}' for number, where in values.items())}"
        for name, values in sorted(places.items())
        if len(values) > 1
    ]


def _constants(text: str) -> Iterator[tuple[str, int, ast.expr]]:
    """Yield name, line and value of each constant of a module, and of each field of a class ``Limits``."""
    for node in ast.parse(text).body:
        of_limits = isinstance(node, ast.ClassDef) and node.name == "Limits"
        for each in node.body if isinstance(node, ast.ClassDef) and of_limits else [node]:
            if isinstance(each, ast.Assign | ast.AnnAssign) and each.value is not None:
                name = _name(each.targets[0] if isinstance(each, ast.Assign) else each.target)
                if name and (of_limits or _CONSTANT.fullmatch(name)):
                    yield name, each.lineno, each.value


def _threshold(value: ast.expr) -> ast.Call | None:
    return value if isinstance(value, ast.Call) and _name(value.func) == "threshold" else None


def _says_why(call: ast.Call) -> bool:
    return len(call.args) == 3 and all(_written(each).strip() for each in call.args[1:])


def _is_number(value: ast.expr) -> bool:
    """Whether a constant is a number, or a collection that holds a number that is no integer."""
    match value:
        case ast.Constant(value=int() | float() as number):
            return not isinstance(number, bool)
        case ast.UnaryOp(operand=operand):
            return _is_number(operand)
        case ast.BinOp(left=left, right=right):
            return _is_number(left) or _is_number(right)
        case ast.Lambda():
            return False
    if _threshold(value) is not None:
        return False
    parts = (part.value if isinstance(part, ast.keyword) else part for part in ast.iter_child_nodes(value))
    return any(_holds_float(part) for part in parts)


def _holds_float(part: ast.AST) -> bool:
    if isinstance(part, ast.Constant):
        return isinstance(part.value, float)
    return isinstance(part, ast.expr) and _is_number(part)


def parsed_keys(sources: Sources) -> list[str]:
    """Return the places where a finding's key is taken apart."""
    return [
        f"{path}:{node.lineno}: {ast.unparse(node)}"
        for path, text in sources.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call | ast.Compare)
        and _is_key(_taken_apart(node), "loaderwatch.detect" in text)
    ]


def _taken_apart(node: ast.Call | ast.Compare) -> ast.expr | None:
    """Return the text that a call or comparison looks into; None if it does not."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re")), args=[_, text, *_]):
            return text
        case ast.Call(func=ast.Attribute(value=text, attr=method)) if method in PARSED:
            return text
        case ast.Compare(left=ast.Constant(), ops=[ast.In() | ast.NotIn()], comparators=[text]):
            return text
    return None


def _is_key(text: ast.expr | None, knows_findings: bool) -> bool:
    if isinstance(text, ast.Attribute):
        return text.attr == "key"
    return knows_findings and isinstance(text, ast.Name) and text.id == "key"


def imports_of(sources: Sources, package: str) -> list[str]:
    """Return the places where a package or one of its modules is imported."""
    found = []
    for path, text in sources.items():
        lines = {
            line: module for module, name, line in _imports(path, text) if _is_below(module, name, package)
        }
        found += [f"{path}:{line}: {module}" for line, module in lines.items()]
    return found


def _is_below(module: str, name: str, package: str) -> bool:
    return f"{module}.".startswith(f"{package}.") or f"{module}.{name}" == package


def _imports(path: str, text: str) -> Iterator[tuple[str, str, int]]:
    """Yield module, name within it ("" for all) and line of each import of a module."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((each.name, "", node.lineno) for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            folders = path.split("/")[: -node.level] if node.level else []
            module = ".".join([*folders, *([node.module] if node.module else [])])
            yield from ((module, each.name, node.lineno) for each in node.names)


def with_one_importer(sources: Sources) -> list[str]:
    """Return the short modules that a single other module imports."""
    modules = {path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in sources}
    importers: dict[str, set[str]] = defaultdict(set)
    for path, text in sources.items():
        for module, name, _ in _imports(path, text):
            imported = modules.get(f"{module}.{name}") or modules.get(module)
            if imported is not None and imported != path:
                importers[imported].add(path)
    return [
        f"{path}: {len(sources[path].splitlines())} lines, imported by {importer}"
        for path, (importer, *others) in sorted(importers.items())
        if not others and _may_be_merged(path, sources[path]) and not importer.startswith(PUBLIC)
    ]


def _may_be_merged(path: str, text: str) -> bool:
    is_short = len(text.splitlines()) < SHORT_MODULE
    is_protocol = re.search(r"^class \w+\(.*\bProtocol\b", text, re.MULTILINE) is not None
    return is_short and not is_protocol and not path.endswith(("/__init__.py", "/__main__.py"))


def long_lines(sources: Sources) -> list[str]:
    """Return the places of lines that are too long."""
    return [
        f"{path}:{number}"
        for path, text in sources.items()
        for number, line in enumerate(text.splitlines(), 1)
        if len(line) > LONGEST_LINE
    ]


def count(root: Path) -> list[Row]:
    """Count everything in a checkout."""
    ours = _read(root, "loaderwatch", ["*.py"])
    detect = _below(ours, "detect")
    speaking = dict(chain.from_iterable(_below(ours, part).items() for part in SPEAKING))
    written = dict(chain.from_iterable(_read(root, *each).items() for each in WRITTEN.items()))
    counted = {
        f"sentences in {', '.join(SPEAKING)}": sentences(speaking),
        "constant numbers in detect without unit and source": unsourced(detect),
        "names with several values in detect": ambiguous(detect),
        "parsed keys of findings": parsed_keys(ours),
        "imports of detect in server/store": imports_of(_below(ours, "server/store"), "loaderwatch.detect"),
        f"lines over {LONGEST_LINE} characters": long_lines(written),
        f"modules under {SHORT_MODULE} lines with one importer": with_one_importer(ours),
    }
    return [
        *(Row(what, len(places), 0, places) for what, places in counted.items()),
        Row("modules in loaderwatch", len(ours), 400),
        Row("lines in loaderwatch", _lines(ours), 58_000),
        Row("modules in detect", len(detect), None),
        Row("lines in detect", _lines(detect), 14_500),
    ]


def _read(root: Path, folder: str, patterns: Iterable[str]) -> dict[str, str]:
    paths = sorted(path for pattern in patterns for path in (root / folder).rglob(pattern))
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def _below(sources: Sources, folder: str) -> dict[str, str]:
    return {path: text for path, text in sources.items() if path.startswith(f"loaderwatch/{folder}/")}


def _lines(sources: Sources) -> int:
    return sum(len(text.splitlines()) for text in sources.values())


def table(rows: Iterable[Row]) -> str:
    """Return the rows as text; those that miss their target are marked."""
    lines = [f"{'what':<54}{'today':>8}{'target':>8}"]
    for row in rows:
        target = "-" if row.target is None else f"{row.target:,}"
        lines.append(f"{row.what:<54}{row.today:>8,}{target:>8}{'' if row.met else '  missed'}")
    return "\n".join(lines)


def main() -> int:
    """Print the table; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--places", action="store_true", help="name each place that is counted")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table to FILE")
    args = parser.parse_args()
    rows = count(REPO)
    for row in rows if args.places else ():
        if row.places:
            print(f"== {row.what}", *row.places, sep="\n", end="\n\n")
    print(table(rows))
    if args.json:
        text = json.dumps([asdict(row) for row in rows], indent=1, ensure_ascii=False)
        args.json.write_text(f"{text}\n", encoding="utf-8")
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

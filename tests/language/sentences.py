"""The sentences of Python that people read, found in the sources: each as the key that the catalogue has it under.

A key is the sentence as it stands in the code. A hole is ``{}``; ``{%}`` is a share, ``{s}`` a duration, ``{n}`` a number with
or without its noun, and ``{is|are}`` one of several words. ``python -m tests.language.sentences`` prints what has no
translation yet.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
CATALOGUE: Final = ROOT / "web" / "lang" / "zh.json"
SPOKEN: Final = (
    *(
        "detect",
        "advise",
        "server/alerts",
        "server/live",
        "server/process.py",
        "cli",
        "supervisor",
        "agent/tuning",
    ),
    *(
        "streamer/messages",
        "streamer/streamer.py",
        "streamer/upload.py",
        "streamer/samplers/nvml.py",
        "demo/acts.py",
    ),
    *("demo/tour.py", "demo/outcome.py", "demo/gpu.py", "core/ending.py"),
)
"""Folders and modules whose words people read."""
UNSPOKEN: Final = ("log", "_log", "logging", "re", "text", "warnings")
"""Who is called with words for others: a log is read by those who read the code."""
TYPED: Final = {
    "percent": "{%}",
    "duration": "{s}",
    "count": "{n}",
    "rate": "{n}",
    "len": "{n}",
    "round": "{n}",
    "int": "{n}",
}
WORD: Final = re.compile(r"[A-Za-z]{2,}")


def python_keys() -> dict[str, str]:
    """The keys of all sentences, each with the module that it was found in first."""
    found: dict[str, str] = {}
    package = ROOT / "loaderwatch"
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        if name.startswith(SPOKEN):
            tree = ast.parse(path.read_text())
            for key in [*_keys_of(tree), *(_about(tree) if "def prepare_parser" in path.read_text() else [])]:
                found.setdefault(key, name)
    return found


def _about(tree: ast.Module) -> Iterator[str]:
    """The paragraphs with which a command describes itself in its help."""
    for paragraph in (ast.get_docstring(tree) or "").split("\n\n"):
        yield " ".join(paragraph.replace("``", "").split())


def translated() -> dict[str, str]:
    """The catalogue's sentences."""
    return dict(json.loads(CATALOGUE.read_text())["sentences"])


def _keys_of(tree: ast.Module) -> Iterator[str]:
    passed: set[int] = set()
    for node in ast.walk(tree):
        for part in _unspoken(node):
            passed.update(map(id, ast.walk(part)))
    for node in ast.walk(tree):
        if id(node) in passed:
            continue
        if isinstance(node, ast.Call):
            yield from _counted(node)
        parts = _parts(node)
        if parts is None:
            continue
        passed.update(map(id, _taken(node)))
        key = "".join(parts)
        if _is_sentence(key):
            yield key.strip()


def _counted(node: ast.Call) -> Iterator[str]:
    """What ``text.count`` makes of a noun."""
    words = [
        arg.value for arg in node.args[1:] if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
    ]
    if words and ast.unparse(node.func).split(".")[-1] == "count":
        one = words[0]
        many = words[1] if len(words) > 1 else one + ("es" if one.endswith(("ch", "s", "x")) else "s")
        yield f"{{n}} {{{one}|{many}}}"


def _unspoken(node: ast.AST) -> Iterator[ast.AST]:
    """What is in no sentence: docstrings, what is logged, types, keys."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant | ast.JoinedStr):
        yield node.value
    elif isinstance(node, ast.Call):
        function = ast.unparse(node.func)
        if function.split(".")[0] in UNSPOKEN or function.endswith(("execute", "executemany", "sql")):
            yield from node.args
    elif isinstance(node, ast.Subscript):
        yield node.slice
    elif isinstance(node, ast.AnnAssign | ast.arg) and node.annotation is not None:
        yield node.annotation
    elif isinstance(node, ast.Raise):
        yield node


def _parts(node: ast.AST) -> list[str] | None:
    """The parts of a sentence that this node makes up; None if it is none."""
    if isinstance(node, ast.Constant):
        return [_escaped(node.value)] if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return [part for value in node.values for part in (_parts(value) or [])]
    if isinstance(node, ast.FormattedValue):
        return [_hole(node.value, ast.unparse(node.format_spec) if node.format_spec else "")]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _parts(node.left), _parts(node.right)
        if left is None and right is None:
            return None
        return (left or [_hole(node.left)]) + (right or [_hole(node.right)])
    return None


def _taken(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that are parts of this one's key, and no sentences of their own."""
    yield node
    if isinstance(node, ast.JoinedStr):
        for value in node.values:
            if isinstance(value, ast.Constant):
                yield value
            elif isinstance(value, ast.FormattedValue) and _words(value.value) is not None:
                yield from ast.walk(value)
            elif isinstance(value, ast.FormattedValue) and value.format_spec:
                yield from ast.walk(value.format_spec)
    elif isinstance(node, ast.BinOp) and _parts(node) is not None:
        for side in (node.left, node.right):
            if _parts(side) is not None:
                yield from _taken(side)
            elif _words(side) is not None:
                yield from ast.walk(side)


def _hole(node: ast.expr, spec: str = "") -> str:
    words = _words(node)
    if words is not None:
        return "{" + "|".join(words) + "}"
    if isinstance(node, ast.Call):
        return TYPED.get(ast.unparse(node.func).split(".")[-1], "{}")
    return "{n}" if re.search(r"[,.]\d*[df]|\dd", spec) else "{%}" if "%" in spec else "{}"


def _words(node: ast.expr) -> list[str] | None:
    """The words of which a conditional expression chooses one; None if they are not known here."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [_escaped(node.value)] if len(node.value) <= 24 else None
    if isinstance(node, ast.IfExp):
        both = [_words(node.body), _words(node.orelse)]
        if None not in both:
            return [word for words in both for word in words or []]
    return None


def _escaped(text: str) -> str:
    return text.replace("{", "(").replace("}", ")").replace("|", "/") if "{" in text or "|" in text else text


def _is_sentence(key: str) -> bool:
    literal = re.sub(r"\{[^}]*\}", " ", key)
    if not re.search(r"[A-Za-z] [A-Za-z{]|\} [a-z]|[a-z] \{", key) or re.search(
        r"\b(SELECT|CREATE|INSERT|DELETE|WHERE|FROM)\b", key
    ):
        return False
    return bool(WORD.search(literal)) and not re.fullmatch(r"[\w.\-/:%]*", key.strip())


def main() -> None:
    """Print what has no translation, as the catalogue's own JSON."""
    known = translated()
    keys = python_keys()
    print(json.dumps({key: "" for key in keys if key not in known}, indent=1, ensure_ascii=False))
    print(f"{sum(key not in known for key in keys)} of {len(keys)} are missing", file=sys.stderr)


if __name__ == "__main__":
    main()

"""The page's catalogue: every sentence has its translation, and the holes of both fit."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from tests.language.sentences import CATALOGUE, ROOT, page_keys

LIKE_THIS = "write them into web/lang/zh.json; `python -m tests.language.sentences` prints what is missing"
needs_acorn = pytest.mark.skipif(
    shutil.which("node") is None or not (ROOT / "node_modules" / "acorn").exists(),
    reason="node and acorn read the page's modules: npm ci has not installed them",
)
HOLES = ("", "%", "s", "n", "d")
"""The kinds of holes: anything, a share, a duration, a number with its noun, digits alone. Another one is a choice of words."""
BOTH = json.loads(CATALOGUE.read_text(encoding="utf-8"))


@needs_acorn
def test_every_sentence_of_the_page_is_translated() -> None:
    assert [key for key in page_keys() if key not in BOTH["sentences"]] == [], LIKE_THIS


@pytest.mark.parametrize("which", ["sentences", "parts"])
def test_holes_fit(which: str) -> None:
    wrong = []
    for key, said in BOTH[which].items():
        holes = re.findall(r"\{([^}]*)\}", key)
        for number, choice in re.findall(r"\{(\d+)(?::([^}]*))?\}", said):
            of = holes[int(number) - 1] if 0 < int(number) <= len(holes) else None
            if of is None or (choice and (of in HOLES or choice.count("|") != of.count("|"))):
                wrong.append((key, said))
        if re.search(r"\{(?!\d+[:}])", said):
            wrong.append((key, said))
    assert wrong == []


def test_translations_are_chinese() -> None:
    """What has no Chinese character has no English word either that is not in its key as it is: a name, a unit, code."""
    english = {
        key: said
        for key, said in (BOTH["sentences"] | BOTH["parts"]).items()
        if not re.search("[\u4e00-\u9fff]", said) and len(re.findall(r"\b[a-z]{3,} [a-z]{2,}\b", said)) > 1
    }
    named = {key for key in english if english[key] == key and re.search(r"[_{(\[@]", key)}
    assert set(english) - named == set()

"""The Chinese documents follow the English ones: the same code, numbers, links and headings."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAIRS = [("README.md", "README.zh-CN.md"), ("docs/quickstart.md", "docs/quickstart.zh-CN.md")]
CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def commands(text: str) -> list[str]:
    """The blocks of code without comments and spaces, since line breaks depend on the comments."""
    return [re.sub(r"\s", "", re.sub(r"#.*", "", block)) for block in CODE.findall(text)]


def anchors(text: str) -> set[str]:
    """The addresses of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", CODE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(("english", "chinese"), PAIRS)
def test_the_same_in_both(english: str, chinese: str) -> None:
    one, other = ((ROOT / name).read_text(encoding="utf-8") for name in (english, chinese))
    assert commands(other) == commands(one)
    assert [len(mark) for mark in re.findall(r"^(#+) ", CODE.sub("", other), re.MULTILINE)] == [
        len(mark) for mark in re.findall(r"^(#+) ", CODE.sub("", one), re.MULTILINE)
    ]
    figures = [Counter(re.findall(r"\d[\d,.]*\d|\d", CODE.sub("", text))) for text in (one, other)]
    assert figures[0] - figures[1] == Counter()
    assert (figures[1] - figures[0]).total() <= 2  # "two gigabytes" and a month's name are figures in Chinese
    named = [Counter(re.findall(r"`([^`\n]*)`", CODE.sub("", text))) for text in (one, other)]
    assert named[0] == named[1]


@pytest.mark.parametrize("document", [name for pair in PAIRS for name in pair])
def test_links_lead_somewhere(document: str) -> None:
    path = ROOT / document
    for target in re.findall(r"\]\(([^)\s]+)\)", CODE.sub("", path.read_text(encoding="utf-8"))):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        to = (path.parent / file) if file else path
        assert to.exists(), f"{document} leads to {target}"
        if anchor and to.suffix == ".md":
            assert anchor in anchors(to.read_text(encoding="utf-8")), f"{document} leads to {target}"

"""The Chinese documents follow the English ones: the same code, numbers, links and headings."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.language.sentences import ROOT

PAIRS = [("README.md", "README.zh-CN.md"), ("docs/quickstart.md", "docs/quickstart.zh-CN.md")]
CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def commands(text: str) -> list[str]:
    """The blocks of code without their comments and without spaces: where lines break depends on the comments."""
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
    # 30 figures may be words in one of them ("two gigabytes", a month's name)
    numbers = [Counter(re.findall(r"\d[\d,.]*\d|\d", CODE.sub("", text))) for text in (one, other)]
    assert sum(((numbers[0] - numbers[1]) + (numbers[1] - numbers[0])).values()) <= 30
    assert re.findall(r"`([^`\n]*)`", CODE.sub("", one)).count("loaderwatch") == re.findall(
        r"`([^`\n]*)`", CODE.sub("", other)
    ).count("loaderwatch")


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

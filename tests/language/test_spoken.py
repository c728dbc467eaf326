"""What is told of real runs, in Chinese, and with no English sentence left."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from loaderwatch.core.language import Language, asks_for_chinese, chinese
from loaderwatch.detect.translation import in_language
from loaderwatch.server.recordings import recording
from loaderwatch.server.recordings.analysis import judge_recording
from tests.scenarios.words import RECORDINGS

QUOTED = re.compile(r"“[^”]*”|`[^`]*`|\"[^\"]*\"")
ENGLISH = re.compile(r"(?<![\w.(/=\"'`-])(?:[A-Za-z][a-z']+[ ,]+){2,}[a-z]+", re.ASCII)


@pytest.fixture(scope="module")
def language() -> Language:
    found = chinese()
    assert found is not None
    return found


@pytest.fixture(scope="module")
def told() -> list[str]:
    """Every text of each second recorded run, as the server says it in Chinese, with the labels of evidence, which it says in English."""
    texts: set[str] = set()
    for path in RECORDINGS[::2]:
        findings, verdict = in_language(judge_recording(recording.load(path)), "zh")
        texts |= {str(getattr(verdict, "title", ""))}
        for one in findings:
            texts |= {one.title, one.cause, one.advice, *(evidence.label for evidence in one.evidence)}
    return sorted(texts)


def test_what_is_said_in_chinese_stays_as_it_is(language: Language, told: list[str]) -> None:
    chinese = [text for text in told if re.search("[\u4e00-\u9fff]", text)]
    assert len(chinese) > 200
    assert {text: language.say(text) for text in chinese if language.say(text) != text} == {}


def test_no_english_is_left(language: Language, told: list[str]) -> None:
    left = {text: language.say(text) for text in told if ENGLISH.search(QUOTED.sub("", language.say(text)))}
    assert left == {}
    assert len(told) > 200


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("62 %", "62%"),
        ("3 min 20 s", "3 分 20 秒"),
        ("8 workers", "8 个 worker"),
        ("started 2", "启动 2 个"),
        ("train.py 训练 of 2 workers", "train.py 训练 of 2 workers"),
    ],
)
def test_sentences_are_put_together(language: Language, text: str, said: str) -> None:
    assert said in language.say(text)


@pytest.mark.parametrize(
    "text", ["", " ", "resnet50", "train_loader", "/data/imagenet/val", "my run of Tuesday"]
)
def test_names_stay_as_they_are(language: Language, text: str) -> None:
    assert language.say(text) == text


def test_what_is_longer_than_any_sentence_is_let_be(language: Language) -> None:
    """As an exception's message may be: looking for holes in it would take as long as its sender likes."""
    hostile = "a: b has been stuck for 3 s of " + "x, of " * 20_000
    assert language.say(hostile) == hostile


def test_a_damaged_catalogue_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    chinese.cache_clear()
    try:
        for text in ("", "{", '{"sentences": {}}'):
            monkeypatch.setattr(Path, "read_text", lambda *_, text=text, **__: text)
            assert chinese() is None
    finally:
        monkeypatch.undo()
        chinese.cache_clear()


@pytest.mark.parametrize(
    ("environ", "asked"),
    [
        ({}, False),
        ({"LANG": "zh_CN.UTF-8"}, True),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, False),
        ({"LANG": "en_US.UTF-8", "LOADERWATCH_LANGUAGE": "zh"}, True),
        ({"LANG": "zh_CN.UTF-8", "LOADERWATCH_LANGUAGE": "en"}, False),
    ],
)
def test_who_asks_for_chinese(environ: dict[str, str], asked: bool) -> None:
    assert asks_for_chinese(environ) is asked


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "LOADERWATCH_DIR": str(folder), "LOADERWATCH_LANGUAGE": "zh", "COLUMNS": "100"}
    return subprocess.run(
        [sys.executable, "-m", "loaderwatch", *arguments],
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_command_line_speaks_it(tmp_path: Path) -> None:
    helped = run(tmp_path, "analyze", "--help")
    assert helped.returncode == 0, helped.stderr
    assert "用法" in helped.stdout
    assert not ENGLISH.search(re.sub(r"(?m)^ *(usage|用法).*(\n +\[.*)*", "", helped.stdout)), helped.stdout
    path = next(path for path in RECORDINGS if path.stem == "s02_few_workers")
    analyzed = run(tmp_path, "analyze", str(path))
    assert "的时间在等数据" in analyzed.stdout
    raw = run(tmp_path, "analyze", "--json", str(path))
    assert "of its time waiting for data" in json.loads(raw.stdout)[0]["title"]

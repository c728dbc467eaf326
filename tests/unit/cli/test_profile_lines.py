"""The printed profile in both languages: its words, its columns, and names that nobody expects."""

from __future__ import annotations

import pytest

from loaderwatch.cli.profile_lines import MOST_LINES, profile_lines, short_files, why_empty
from loaderwatch.core.printable import columns
from loaderwatch.core.records import LEAST_SAMPLES
from tests.fakes.profile_answers import line, zip_profile


@pytest.fixture(params=["en", "zh"])
def language(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("LOADERWATCH_LANGUAGE", request.param)
    return str(request.param)


ENGLISH = """\
fetch: 812 samples of 2 ranks in 3 min 20 s: 61 % running, 24 % disk and 15 %
network

share     95 %           time  line → call of a library, and what it does
 92 %  89–95 %   12 ms/sample  zip_faces.py:48 in __getitem__
                               → zipfile._RealGetContents
                               80 % running and 20 % disk
                               without it: at most 2.1 times as fast
  5 %    2–8 %  0.7 ms/sample  zip_faces.py:52 in __getitem__  100 % running
The rest: 3 %.
"""
CHINESE = """\
取数：3 分 20 秒内 2 个 rank 的 812 次采样：运行 61%、等磁盘 24% 和等网络 15%

占比     95%           用时  代码行 → 调用的库函数，以及在做什么
 92%  89–95%   12 毫秒/样本  zip_faces.py:48（__getitem__）
                             → zipfile._RealGetContents  运行 80% 和等磁盘 20%
                             没有它，速度最多是现在的 2.1 倍
  5%    2–8%  0.7 毫秒/样本  zip_faces.py:52（__getitem__）  运行 100%
其余：3%。
"""


def test_the_words_are_these(language: str) -> None:
    printed = "\n".join([*profile_lines(zip_profile()), ""])
    assert printed == {"en": ENGLISH, "zh": CHINESE}[language]


def test_each_part_has_its_name_and_its_unit(language: str) -> None:
    lines = [line(7, 1.0, per_batch_s=0.25)]
    said = [
        profile_lines(zip_profile(of=of, ranks=[3], start=None, end=None, lines=lines))
        for of in ("step", "evaluation", "boundary")
    ]
    beginnings = {
        "en": ["step: 812 samples of rank 3: ", "evaluation: 812 ", "epoch boundary: 812 "],
        "zh": ["步： rank 3 的 812 次采样：", "评估： rank 3 ", "epoch 边界： rank 3 "],
    }[language]
    for (head, *_), beginning in zip(said, beginnings, strict=True):
        assert head.startswith(beginning)
    units = {"en": ["250 ms/step", "250 ms/batch"], "zh": ["250 毫秒/步", "250 毫秒/批次"]}[language]
    assert units[0] in "".join(said[0])
    assert units[1] in "".join(said[1])


def test_a_line_without_a_time_leaves_no_empty_column(language: str) -> None:
    _, _, head, row, *_ = profile_lines(zip_profile(lines=[line(7, 1.0)], states={"running": 1.0}))
    assert {"en": "time", "zh": "用时"}[language] not in head
    assert row.startswith({"en": "100 %  97–103 %  zip_faces.py:7 in", "zh": "100%  97–103%  zip_"}[language])


def test_lines_beyond_the_largest_are_one_rest(language: str) -> None:
    many = [line(number, 0.05) for number in range(1, 21)]
    printed = profile_lines(zip_profile(lines=many, unread=9))
    assert sum("zip_faces.py:" in row for row in printed) == MOST_LINES
    assert (
        printed[-2 if language == "zh" else -3 :]
        == {
            "en": [
                "The rest: 40 %, with 8 other lines.",
                "9 more samples have no stack: the process could not be read at that moment, or",
                "the stack is rare.",
            ],
            "zh": [
                "其余：40%，另有 8 行代码。",
                "另有 9 次采样没有调用栈：当时读不到该进程，或这个调用栈很少见。",
            ],
        }[language]
    )
    assert sum("zip_faces.py:" in row for row in profile_lines(zip_profile(lines=many), 5)) == 5
    few = profile_lines(zip_profile(lines=many[:19]), 18)
    assert (
        few[-1] == {"en": "The rest: 10 %, with 1 other line.", "zh": "其余：10%，另有 1 行代码。"}[language]
    )


def test_few_samples_are_said_to_be_few(language: str) -> None:
    words = {"en": "Fewer than 20 samples: these shares are rough.", "zh": "采样少于 20 次"}[language]
    assert any(words in said for said in profile_lines(zip_profile(samples=LEAST_SAMPLES - 1)))
    assert not any(words in said for said in profile_lines(zip_profile(samples=LEAST_SAMPLES)))


def test_an_empty_profile_says_why_and_what_to_do(language: str) -> None:
    reasons = {
        "en": ["no time was lost there", "older than profiles", "may not read", "--of", "SYS_PTRACE"],
        "zh": ["没有损失时间", "早于剖析功能", "无权读取", "--of", "SYS_PTRACE"],
    }[language]
    said = why_empty("evaluation", 0)
    assert said.startswith({"en": "evaluation: no stack", "zh": "评估：没有采到调用栈"}[language])
    assert [reason for reason in reasons if reason not in said] == []
    said = why_empty("step", 40)
    assert said.startswith({"en": "step: 40 samples, none with", "zh": "步：40 次采样都没有"}[language])
    assert "SYS_PTRACE" in said


def test_odd_names_keep_the_columns(language: str) -> None:
    lines = [
        line(1, 0.5, file="/data/数据集/读取.py", function="读取一个样本并解码" * 6, per_sample_s=0.1),
        line(2, 0.3, function="lo\x1b[2Jad\r\n\u202e;x", calls="é" * 300, per_sample_s=0.0001),
        line(3, 0.2, function="e\u0301" * 40),
    ]
    printed = profile_lines(zip_profile(lines=lines))
    assert all(columns(row) <= 80 for row in printed), printed
    assert all(row.isprintable() for row in printed), printed
    rows = [row for row in printed if ".py:" in row]
    begins = {
        columns(row[: row.index(name)]) for row, name in zip(rows, ("读取.py", "zip_", "zip_"), strict=True)
    }
    assert len(begins) == 1, printed
    assert any("lo[2Jad ;x" in row for row in rows)
    assert any("读取一个样本并解码" in row and row.endswith("…") for row in rows)


def test_a_file_is_named_as_briefly_as_it_can_be() -> None:
    files = ["/a/b/data.py", "/a/c/data.py", "/a/c/model.py", "data.py", r"C:\code\train.py"]
    assert short_files(files) == {
        "/a/b/data.py": "b/data.py",
        "/a/c/data.py": "c/data.py",
        "/a/c/model.py": "model.py",
        "data.py": "data.py",
        r"C:\code\train.py": "train.py",
    }

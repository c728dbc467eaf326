"""Exports of a profile: collapsed stacks for flamegraph.pl, and speedscope's format by its schema's rules."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loaderwatch.cli.profile_files import collapsed, speedscope
from loaderwatch.core.answers import Profile
from tests.fakes.profile_answers import LIBRARY, SCRIPT, frame, stack, zip_profile

HOSTILE = "read;all\x1b[2J\r\n\u202e\udcffx"


def hostile() -> Profile:
    odd = frame(HOSTILE, 3, "/tmp/a;b\n.py")
    return zip_profile(stacks=[stack(2, odd, frame("读取", 4), state="lock"), stack(1)])


def checked(text: str) -> Any:
    """The parsed file. It follows each rule of ``file-format-schema.json`` and of its comments."""
    assert text.isascii()
    content = json.loads(text)
    assert content["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert content.keys() <= {"$schema", "shared", "profiles", "name", "activeProfileIndex", "exporter"}
    assert isinstance(content["name"], str)
    assert isinstance(content["exporter"], str)
    assert content["activeProfileIndex"] in range(len(content["profiles"]))
    frames = content["shared"]["frames"]
    for each in frames:
        assert {"name"} <= each.keys() <= {"name", "file", "line", "col"}
        assert isinstance(each["name"], str)
        assert isinstance(each.get("file", ""), str)
        assert type(each.get("line", 0)) is int
    for profile in content["profiles"]:
        required = {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}
        assert profile.keys() == required
        assert profile["type"] == "sampled"
        assert profile["unit"] in ("none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes")
        assert isinstance(profile["name"], str)
        assert profile["endValue"] >= profile["startValue"]
        assert len(profile["samples"]) == len(profile["weights"])
        assert all(index in range(len(frames)) for sample in profile["samples"] for index in sample)
        assert all(type(weight) is int and weight >= 0 for weight in profile["weights"])
        assert sum(profile["weights"]) == profile["endValue"] - profile["startValue"]
    return content


def test_collapsed_stacks_begin_outside_and_end_with_the_state() -> None:
    assert collapsed(zip_profile()).splitlines() == [
        "__getitem__ (zip_faces.py:48);_RealGetContents (__init__.py:1471);[running] 600",
        "__getitem__ (zip_faces.py:48);_RealGetContents (__init__.py:1471);[disk] 147",
        "__getitem__ (zip_faces.py:48);[running] 65",
    ]
    assert collapsed(zip_profile(stacks=[])) == ""


def test_a_collapsed_line_is_split_only_where_frames_end() -> None:
    assert collapsed(hostile()).splitlines() == [
        "read,all[2J x (a,b .py:3);读取 (zip_faces.py:4);[lock] 2",
        "[running] 1",
    ]


def test_speedscope_shares_frames_and_weighs_stacks_by_samples() -> None:
    content = checked(speedscope(zip_profile(), "faces"))
    assert content["name"] == content["profiles"][0]["name"] == "faces: fetch"
    assert content["shared"]["frames"] == [
        {"name": "__getitem__", "file": SCRIPT, "line": 48},
        {"name": "_RealGetContents", "file": LIBRARY, "line": 1471},
        {"name": "[running]"},
        {"name": "[disk]"},
    ]
    assert content["profiles"][0]["samples"] == [[0, 1, 2], [0, 1, 3], [0, 2]]
    assert content["profiles"][0]["weights"] == [600, 147, 65]
    assert content["profiles"][0]["endValue"] == 812


def test_speedscope_gets_clean_names() -> None:
    content = checked(speedscope(hostile(), "run\x1b]0;x\x07"))
    assert content["name"] == "run]0;x: fetch"
    names = [(each["name"], each.get("file")) for each in content["shared"]["frames"]]
    assert names == [
        ("read;all[2J x", "/tmp/a;b .py"),
        ("读取", SCRIPT),
        ("[lock]", None),
        ("[running]", None),
    ]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ('"weights": [600, 147, 65]', '"weights": [600, 147]'),
        ('"weights": [600, 147, 65]', '"weights": [600, 147, 66]'),
        ('"samples": [[0, 1, 2]', '"samples": [[0, 1, 4]'),
        ('"unit": "none"', '"unit": "samples"'),
        ('"startValue": 0', '"startValue": 813'),
        ('"line": 48', '"line": null'),
    ],
)
def test_the_check_of_the_schema_sees_a_fault(right: str, wrong: str) -> None:
    text = speedscope(zip_profile(), "faces")
    assert right in text
    with pytest.raises(AssertionError):
        checked(text.replace(right, wrong))

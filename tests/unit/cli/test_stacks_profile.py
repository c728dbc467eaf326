"""``loaderwatch stacks --profile``, and the profile that ``analyze`` prints below its findings."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from loaderwatch.cli import main, profile_source
from loaderwatch.cli.profile_source import PARTS
from loaderwatch.cli.run_source import RunSource
from loaderwatch.core import wire
from loaderwatch.core.answers import Profile
from loaderwatch.server.recordings.recording import Recording, pack
from tests.fakes.feed import Feed
from tests.fakes.profile_answers import line, zip_profile


@pytest.fixture
def run_file(tmp_path: Path, data_dir: Path) -> str:
    path = tmp_path / "faces.lwrec"
    envelope = Feed("faces").envelope(steps=40, final=True, state="finished")
    path.write_bytes(pack(Recording(run_id="faces", run_name="train", envelopes=[wire.encode(envelope)])))
    return str(path)


def answer(monkeypatch: pytest.MonkeyPatch, *found: Profile) -> list[tuple[tuple[str, ...], int | None]]:
    """Answer every question with these profiles, and return the questions: the parts and the rank."""
    asked: list[tuple[tuple[str, ...], int | None]] = []

    def profiles(
        source: RunSource, parts: tuple[str, ...], rank: int | None, attempt: int | None
    ) -> list[Profile]:
        asked.append((parts, rank))
        return list(found)

    monkeypatch.setattr(profile_source, "profiles", profiles)
    return asked


def printed(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(argv)
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_the_part_that_lost_most_is_shown_unless_one_is_named(
    run_file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = zip_profile(of="step", samples=700, unread=20)
    asked = answer(monkeypatch, few, zip_profile(), few)
    code, out, _ = printed(capsys, "stacks", run_file, "--profile")
    assert code == 0
    assert out.startswith("fetch: 812 samples of 2 ranks in 3 min 20 s: 61 % running")
    assert "zip_faces.py:48 in __getitem__" in out
    printed(capsys, "stacks", run_file, "--profile", "--of", "step", "--rank", "1")
    assert asked == [(PARTS, None), (("step",), 1)]


def test_json_is_the_answer_itself(
    run_file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for profile in (zip_profile(), zip_profile(samples=0, lines=[], stacks=[], states={})):
        answer(monkeypatch, profile)
        code, out, _ = printed(capsys, "stacks", run_file, "--profile", "--json")
        assert code == 0
        assert msgspec.convert(json.loads(out), Profile) == profile


def test_stacks_go_to_a_file_or_to_the_terminal(
    run_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(monkeypatch, zip_profile())
    for form in ("collapsed", "speedscope"):
        _, out, _ = printed(capsys, "stacks", run_file, "--profile", "--format", form)
        file = tmp_path / form
        code, said, _ = printed(
            capsys, "stacks", run_file, "--profile", "--format", form, "--output", str(file)
        )
        assert (code, said) == (0, f"{file}: 812 samples\n")
        assert file.read_text() == out
    assert json.loads(out)["name"] == "faces: fetch"
    code, out, error = printed(
        capsys, "stacks", run_file, "--profile", "--format", form, "--output", str(tmp_path / "no" / "file")
    )
    assert (code, out) == (1, "")
    assert "cannot be written: No such file or directory" in error


@pytest.mark.parametrize("unread", [None, 0, 7])
@pytest.mark.parametrize("form", [[], ["--format", "collapsed"]])
def test_without_samples_the_reasons_are_said(
    unread: int | None,
    form: list[str],
    run_file: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    empty = zip_profile(samples=0, unread=unread or 0, lines=[], stacks=[], states={})
    answer(monkeypatch, *([] if unread is None else [empty]))
    code, out, error = printed(capsys, "stacks", run_file, "--profile", *form)
    assert (code, out) == (1, "")
    assert ("7 samples, none with a stack" if unread else "the run is older than profiles") in error


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--of", "step"], "--of is an option of --profile: add --profile"),
        (["--format", "collapsed"], "--format is an option of --profile"),
        (["--json"], "--json is an option of --profile"),
        (["--profile", "--output", "x"], "--output needs --format"),
    ],
)
def test_options_that_do_not_fit_are_wrong_usage(
    options: list[str], said: str, run_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, error = printed(capsys, "stacks", run_file, *options)
    assert code == 2
    assert said in error


def test_analyze_prints_the_largest_lines(
    run_file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    many = [line(number, 0.1) for number in range(1, 11)]
    answer(monkeypatch, zip_profile(lines=many))
    _, out, _ = printed(capsys, "analyze", run_file)
    assert "\n\nWhere the lost time goes, from sampled stacks:\nfetch: 812 samples of 2 ranks in" in out
    assert out.count("zip_faces.py:") == 5
    assert "The rest: 50 %, with 5 other lines." in out
    _, redacted, _ = printed(capsys, "analyze", run_file, "--redact")
    assert "fetch: 812 samples" in redacted
    assert isinstance(json.loads(printed(capsys, "analyze", run_file, "--json")[1]), list)


def test_analyze_leaves_a_few_samples_out(
    run_file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(monkeypatch, zip_profile(samples=19))
    assert "samples of 2 ranks" not in printed(capsys, "analyze", run_file)[1]
    answer(monkeypatch)
    assert "samples of 2 ranks" not in printed(capsys, "analyze", run_file)[1]

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loaderwatch.core.answers import ProfilePartName
from loaderwatch.core.columns import Columns
from loaderwatch.core.facts import NATIVE_FILE
from loaderwatch.core.records import TABLES, UNKNOWN, ProfilePart, ThreadState
from loaderwatch.detect.measures.profile import Profile, answer, profile_of
from loaderwatch.detect.measures.statistics import wilson
from tests.fakes.profiles import FETCH, GET, LIBRARY, OPEN, OWN, PICTURE, TEXTS, ZIP, counts, text
from tests.fakes.runs import T0


def _rows(*args: Any, **more: Any) -> Columns:
    packed = counts(*args, **more)
    return {column.name: np.frombuffer(packed[column.name], "<i8") for column in TABLES["profile"]}


def _profile(*args: Any, **more: Any) -> Profile:
    return profile_of(_rows(*args, **more), TEXTS, ProfilePart.FETCH)


def test_each_line_has_its_share_states_and_the_call_that_it_is_usually_in() -> None:
    states = [ThreadState.DISK, ThreadState.RUNNING, ThreadState.RUNNING, ThreadState.RUNNING]
    profile = _profile([ZIP, ZIP, PICTURE, OWN], [60, 10, 20, 10], state=states)
    line, own = profile.lines
    assert (line.frame.file, line.frame.line, line.frame.function) == (GET[0], "48", GET[2])
    assert (line.samples, line.share, line.calls) == (90, 0.9, "zipfile.__init__")
    assert (line.low, line.high) == wilson(90, 100)
    assert line.states == {"disk": pytest.approx(60 / 90), "running": pytest.approx(30 / 90)}
    assert (own.frame.function, own.share, own.calls) == ("size", 0.1, None)
    assert profile.samples == 100
    assert profile.state_ratios == {"disk": 0.6, "running": 0.4}
    assert list(profile.state_ratios) == ["disk", "running"]


def test_a_call_into_a_package_is_named_with_its_module() -> None:
    (line,) = _profile([PICTURE, ZIP], [3, 2]).lines
    assert line.calls == "PIL.Image.open"


@pytest.mark.parametrize(
    ("file", "called"),
    [
        ("/usr/lib/python3.10/json/decoder.py", "json.decoder.run"),
        ("/opt/env/lib/python3.13t/site-packages/numpy/lib/npyio.py", "numpy.lib.npyio.run"),
        ("/usr/lib/python3/dist-packages/h5py/__init__.py", "h5py.run"),
        (r"C:\Python312\lib\zipfile.py", "zipfile.run"),
        (r"C:\env\Lib\site-packages\PIL\Image.py", "PIL.Image.run"),
        ("<frozen importlib._bootstrap>", "importlib._bootstrap.run"),
        ("<string>", "run"),
    ],
)
def test_library_files_become_modules(file: str, called: str) -> None:
    (line,) = profile_of(_rows([1], [1]), {1: text((file, 3, "run"), GET)}, ProfilePart.FETCH).lines
    assert line.calls == called


def test_a_comprehension_is_its_functions_line() -> None:
    inner = (GET[0], 50, "<listcomp>")
    texts = {1: text(inner, GET), 2: text((GET[0], 50, GET[2]))}
    (line,) = profile_of(_rows([1, 2], [4, 6]), texts, ProfilePart.FETCH).lines
    assert (line.frame.function, line.samples, line.calls) == ("__getitem__", 10, None)


def test_samples_without_a_frame_of_the_user_count_for_the_librarys_innermost() -> None:
    (line,) = _profile([LIBRARY], [5]).lines
    assert (line.frame.function, line.frame.library, line.calls) == ("fetch", True, None)


def test_a_native_function_is_called_by_the_line_and_has_none_itself() -> None:
    texts = {
        1: text((NATIVE_FILE, 48, "torch.cat"), GET, FETCH),
        2: text((NATIVE_FILE, 54, "torch.stack"), FETCH),
    }
    own, of_library = profile_of(_rows([1, 2], [3, 2]), texts, ProfilePart.FETCH).lines
    assert ((own.frame.line, own.frame.function), own.calls) == (("48", GET[2]), "torch.cat")
    assert ((of_library.frame.file, of_library.frame.line), of_library.calls) == ((FETCH[0], "54"), None)


def test_equal_stacks_of_other_streams_processes_and_times_count_as_one() -> None:
    texts = {
        **TEXTS,
        9: TEXTS[ZIP],
        10: TEXTS[ZIP].replace("Stack (", "Thread 0x00007f01 ("),
    }
    rows = _rows([ZIP, 9, 10, ZIP], [1, 2, 3, 4], rank=[0, 1, 1, 0], t_ns=[T0, T0, T0, T0 + 10])
    profile = profile_of(rows, texts, ProfilePart.FETCH)
    (stack,) = profile.stacks
    assert (stack.samples, [frame.function for frame in stack.frames]) == (
        10,
        ["__init__", "__getitem__", "fetch"],
    )
    assert (profile.ranks, profile.first_ns, profile.last_ns) == ((0, 1), T0, T0 + 10)


def test_samples_without_a_known_stack_are_unread_and_in_no_share() -> None:
    texts = {**TEXTS, 12: "no faulthandler wrote this"}
    rows = _rows([0, 11, 12, UNKNOWN, ZIP], [1, 2, 4, 8, 5], readers=[1, 2, 12, 24, 21])
    profile = profile_of(rows, texts, ProfilePart.FETCH)
    assert (profile.unread, profile.samples) == (15, 5)
    assert profile.lines[0].share == 1.0
    assert profile.readers_mean == 3.0


def test_only_the_wanted_part_ranks_and_loader_count() -> None:
    parts = [ProfilePart.FETCH, ProfilePart.STEP, ProfilePart.FETCH, ProfilePart.FETCH]
    rows = _rows([ZIP] * 4, [1, 2, 4, 8], part=parts, rank=[0, 0, 1, 1], loader=[0, UNKNOWN, 0, 1])

    def samples(**more: Any) -> int:
        return profile_of(rows, TEXTS, **({"part": ProfilePart.FETCH} | more)).samples

    assert samples() == 13
    assert samples(part=ProfilePart.STEP) == 2
    assert samples(part=ProfilePart.BOUNDARY) == 0
    assert samples(ranks=[1]) == 12
    assert samples(ranks=[0, 1], loader=1) == 8


def test_a_rule_asks_how_often_the_stacks_show_something() -> None:
    profile = _profile([ZIP, PICTURE, OWN, 0], [6, 3, 1, 90])
    assert profile.ratio(lambda frames: "zipfile" in frames[0].file) == 0.6
    assert profile.ratio(lambda frames: frames[-1].function == "fetch") == 1.0
    assert np.isnan(_profile([0], [3]).ratio(lambda frames: True))


def test_hostile_numbers_do_not_overflow() -> None:
    profile = _profile([ZIP, ZIP], [2**62, UNKNOWN], state=[99, UNKNOWN], readers=[2**62, 2**62])
    assert profile.samples == 2**40
    assert profile.state_ratios == {"waiting": 1.0}


def test_the_answer_has_the_outermost_frame_first_and_at_most_200_stacks() -> None:
    texts = {n: text(("/home/ada/x.py", n, "f"), ("/home/ada/x.py", 1, "g")) for n in range(1, 251)}
    texts[1] = text(OPEN, GET).replace("line 1352", "line ???")
    rows = _rows(list(texts), [1000 - n for n in texts])
    found = answer(profile_of(rows, texts, ProfilePart.FETCH), "fetch", [0], sample_s=0.2, batch_s=2.0)
    assert (found.of, found.ranks, found.start, found.end) == ("fetch", [0], T0 / 1e9, T0 / 1e9)
    assert (len(found.stacks), len(found.lines)) == (200, 200)
    assert found.samples == sum(1000 - n for n in texts)
    assert [(f.function, f.line, f.library) for f in found.stacks[0].frames] == [
        ("__getitem__", 48, False),
        ("__init__", 0, True),
    ]
    first = found.lines[0]
    assert first.per_sample_s == pytest.approx(0.2 * first.share)
    assert first.per_batch_s == pytest.approx(2.0 * first.share)
    assert [line.share for line in found.lines] == sorted((line.share for line in found.lines), reverse=True)


def test_the_answer_of_no_samples() -> None:
    found = answer(_profile([], []), "step", [3])
    assert (found.samples, found.unread, found.start, found.lines, found.stacks) == (0, 0, None, [], [])


@pytest.mark.parametrize(
    ("of", "loop_ratio", "speedup"),
    [("fetch", 0.5, 2.0), ("fetch", 0.95, 10.0), ("step", 0.5, 1 / 0.55), ("fetch", None, None)],
)
def test_a_line_saves_its_share_of_the_fetch_and_no_more_than_the_wait(
    of: ProfilePartName, loop_ratio: float | None, speedup: float | None
) -> None:
    first, second = answer(_profile([ZIP, OWN], [90, 10]), of, [0], loop_ratio=loop_ratio).lines
    assert first.speedup == (None if speedup is None else pytest.approx(speedup))
    assert (second.speedup or 1.0) <= 1 / 0.9 + 1e-9
    (alone,) = answer(_profile([ZIP], [1]), "fetch", [0], loop_ratio=1.0).lines
    assert alone.speedup is None

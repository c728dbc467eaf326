"""What the counts of ``benchmarks.house`` take for a sentence, a number without a source, a parsed key."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from benchmarks import house

RULE = "loaderwatch/detect/rule.py"


def written(text: str, path: str = RULE) -> dict[str, str]:
    return {path: dedent(text)}


@pytest.mark.parametrize(
    "line",
    [
        'title = "the loader waits"',
        'title = f"rank {rank} waits for data"',
        'say("training goes on unwatched")',
        'raise_later(error, "training goes on unwatched")',
        'names = {"S01": "too few workers"}',
        'return_of = "too few " + "workers are there"',
    ],
)
def test_a_string_of_three_words_is_a_sentence(line: str) -> None:
    assert len(house.sentences(written(line))) == 1


@pytest.mark.parametrize(
    "line",
    [
        '"""What this module does, at length."""',
        'title = Text("too-few-workers", {"rank": rank})',
        'title = f"rank {rank}, pid {pid}"',
        'logger.warning("cannot read %s at all", path)',
        'logging.getLogger(__name__).error("cannot read it")',
        'raise ValueError("the interval must be positive")',
        'assert found, "there must be one"',
        'parser.add_argument("--rank", help="the rank that is shown")',
        'KILLED = re.compile(r"is killed by signal")',
        'NAME = r"(?P<name>one of many words)"',
        'LEAST_S = threshold(2.0, "s", "chosen: a shorter one is noise")',
        'COST = KnownCost("zip-reopened", "gzip, bz2, lzma", "std/gzip:read|seek|rewind", NEEDLESS_RATIO)',
        'died = "worker was killed by signal" in text',
        'died = text.startswith("worker was killed by signal")',
        'SENT = ("user defined signal", "hangup")\nby_hand = signal in SENT',
        'known = {"option needs more workers": 1}',
        'Rule: TypeAlias = "Callable[[Position, Set, str], bool]"',
        'where: "one of the places" = place',
        'QUERY = "/usr/lib/a.py"',
    ],
)
def test_what_no_person_reads_is_no_sentence(line: str) -> None:
    assert house.sentences(written(line)) == []


def test_a_sentence_within_a_sentence_counts_once() -> None:
    text = """title = f'the loader waits {"for some good reason"} now'"""
    assert house.sentences(written(text)) == [f"{RULE}:1: 'the loader waits {{}} now'"]


def test_a_number_needs_threshold_with_unit_and_source() -> None:
    text = """
        GOOD_S: Final = threshold(2.0, "s", "chosen: less is noise")
        BARE_S = 2.0
        COMPUTED_NS: Final = 64 * GOOD_S
        EMPTY_S: Final = threshold(2.0, "s", "")
        SHORT_S: Final = threshold(2.0, "s")
        PAIR = (0.5, 1.5)
        GAPS = {"hung": Gap(windows=1, gap_s=2.0)}
        NAMED = {"hung": Gap(GOOD_S), "slow": threshold(1.5, "s", "chosen")}
        ORDER = {"info": 0, "warning": 1}
        OTHER_S = GOOD_S
        CODE = "hung"
        IS_ON = True
        lower = 3

        class Limits:
            floor_s: float = 0.5
            factor: float = threshold(10.0, "factor", "chosen")

        class Pace:
            hidden_s: float = 0.0
    """
    names = [place.rsplit(" ", 1)[1] for place in house.unsourced(written(text))]
    assert names == ["BARE_S", "COMPUTED_NS", "EMPTY_S", "SHORT_S", "PAIR", "GAPS", "floor_s"]


def test_a_name_has_one_value_in_all_modules() -> None:
    sources = {
        "loaderwatch/detect/one.py": 'LEAST_S = threshold(2.0, "s", "chosen")\nFEW = 1_000\nCODE = "hung"',
        "loaderwatch/detect/two.py": 'LEAST_S = 3.0\nFEW = 1000\nCODE = "crashed"',
    }
    assert house.ambiguous(sources) == [
        "LEAST_S: 2.0 in loaderwatch/detect/one.py:1; 3.0 in loaderwatch/detect/two.py:1"
    ]


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ('number = finding.key.split(":")[1]', True),
        ('steady = finding.key.endswith(":steady")', True),
        ('found = re.search("rank(.)", finding.key)', True),
        ('steady = ":steady" in finding.key', True),
        ('from loaderwatch.detect.finding import Finding\nhead, _, _ = key.partition(":")', True),
        ('head, _, _ = key.partition("=")', False),
        ("same = finding.key == other.key", False),
        ("first = steps.key[:8]", False),
        ('path = finding.path.split("/")', False),
    ],
)
def test_a_key_that_is_taken_apart_counts(line: str, counts: bool) -> None:
    assert len(house.parsed_keys(written(line, "loaderwatch/server/store/rows.py"))) == counts


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("from loaderwatch.detect.window import Columns, RunWindow", True),
        ("from loaderwatch import detect", True),
        ("import loaderwatch.detect.shared_thresholds", True),
        ("from loaderwatch.core import records", False),
        ("from loaderwatch.detected import what", False),
    ],
)
def test_imports_of_a_package(line: str, counts: bool) -> None:
    found = house.imports_of(written(line, "loaderwatch/server/store/rows.py"), "loaderwatch.detect")
    assert len(found) == counts


def test_a_short_module_with_one_importer_may_be_merged() -> None:
    sources = {
        "loaderwatch/__init__.py": "from loaderwatch.public import attach",
        "loaderwatch/public.py": "attach = 1",
        "loaderwatch/part/__init__.py": "",
        "loaderwatch/part/splinter.py": "ONE = 1",
        "loaderwatch/part/shared.py": "ONE = 1",
        "loaderwatch/part/long.py": "ONE = 1\n" * house.SHORT_MODULE,
        "loaderwatch/part/store.py": "class Store(Protocol):\n    pass",
        "loaderwatch/part/user.py": (
            "from loaderwatch.part import shared, splinter\n"
            "from loaderwatch.part.long import ONE\n"
            "from loaderwatch.part.store import Store"
        ),
        "loaderwatch/part/other.py": "from . import shared\nfrom .user import ONE",
        "loaderwatch/part/third.py": "from .user import Store\nfrom loaderwatch.part.other import ONE",
        "loaderwatch/part/fourth.py": "from .other import Store",
    }
    assert house.with_one_importer(sources) == [
        "loaderwatch/part/splinter.py: 1 lines, imported by loaderwatch/part/user.py"
    ]


def test_lines_that_are_too_long_are_counted_by_characters() -> None:
    assert house.long_lines({"web/js/main.js": "é" * 110 + "\n" + "x" * 111}) == ["web/js/main.js:2"]


def test_a_checkout_is_counted_and_missed_targets_are_marked(tmp_path: Path) -> None:
    for name, text in {
        "loaderwatch/detect/rule.py": 'LEAST_S = 2.0\nTITLE = "the loader waits"\n',
        "loaderwatch/server/store/rows.py": "from loaderwatch.detect.window import Columns\n",
        "tests/web/chart.test.js": "x" * 200,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
    rows = house.count(tmp_path)
    assert [row.today for row in rows] == [1, 1, 0, 0, 1, 1, 0, 2, 3, 1, 2]
    assert [row.what for row in rows if not row.met] == [rows[at].what for at in (0, 1, 4, 5)]
    head, first, *_, last = house.table(rows).splitlines()
    assert head.split() == ["what", "today", "target"]
    assert first.split()[-3:] == ["1", "0", "missed"]
    assert last.split() == ["lines", "in", "detect", "2", "14,500"]

"""Pictures of every page in both languages: ``python -m tests.browser.page_pictures OUT``.

A server is given recorded stalls, so that each page shows what it shows on a bad night. A person opens and
judges the pictures: ``NAME-LANGUAGE-SIZE-THEME.png``.
"""

from __future__ import annotations

import argparse
import tempfile
from functools import partial
from pathlib import Path
from typing import Final

from tests.browser.shots import take
from tests.fakes.serving import serving
from tests.waiting import wait_until

RECORDINGS: Final = Path(__file__).resolve().parents[1] / "scenarios" / "recordings"
RUNS: Final = ("s02_few_workers", "s43_straggler", "s45_early_stop")
PAGES: Final = {
    "runs": "#/",
    "run": "#/runs/s43-straggler",
    "rank": "#/runs/s43-straggler/ranks/1",
    "hung": "#/runs/s45-early-stop",
    "compare": "#/compare/s02-few-workers/s43-straggler",
}
LANGUAGES: Final = {"en": "en-US", "zh": "zh-CN"}
WAIT_S: Final = 2.0
"""For the charts to have their data."""


def main() -> None:
    """Take them all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    out: Path = parser.parse_args().out
    with (
        tempfile.TemporaryDirectory(prefix="loaderwatch-pictures-") as folder,
        serving(Path(folder), open_to_all=True, hang_after_s=6.0) as access,
    ):
        for name in RUNS:
            access.replay(RECORDINGS / f"{name}.lwrec")
            run = name.replace("_", "-")
            wait_until(f"the finding of {run}", partial(access.get, f"/runs/{run}/findings"))
        for language, locale in LANGUAGES.items():
            names = {f"{page}-{language}": route for page, route in PAGES.items()}
            for file in take(access.url, out, names, locale=locale, wait_s=WAIT_S):
                print(file)


if __name__ == "__main__":
    main()

"""The sentences of the page, found in its modules: each as the key that the page's catalogue has it under.

A key is the sentence as it stands in the code. A hole is ``{}``; ``{%}`` is a share, ``{s}`` a duration, ``{n}`` a number with
or without its noun, and ``{is|are}`` one of several words. ``python -m tests.language.sentences`` prints what has no
translation yet.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
CATALOGUE: Final = ROOT / "web" / "lang" / "zh.json"


def page_keys() -> dict[str, str]:
    """The keys of all sentences of the page, each with the module that it was found in, as TypeScript's own parser finds them."""
    done = subprocess.run(
        ["node", str(Path(__file__).with_name("page_sentences.mjs"))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return dict(json.loads(done.stdout))


def translated() -> dict[str, str]:
    """The catalogue's sentences."""
    return dict(json.loads(CATALOGUE.read_text())["sentences"])


def main() -> None:
    """Print what has no translation, as the catalogue's own JSON."""
    known = translated()
    keys = page_keys()
    print(json.dumps({key: "" for key in keys if key not in known}, indent=1, ensure_ascii=False))
    print(f"{sum(key not in known for key in keys)} of {len(keys)} are missing", file=sys.stderr)


if __name__ == "__main__":
    main()

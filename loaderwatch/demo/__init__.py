"""The guided demo: a real two-rank training run that goes wrong in five ways, with the page open beside it."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Play the demo and return its exit code: 0 played, 1 something failed, 2 wrong usage, 130 interrupted."""
    try:
        from loaderwatch.demo import tour  # here: the ranks import this package too, and need none of it
    except ModuleNotFoundError as error:
        print(
            f"loaderwatch: the demo needs the module {error.name}; pip install 'loaderwatch[demo]'",
            file=sys.stderr,
        )
        return 1
    return tour.main(argv)

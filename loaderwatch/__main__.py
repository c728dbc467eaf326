"""``python -m loaderwatch``."""

from __future__ import annotations

import sys

from loaderwatch.cli import main

if __name__ == "__main__":
    sys.exit(main())

"""The numbers of two rules that exist in numpy, for detectors, and in SQL, for charts over a whole run.

- Which clock counts for data waits: ``detect/device_clock.py`` and ``server/store/sql/data_wait.py``.
- How long a rank waits for others: ``detect/measures/coupling.py`` and ``server/store/sql/others_wait.py``.

The tests of the SQL modules run numpy and SQL on the same rows.
"""

from __future__ import annotations

from typing import Final

from loaderwatch.core.threshold import threshold

KNOWN_RATIO: Final = threshold(
    0.5, "ratio", "chosen: events miss the batches of CUDA graphs and the newest; half of them are believed"
)
LEAST_ITERATIONS: Final = threshold(8, "iterations", "chosen: fewer do not tell which rank waits for which")
EQUAL_RATIO: Final = threshold(0.2, "ratio", "chosen: ranks whose mean iterations differ by less go in step")
MIRRORED_RATIO: Final = threshold(
    0.5, "ratio", "chosen: half of one rank's data wait must be found in the others' steps"
)

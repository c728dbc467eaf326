"""The numbers of two rules that are written in numpy for detectors, and in SQL for charts over a whole run.

- Which clock counts for data waits: ``detect/device_clock.py`` and ``server/store/sql/data_wait.py``.
- How long a rank waits for others: ``detect/measures/coupling.py`` and ``server/store/sql/others_wait.py``.

The tests of the SQL modules run numpy and SQL on the same rows.
"""

from __future__ import annotations

from typing import Final

KNOWN_RATIO: Final = 0.5
"""Least share of batches with a CUDA event, since a rank's first one, for which the device's clock counts.

Events are missing within CUDA graphs, for batches that were given up, and for a moment for new batches.
"""
LEAST_ITERATIONS: Final = 8
"""Least iterations that all ranks must have in common before they are compared."""
EQUAL_RATIO: Final = 0.2
"""Ranks go in step while each mean iteration differs from the median by at most this share of the median."""
MIRRORED_RATIO: Final = 0.5
"""Least share of one rank's data wait that must be found again in the steps of the ranks that wait for it."""

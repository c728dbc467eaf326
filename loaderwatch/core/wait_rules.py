"""The numbers of two rules that are written twice: in numpy for detectors, in SQL for charts over a whole run.

Which clock counts for data waits: ``detect/device_clock.py`` and ``server/store/sql/data_wait.py``.
How long a rank waits for other ranks: ``detect/measures/coupling.py`` and ``server/store/sql/others_wait.py``.
The tests of both SQL modules run both on the same rows.
"""

from __future__ import annotations

from typing import Final

KNOWN_RATIO: Final = 0.5
"""Least share of a rank's batches, since its first CUDA event, for which events must be known: then the device's clock counts.

Events are missing for batches within CUDA graphs, for batches that were given up, and for a moment for the newest batches.
"""
LEAST_ITERATIONS: Final = 8
"""Least iterations that all ranks must have in common before they are compared."""
EQUAL_RATIO: Final = 0.2
"""Greatest difference between a rank's mean iteration and the median rank's, as a share of the latter, for ranks that go in step."""
MIRRORED_RATIO: Final = 0.5
"""Least share of one rank's data wait that must be found again in the steps of the ranks that wait for it."""

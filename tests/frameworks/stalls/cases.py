"""Which stall is built into which framework's training, and what is to be said of it."""

from __future__ import annotations

from typing import Any, Final

from tests.frameworks.environments import OWN, STREAMS, VISION, python_of
from tests.scenarios.cases import Case

_EXPECTED: Final[dict[str, dict[str, Any]]] = {
    "transform": {"scenarios": ("S07",), "says": ("no CPU is free",)},
    "file": {"scenarios": ("S36",), "stacks": 1, "says": ("pipe",)},
    "worker": {"scenarios": ("S23",), "worker": 1},
}
ENVIRONMENTS: Final = {"lightning": OWN, "trainer": OWN, "timm": VISION}
PACKAGES: Final = {"lightning": "lightning", "trainer": "transformers", "timm": "timm"}


def case_of(framework: str, stall: str) -> Case:
    """The case of a framework's training with a stall."""
    python = str(python_of(ENVIRONMENTS[framework]))
    return Case(
        f"{framework}_stall",
        name=f"{framework}_{stall}",
        args=(stall,),
        within_s=60,
        package="tests.frameworks.stalls",
        interpreter=python,
        before=(python, "-m", "loaderwatch", "run", "--"),
        **_EXPECTED[stall],
    )


CASES: Final = {
    (framework, stall): case_of(framework, stall) for framework in ENVIRONMENTS for stall in _EXPECTED
}

IDLE_NOTEBOOK: Final = Case(
    "n29_notebook",
    within_s=75,
    package="tests.frameworks.stalls",
    interpreter=str(python_of(STREAMS)),
)

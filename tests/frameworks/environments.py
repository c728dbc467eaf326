"""``python -m tests.frameworks.environments``: the environments of the trainings and their packages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]

OWN: Final = "own"
"""The environment of ``make test``, which holds what its dependency group names."""
STREAMS: Final = "streams"
VISION: Final = "vision"
"""What needs torchvision."""

PACKAGES: Final[dict[str, tuple[str, ...]]] = {
    OWN: ("torch", "accelerate", "lightning", "torchdata", "transformers"),
    STREAMS: ("torch", "torch-geometric", "webdataset", "datasets", "nbclient", "ipykernel"),
    VISION: ("torch", "torchvision", "timm", "ultralytics", "yolov5", "monai", "mosaicml-streaming"),
}
"""Whose versions are printed, by environment."""

_ASK: Final = """
import json, sys
from importlib.metadata import PackageNotFoundError, version
found = {"python": sys.version.split()[0]}
for name in sys.argv[1:]:
    try:
        found[name] = version(name)
    except PackageNotFoundError:
        found[name] = None
print(json.dumps(found))
"""


def python_of(environment: str) -> Path:
    """Its interpreter, which is there when ``make frameworks`` could install it."""
    if environment == OWN:
        return Path(sys.executable)
    return ROOT / f".venv-frameworks-{environment}" / "bin" / "python"


def missing(environment: str, packages: tuple[str, ...]) -> str:
    """Why a training with these packages cannot run; "" if it can."""
    if not python_of(environment).exists():
        return f"the environment {environment!r} is not there: `make frameworks` installs it"
    versions = installed(environment)
    gone = [name for name in packages if versions.get(name) is None]
    return f"not installed in the environment {environment!r}: {', '.join(gone)}" if gone else ""


def installed(environment: str) -> dict[str, str | None]:
    """Versions by package; None: it is not installed."""
    if environment not in _FOUND:
        command = [str(python_of(environment)), "-c", _ASK, *PACKAGES[environment]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        _FOUND[environment] = json.loads(done.stdout)
    return _FOUND[environment]


_FOUND: dict[str, dict[str, str | None]] = {}


if __name__ == "__main__":
    for name in PACKAGES:
        if python_of(name).exists():
            found = [f"{package} {version or 'missing'}" for package, version in installed(name).items()]
            print(f"{name}: {', '.join(found)}")
        else:
            print(f"{name}: could not be installed; its trainings are skipped")

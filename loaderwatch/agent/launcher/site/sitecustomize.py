"""The ``sitecustomize`` of every Python process of ``loaderwatch run`` or of a script under the doctor.

Its folder is on PYTHONPATH. It runs the environment's own ``sitecustomize``, then hooks DataLoader.
"""

import importlib
import os
import sys
from pathlib import Path

_HERE = str(Path(__file__).resolve().parent)
_HOME = str(Path(__file__).resolve().parents[4])
sys.path[:] = [entry for entry in sys.path if entry != _HERE]
_ours = sys.modules.pop("sitecustomize", None)
try:
    importlib.import_module("sitecustomize")  # the next one on the path
except ModuleNotFoundError:
    if _ours is not None:
        sys.modules["sitecustomize"] = _ours

_is_script = os.environ.get("LOADERWATCH_SCRIPT", "").startswith(f"{os.getpid()}:")
if _is_script:
    sys.path.append(_HOME)  # `python -m loaderwatch` may have been found in the working directory only
try:
    from loaderwatch.agent.launcher.ondemand import start
except ModuleNotFoundError:
    pass  # another Python installation, without loaderwatch
else:
    start()
if _is_script:
    sys.path.remove(_HOME)

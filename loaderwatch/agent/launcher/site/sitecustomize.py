"""The ``sitecustomize`` of every Python that ``loaderwatch run``, or a script under the doctor, starts.

Its folder is on PYTHONPATH. It runs the environment's own ``sitecustomize``, then hooks into DataLoader.
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
    sys.path.append(_HOME)  # `python -m loaderwatch` may have found it in the working directory alone
try:
    from loaderwatch.agent.launcher.ondemand import start
except ModuleNotFoundError:
    pass  # another Python, which does not have loaderwatch
else:
    start()
if _is_script:
    sys.path.remove(_HOME)

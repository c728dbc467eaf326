"""Read by every Python that ``loaderwatch run -- COMMAND`` or a script under the doctor starts, because its folder is on PYTHONPATH.

Gives way to the environment's own ``sitecustomize``, then hooks into DataLoader.
"""

import importlib
import sys
from pathlib import Path

_HERE = str(Path(__file__).resolve().parent)
sys.path[:] = [entry for entry in sys.path if entry != _HERE]
_ours = sys.modules.pop("sitecustomize", None)
try:
    importlib.import_module("sitecustomize")  # the next one on the path
except ModuleNotFoundError:
    if _ours is not None:
        sys.modules["sitecustomize"] = _ours

try:
    from loaderwatch.agent.ondemand import start
except ModuleNotFoundError:
    pass  # another Python, which does not have loaderwatch
else:
    start()

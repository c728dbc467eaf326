"""Dumps as faulthandler writes them, taken from real runs and shortened."""

from __future__ import annotations

WORKER = """Thread 0x00007f2b1c3ff6c0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait
  File "/usr/lib/python3.11/multiprocessing/queues.py", line 231 in _feed
  File "/usr/lib/python3.11/threading.py", line 982 in run

Current thread 0x00007f2b28a4b740 (most recent call first):
  File "/home/me/project/data.py", line 42 in load_image
  File "/home/me/project/data.py", line 12 in __getitem__
  File "/opt/venv/lib/python3.11/site-packages/torch/utils/data/_utils/fetch.py", line 54 in fetch
  File "/opt/venv/lib/python3.11/site-packages/loaderwatch/agent/workers/fetch.py", line 240 in fetch
  File "/opt/venv/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py", line 351 in _worker_loop
  File "/usr/lib/python3.11/multiprocessing/process.py", line 108 in run
  File "/opt/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py", line 1170 in __init__
  File "/home/me/project/train.py", line 30 in main
  File "/home/me/project/train.py", line 99 in <module>
"""

MAIN_WAITS = """Current thread 0x00007f2b28a4b740 (most recent call first):
  File "/usr/lib/python3.11/selectors.py", line 415 in select
  File "/usr/lib/python3.11/multiprocessing/queues.py", line 113 in get
  File "/opt/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py", line 1291 in _try_get_data
  File "/home/me/project/train.py", line 40 in main
  File "/home/me/project/train.py", line 99 in <module>
"""


def main_in(*functions: str, user: str = "train_epoch") -> str:
    """A training process inside functions of torch, innermost first."""
    frames = "".join(
        '  File "/opt/venv/lib/python3.11/site-packages/torch/nn/parallel/distributed.py",'
        f" line 7 in {name}\n"
        for name in functions
    )
    return (
        "Current thread 0x00007f2b28a4b740 (most recent call first):\n"
        f'{frames}  File "/home/me/project/train.py", line 61 in {user}\n'
        '  File "/home/me/project/train.py", line 99 in <module>\n'
    )


SAVE = """Current thread 0x00007f2b28a4b740 (most recent call first):
  File "/opt/venv/lib/python3.11/site-packages/torch/serialization.py", line 783 in __init__
  File "/opt/venv/lib/python3.11/site-packages/torch/serialization.py", line 966 in save
  File "/home/me/project/train.py", line 61 in save
  File "/home/me/project/train.py", line 99 in <module>
"""

OPTIMIZER = """Current thread 0x00007f2b28a4b740 (most recent call first):
  File "/home/me/project/train.py", line 47 in loss_fn
  File "/home/me/project/train.py", line 81 in step
  File "/opt/venv/lib/python3.11/site-packages/torch/optim/optimizer.py", line 517 in wrapper
  File "/home/me/project/train.py", line 99 in <module>
"""

POOL = """Current thread 0x00007f2b28a4b740 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait
  File "/usr/lib/python3.11/threading.py", line 629 in wait
  File "/usr/lib/python3.11/multiprocessing/pool.py", line 765 in wait
  File "/usr/lib/python3.11/multiprocessing/pool.py", line 768 in get
  File "/usr/lib/python3.11/multiprocessing/pool.py", line 367 in map
  File "/home/me/project/train.py", line 61 in main
  File "/home/me/project/train.py", line 99 in <module>
"""

FUTURE = """Thread 0x00007f2b1c3ff6c0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait
  File "/usr/lib/python3.11/concurrent/futures/_base.py", line 451 in result
  File "/home/me/project/train.py", line 83 in encode
  File "/usr/lib/python3.11/concurrent/futures/thread.py", line 58 in run
  File "/usr/lib/python3.11/threading.py", line 982 in run
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Current thread 0x00007f2b28a4b740 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait
  File "/usr/lib/python3.11/concurrent/futures/_base.py", line 451 in result
  File "/home/me/project/train.py", line 61 in main
  File "/home/me/project/train.py", line 99 in <module>
"""

CHILD = """Current thread 0x00007f2b28a4b740 (most recent call first):
  File "/usr/lib/python3.11/subprocess.py", line 2011 in _try_wait
  File "/usr/lib/python3.11/subprocess.py", line 2053 in _wait
  File "/home/me/project/train.py", line 61 in main
  File "/home/me/project/train.py", line 99 in <module>
"""

QUEUE = """Current thread 0x00007f2b28a4b740 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait
  File "/usr/lib/python3.11/queue.py", line 171 in get
  File "/home/me/project/prefetch.py", line 26 in __iter__
  File "/home/me/project/train.py", line 99 in <module>
"""

EVENT = """Current thread 0x00007f2b28a4b740 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait
  File "/usr/lib/python3.11/threading.py", line 629 in wait
  File "/home/me/project/train.py", line 61 in main
  File "/home/me/project/train.py", line 99 in <module>
"""

SOCKET = """Current thread 0x00007f2b28a4b740 (most recent call first):
  File "/usr/lib/python3.11/socket.py", line 718 in readinto
  File "/usr/lib/python3.11/http/client.py", line 286 in _read_status
  File "/home/me/project/train.py", line 61 in upload
  File "/home/me/project/train.py", line 99 in <module>
"""

DEBUGGER = """Current thread 0x00007f2b28a4b740 (most recent call first):
  File "/usr/lib/python3.11/cmd.py", line 126 in cmdloop
  File "/usr/lib/python3.11/pdb.py", line 324 in _cmdloop
  File "/usr/lib/python3.11/bdb.py", line 90 in trace_dispatch
  File "/home/me/project/train.py", line 61 in train_epoch
  File "/home/me/project/train.py", line 99 in <module>
"""

NOTEBOOK_IDLE = """Current thread 0x00007f2b28a4b740 (most recent call first):
  File "/usr/lib/python3.11/selectors.py", line 468 in select
  File "/usr/lib/python3.11/asyncio/base_events.py", line 1871 in _run_once
  File "/usr/lib/python3.11/asyncio/base_events.py", line 607 in run_forever
  File "/opt/venv/lib/python3.11/site-packages/tornado/platform/asyncio.py", line 205 in start
  File "/opt/venv/lib/python3.11/site-packages/ipykernel/kernelapp.py", line 739 in start
  File "/opt/venv/lib/python3.11/site-packages/ipykernel_launcher.py", line 18 in <module>
"""

NOTEBOOK_BUSY = """Current thread 0x00007f2b28a4b740 (most recent call first):
  File "/tmp/ipykernel_123/4711.py", line 3 in <module>
  File "/opt/venv/lib/python3.11/site-packages/IPython/core/interactiveshell.py", line 3553 in run_code
  File "/opt/venv/lib/python3.11/site-packages/ipykernel/kernelapp.py", line 739 in start
  File "/opt/venv/lib/python3.11/site-packages/ipykernel_launcher.py", line 18 in <module>
"""

COMPILING = """Current thread 0x00007f2b28a4b740 (most recent call first):
  File "/opt/venv/lib/python3.11/site-packages/torch/_inductor/codecache.py", line 7 in compile
  File "/opt/venv/lib/python3.11/site-packages/torch/_dynamo/eval_frame.py", line 7 in _fn
  File "/home/me/project/train.py", line 61 in train_epoch
  File "/home/me/project/train.py", line 99 in <module>
"""

_SCORER = """Thread 0x00007f4767b486c0 (most recent call first):
  File "/home/me/project/train.py", line 66 in edit_distance
  File "/home/me/project/train.py", line 71 in <genexpr>
  File "/home/me/project/train.py", line 71 in score
  File "/usr/lib/python3.11/concurrent/futures/thread.py", line 58 in run
  File "/usr/lib/python3.11/threading.py", line 982 in run
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

"""
SCORER = _SCORER + main_in("_conv_forward", "_call_impl", user="train")
"""A pool's thread computes in Python, and the training thread is in its model."""
SCORER_AWAITED = (
    _SCORER
    + """Current thread 0x00007f2b28a4b740 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait
  File "/usr/lib/python3.11/concurrent/futures/_base.py", line 451 in result
  File "/home/me/project/train.py", line 61 in train
  File "/home/me/project/train.py", line 99 in <module>
"""
)
"""The same thread, for whose result the training thread waits."""

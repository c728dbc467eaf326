"""N29: a notebook: a cell trains, the kernel is idle while a person reads, and a later cell trains on."""

import time

import nbformat
from nbclient import NotebookClient

CELLS = (
    """
import time
from torch.utils.data import DataLoader
import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read
loader = loaderwatch.attach(DataLoader(SlowDataset(400, sleep_read(0.002)), batch_size=8, num_workers=1))
def fit(epochs):
    for _ in range(epochs):
        for _batch in loader:
            time.sleep(0.03)
fit(2)
""",
    "print('it looks good')",
    "fit(1)",
)
PAUSE_S = 45.0

notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
client = NotebookClient(notebook, timeout=120, kernel_name="python3")
with client.setup_kernel():
    for number, cell in enumerate(notebook.cells):
        client.execute_cell(cell, number)
        time.sleep(PAUSE_S if number == 0 else 1.0)

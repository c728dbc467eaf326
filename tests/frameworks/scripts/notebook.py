"""Runs notebook.ipynb in a kernel of its own, as Jupyter does, and prints what its cells print."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient


def main(first_cell):
    notebook = nbformat.read(Path(__file__).with_suffix(".ipynb"), as_version=4)
    if first_cell:
        notebook.cells.insert(0, nbformat.v4.new_code_cell(first_cell))
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            stream = sys.stderr if output.get("name") == "stderr" else sys.stdout
            stream.write(output.get("text", ""))


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]))

"""Trainings with one known cost: ``python -m tests.scenarios.known_costs COST SHARE SECONDS FOLDER``.

Each sample calls the cost once and computes for so long that the call takes ``SHARE`` of the fetch. Each
worker writes to FOLDER how many seconds the calls and the whole fetches took: the truth.
"""

from __future__ import annotations

import bz2
import copy
import csv
import gc
import gzip
import hashlib
import io
import json
import logging
import lzma
import os
import pickle
import re
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import threading
import time
import warnings
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen
from xml.etree import ElementTree

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

import loaderwatch

Call = Callable[[], object]
MAKERS: Final[dict[str, Callable[[Path], Call]]] = {}
"""By the id of its row: makes the files of a cost in a folder, and returns the call of a sample."""
WORDS: Final = [f"word {number} of a text, and {number * 7} more" for number in range(400)]


def cost(name: str) -> Callable[[Callable[[Path], Call]], Callable[[Path], Call]]:
    """Enter a maker into the table."""

    def enter(maker: Callable[[Path], Call]) -> Callable[[Path], Call]:
        MAKERS[name] = maker
        return maker

    return enter


@cost("zip-reopened")
def _zip(folder: Path) -> Call:
    path = folder / "faces.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(3000):
            archive.writestr(f"{number}.bin", b"x" * 64)

    def call() -> object:
        with zipfile.ZipFile(path) as archive:
            return archive.read("7.bin")

    return call


@cost("zip-member-decompressed")
def _member(folder: Path) -> Call:
    path = folder / "packed.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", np.random.default_rng(0).integers(0, 4, 2_000_000).astype(np.uint8).tobytes())
    archive = zipfile.ZipFile(path)
    return lambda: archive.read("a")


@cost("tar-scanned")
def _tar(folder: Path) -> Call:
    path = folder / "faces.tar"
    with tarfile.open(path, "w") as archive:
        for number in range(600):
            archive.addfile(tarfile.TarInfo(f"{number}.bin"))

    def call() -> object:
        with tarfile.open(path) as archive:
            return archive.getnames()

    return call


@cost("npy-read-whole")
def _npy(folder: Path) -> Call:
    path = folder / "all.npy"
    np.save(path, np.zeros(4_000_000))
    return lambda: np.load(path)[7]


@cost("text-array-parsed")
def _text_array(folder: Path) -> Call:
    path = folder / "table.txt"
    np.savetxt(path, np.random.default_rng(0).random((1500, 8)))
    return lambda: np.loadtxt(path)


@cost("npz-member-read")
def _npz(folder: Path) -> Call:
    path = folder / "all.npz"
    np.savez_compressed(path, a=np.random.default_rng(0).integers(0, 9, 400_000))
    arrays = np.load(path)
    return lambda: arrays["a"]


@cost("tensor-file-read")
def _tensor_file(folder: Path) -> Call:
    path = folder / "sample.pt"
    torch.save({str(number): torch.zeros(64) for number in range(200)}, path)
    return lambda: torch.load(path)


@cost("image-decoded")
def _image(folder: Path) -> Call:
    path = folder / "face.jpg"
    noise = np.random.default_rng(0).integers(0, 255, (700, 700, 3)).astype(np.uint8)
    Image.fromarray(noise).save(path)

    def call() -> object:
        with Image.open(path) as image:
            return image.convert("RGB")

    return call


@cost("image-resized")
def _resized(folder: Path) -> Call:
    image = Image.new("RGB", (2000, 2000))
    return lambda: image.resize((1500, 1500), Image.Resampling.LANCZOS)


@cost("json-parsed")
def _json(folder: Path) -> Call:
    text = json.dumps([{"a": number, "b": str(number), "c": [number] * 5} for number in range(8000)])
    return lambda: json.loads(text)


@cost("csv-parsed")
def _csv(folder: Path) -> Call:
    out = io.StringIO()
    csv.writer(out).writerows([[number, str(number)] for number in range(20_000)])
    return lambda: list(csv.DictReader(io.StringIO(out.getvalue())))


@cost("xml-parsed")
def _xml(folder: Path) -> Call:
    path = folder / "boxes.xml"
    path.write_text("<a>" + "<box x='1'><y>2</y></box>" * 12_000 + "</a>")
    return lambda: ElementTree.parse(path).getroot()


@cost("regex-applied")
def _regex(folder: Path) -> Call:
    text = " ".join(WORDS * 10)
    return lambda: [re.sub(rf"\b{number}\b|of a|and (\d+)", "x", text) for number in range(8)]


@cost("objects-copied")
def _copied(folder: Path) -> Call:
    tree = {str(number): [number, {"a": number}] for number in range(1500)}
    return lambda: copy.deepcopy(tree)


@cost("slow-format-decompressed")
def _bz2(folder: Path) -> Call:
    path = folder / "packed.bz2"
    path.write_bytes(bz2.compress(os.urandom(150_000)))

    def call() -> object:
        with bz2.open(path) as file:
            return file.read()

    return call


@cost("gzip-decompressed")
def _gzip(folder: Path) -> Call:
    path = folder / "packed.gz"
    path.write_bytes(gzip.compress(np.random.default_rng(0).integers(0, 9, 3_000_000, np.uint8).tobytes(), 1))

    def call() -> object:
        with gzip.open(path) as file:
            return file.read()

    return call


@cost("compressed-file-sought")
def _sought(folder: Path) -> Call:
    path = folder / "long.xz"
    path.write_bytes(lzma.compress(np.random.default_rng(0).integers(0, 9, 700_000, np.uint8).tobytes()))

    def call() -> object:
        with lzma.open(path) as file:
            file.seek(690_000)
            return file.read(10)

    return call


@cost("log-written")
def _log(folder: Path) -> Call:
    logger = logging.getLogger("faces")
    logger.addHandler(logging.FileHandler(folder / "log.txt"))
    logger.propagate = False

    def call() -> None:
        for number in range(500):
            logger.warning("sample %d of %s", number, "faces")

    return call


@cost("warning-written")
def _warning(folder: Path) -> Call:
    warnings.simplefilter("always")
    sys.stderr = (folder / "stderr.txt").open("w")
    return lambda: [warnings.warn("too small", stacklevel=1) for _ in range(300)]


@cost("process-started")
def _process(folder: Path) -> Call:
    return lambda: subprocess.run(["/bin/true"], check=True)


@cost("threads-started")
def _threads(folder: Path) -> Call:
    def call() -> None:
        for _ in range(200):
            thread = threading.Thread(target=int)
            thread.start()

    return call


@cost("pool-awaited")
def _pool(folder: Path) -> Call:
    pools: list[ThreadPoolExecutor] = []

    def call() -> object:
        if not pools:
            pools.append(ThreadPoolExecutor(4))
        return list(pools[0].map(lambda _: time.sleep(0.02), range(4)))

    return call


@cost("file-copied")
def _file_copied(folder: Path) -> Call:
    source = folder / "source.bin"
    source.write_bytes(os.urandom(4 << 20))
    return lambda: shutil.copy(source, folder / f"copy-{os.getpid()}.bin")


@cost("directory-listed")
def _listed(folder: Path) -> Call:
    many = folder / "many"
    many.mkdir()
    for number in range(3000):
        (many / f"{number}.txt").touch()
    return lambda: sorted(many.glob("*.txt"))


@cost("file-status-asked")
def _status(folder: Path) -> Call:
    path = folder / "there"
    path.touch()
    return lambda: [path.exists() for _ in range(4000)]


@cost("database-queried")
def _database(folder: Path) -> Call:
    path = folder / "faces.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table faces (id integer, label text)")
        connection.executemany("insert into faces values (?, ?)", [(n, str(n)) for n in range(60_000)])
    connections: list[sqlite3.Connection] = []

    def call() -> object:
        if not connections:
            connections.append(sqlite3.connect(path))
        connection = connections[0]
        return connection.execute("select count(*) from faces where label like '%77%'").fetchall()

    return call


@cost("http-answer-awaited")
def _http(folder: Path) -> Call:
    class Slow(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            time.sleep(0.05)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/"

    def call() -> object:
        with urlopen(url) as answer:
            return answer.read()

    return call


@cost("array-grown")
def _grown(folder: Path) -> Call:
    def call() -> object:
        grown = np.zeros(0)
        for _ in range(60):
            grown = np.append(grown, np.zeros(5000))
        return grown

    return call


@cost("tensors-joined")
def _joined(folder: Path) -> Call:
    def call() -> object:
        joined = torch.zeros(0)
        for _ in range(80):
            joined = torch.cat([joined, torch.zeros(10_000)])
        return joined

    return call


@cost("tensor-made-of-numbers")
def _numbers(folder: Path) -> Call:
    numbers = [number / 7 for number in range(400_000)]
    return lambda: torch.tensor(numbers)


@cost("objects-unpickled")
def _unpickled(folder: Path) -> Call:
    blob = pickle.dumps([f"{number}" for number in range(200_000)])
    return lambda: pickle.loads(blob)


@cost("garbage-collected")
def _collected(folder: Path) -> Call:
    held = [[number] for number in range(300_000)]
    return lambda: gc.collect() + 0 * len(held)


@cost("sleep-called")
def _sleep(folder: Path) -> Call:
    return lambda: time.sleep(0.03)


@cost("file-forced-to-disk")
def _forced(folder: Path) -> Call:
    def call() -> None:
        with (folder / f"seen-{os.getpid()}.txt").open("a") as file:
            for _ in range(5):
                file.write("x" * 100_000)
                file.flush()
                os.fsync(file.fileno())

    return call


@cost("checksum-computed")
def _checksum(folder: Path) -> Call:
    data = os.urandom(8_000_000)
    return lambda: hashlib.sha256(data).hexdigest()


class Samples(Dataset[Any]):
    """Samples that cost something, and then are computed in this file's own code."""

    def __init__(self, call: Call, share: float, truth: Path) -> None:
        self.call, self.share, self.truth = call, share, truth
        self.called_s = self.fetched_s = 0.0
        self.told_at = 0.0

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> int:
        began = time.perf_counter()
        self.call()
        called_s = time.perf_counter() - began
        compute(called_s * (1 - self.share) / self.share)
        ended = time.perf_counter()
        self.called_s += called_s
        self.fetched_s += ended - began
        if ended - self.told_at > 1:
            self.told_at = ended
            text = f"{self.called_s} {self.fetched_s}"
            (self.truth / f"truth-{os.getpid()}.txt").write_text(text, encoding="utf-8")
        return index


def compute(seconds: float) -> None:
    """Compute in Python for some time."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        sum(range(2000))


def main(name: str, share: str, seconds: str, folder: str) -> None:
    """Train."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    samples = Samples(MAKERS[name](place), float(share), place)
    loader = DataLoader(samples, batch_size=2, num_workers=1)
    loaderwatch.attach(loader)
    model = torch.nn.Linear(1, 1)
    end = time.monotonic() + float(seconds)
    for batch in loader:
        model(batch.float()[:, None]).sum().backward()
        if time.monotonic() > end:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])

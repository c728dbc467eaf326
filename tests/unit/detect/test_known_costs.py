"""The table of known costs: each row has texts and a stack that it fits, of a real call where one can run."""

from __future__ import annotations

import bz2
import copy
import csv
import glob
import gzip
import http.server
import io
import json
import logging
import os
import re
import shutil
import ssl
import subprocess
import sys
import tarfile
import threading
import urllib.request
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, Final
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
import urllib3
from PIL import Image, ImageOps
from torch.utils.data import DataLoader, TensorDataset, default_collate

from loaderwatch.core.facts import NATIVE_FILE
from loaderwatch.core.records import ThreadState
from loaderwatch.core.redact import Redaction
from loaderwatch.detect.known_costs import KNOWN_COSTS, KnownCost, costs_of, known_cost, pattern
from loaderwatch.detect.measures.stacks import Frame
from loaderwatch.texts import LANGUAGES, say
from tests.docs import known_costs as documented

ROWS: Final = {cost.id: cost for cost in KNOWN_COSTS}
USER: Final = (
    Frame("/home/me/project/data.py", "48", "__getitem__"),
    Frame("/opt/venv/lib/python3.11/site-packages/torch/utils/data/_utils/fetch.py", "54", "fetch"),
)


def state_of(cost: KnownCost) -> ThreadState:
    return min(cost.states, default=ThreadState.RUNNING)


# -- stacks of real calls


def stacks_of(call: Callable[[], object]) -> set[tuple[Frame, ...]]:
    """Return the stack at the beginning of every Python function that the call enters."""
    found: set[tuple[Frame, ...]] = set()

    def enters(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            stack: list[Frame] = []
            inner: FrameType | None = frame
            while inner is not None and inner.f_code is not stacks_of.__code__:
                code = inner.f_code
                stack.append(Frame(code.co_filename, str(inner.f_lineno), code.co_name))
                inner = inner.f_back
            found.add(tuple(stack))

    call()  # what is imported or cached at the first call is no cost of a sample
    sys.setprofile(enters)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def rows_of(stacks: set[tuple[Frame, ...]], *states: ThreadState) -> set[str]:
    rows = [known_cost(stack, state) for stack in stacks for state in states or (ThreadState.RUNNING,)]
    return {row.id for row in rows if row is not None}


class Folder:
    """Small files of many formats."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.image = Image.fromarray(np.zeros((64, 64, 3), np.uint8))
        self.image.save(path / "a.jpg")
        with zipfile.ZipFile(path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("one", b"x" * 1000)
        with tarfile.open(path / "a.tar", "w") as tar:
            tar.add(path / "a.jpg", "one")
        np.savez(path / "a.npz", x=np.arange(3))
        np.save(path / "a.npy", np.arange(3))
        (path / "a.txt").write_text("1 2\n3 4\n")
        (path / "a.csv").write_text("x,y\n1,2\n")
        (path / "a.gz").write_bytes(gzip.compress(b"x" * 1000))
        (path / "a.bz2").write_bytes(bz2.compress(b"x" * 1000))
        torch.save(torch.zeros(3), path / "a.pt")
        self.tar = tarfile.open(path / "a.tar")  # noqa: SIM115 - closed below
        self.tar.getmembers()

    def zip_opened(self) -> None:
        zipfile.ZipFile(self.path / "a.zip").close()

    def zip_read(self) -> None:
        zipfile.ZipFile(self.path / "a.zip").read("one")

    def tar_opened(self) -> None:
        with tarfile.open(self.path / "a.tar") as tar:
            tar.getmembers()
            tar.extractfile("one")

    def tar_searched(self) -> None:
        self.tar.extractfile("one")

    def npz(self) -> None:
        with np.load(self.path / "a.npz") as arrays:
            arrays["x"]

    def npy(self) -> None:
        np.load(self.path / "a.npy")

    def numbers(self) -> None:
        np.loadtxt(self.path / "a.txt")

    def tensors(self) -> None:
        torch.load(self.path / "a.pt")

    def decoded(self) -> None:
        Image.open(self.path / "a.jpg").load()

    def converted(self) -> None:
        np.asarray(Image.open(self.path / "a.jpg").convert("L"))

    def thumbnail(self) -> None:
        Image.open(self.path / "a.jpg").thumbnail((8, 8))

    def resized(self) -> None:
        self.image.resize((8, 8))

    def mirrored(self) -> None:
        ImageOps.mirror(self.image)

    def pixel(self) -> None:
        self.image.getpixel((0, 0))

    def csv(self) -> None:
        list(csv.DictReader(io.StringIO("x,y\n1,2\n")))

    def gz(self) -> None:
        with gzip.open(self.path / "a.gz") as file:
            file.read(10)

    def gz_sought(self) -> None:
        with gzip.open(self.path / "a.gz") as file:
            file.seek(500)

    def bz2(self) -> None:
        with bz2.open(self.path / "a.bz2") as file:
            file.read(10)

    def copied(self) -> None:
        shutil.copy(self.path / "a.txt", self.path / "b.txt")

    def listed(self) -> None:
        list(os.walk(self.path))
        glob.glob(str(self.path / "*.txt"))  # noqa: PTH207 - the function under test
        list(self.path.rglob("*.txt"))

    def checked(self) -> None:
        os.path.getsize(self.path / "a.txt")  # noqa: PTH202 - the function under test
        (self.path / "a.txt").exists()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Folder]:
    made = Folder(tmp_path_factory.mktemp("samples"))
    yield made
    made.tar.close()


@pytest.mark.parametrize(
    ("call", "rows"),
    [
        (Folder.zip_opened, {"zip-reopened"}),
        (Folder.zip_read, {"zip-reopened", "zip-member-decompressed"}),
        (Folder.tar_opened, {"tar-reopened", "tar-scanned", "tar-member-searched"}),
        (Folder.tar_searched, {"tar-member-searched"}),
        (Folder.npz, {"npz-member-read", "npy-read-whole"}),
        (Folder.npy, {"npy-read-whole"}),
        (Folder.numbers, {"text-array-parsed"}),
        (Folder.tensors, {"tensor-file-read"}),
        (Folder.decoded, {"image-decoded"}),
        (Folder.converted, {"image-decoded"}),
        (Folder.thumbnail, {"thumbnail-made"}),
        (Folder.resized, {"image-resized"}),
        (Folder.mirrored, {"image-transformed"}),
        (Folder.pixel, {"pixels-read-singly"}),
        (Folder.csv, {"csv-parsed"}),
        (Folder.gz, {"gzip-decompressed"}),
        (Folder.gz_sought, {"compressed-file-sought"}),
        (Folder.bz2, {"slow-format-decompressed"}),
        (Folder.copied, {"file-copied"}),
        (Folder.listed, {"directory-listed"}),
        (Folder.checked, {"file-status-asked"}),
    ],
)
def test_reading_a_file(folder: Folder, call: Callable[[Folder], None], rows: set[str]) -> None:
    assert rows_of(stacks_of(lambda: call(folder))) == rows


@cache
def installed(module: str) -> Any:
    """Return a module that not every version of Python has here; skip the test if it is missing."""
    return pytest.importorskip(module)


@cache
def tokenizer() -> Any:
    tokenizers = installed("tokenizers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0, "[PAD]": 1}, "[UNK]"))
    fast = installed("transformers").PreTrainedTokenizerFast
    return fast(tokenizer_object=words, unk_token="[UNK]", pad_token="[PAD]")


def patterns_compiled() -> None:
    re.purge()
    re.compile(r"a+(b|c)")


def logged() -> None:
    logger = logging.Logger("a cost")
    logger.addHandler(logging.StreamHandler(io.StringIO()))
    logger.warning("sample %d", 3)


def warned() -> None:
    warnings.formatwarning("odd", UserWarning, "data.py", 3, "line")


def thread_started() -> None:
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()


def pool_awaited() -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()


def bar_drawn() -> None:
    for _ in installed("tqdm").tqdm(range(3), file=io.StringIO(), mininterval=0):
        pass


@pytest.mark.parametrize(
    ("call", "rows"),
    [
        (lambda: json.loads("[1, 2]"), {"json-parsed"}),
        (lambda: re.sub("a", "b", "aaa"), {"regex-applied"}),
        (patterns_compiled, {"regex-compiled"}),
        (lambda: copy.deepcopy({"boxes": [[1, 2]]}), {"objects-copied"}),
        (lambda: installed("yaml").safe_load("a: [1, 2]"), {"yaml-parsed"}),
        (lambda: ElementTree.fromstring("<a/>") and ElementTree.parse(io.StringIO("<a/>")), {"xml-parsed"}),
        (lambda: np.append(np.arange(3), 4), {"array-grown"}),
        (lambda: np.vstack([np.arange(3)] * 2), {"array-grown"}),
        (lambda: installed("scipy.ndimage").zoom(np.zeros((4, 4)), 2), {"array-resampled-scipy"}),
        (lambda: default_collate([torch.zeros(3)] * 2), {"samples-stacked", "nested-sample-collated"}),
        (lambda: default_collate([{"x": 1.0}] * 2), {"numbers-collated", "nested-sample-collated"}),
        (lambda: tokenizer()("some words"), {"text-tokenized"}),
        (lambda: tokenizer().pad({"input_ids": [[1], [1, 2]]}), {"tokens-padded"}),
        (logged, {"log-written"}),
        (warned, {"warning-written"}),
        (bar_drawn, {"progress-bar-drawn"}),
        (lambda: subprocess.run(["true"], check=True), {"process-started"}),
        (thread_started, {"threads-started"}),
        (pool_awaited, {"threads-started", "pool-awaited"}),
        (ssl.create_default_context, {"certificates-loaded"}),
        (lambda: torch.cuda.empty_cache(), {"memory-cache-emptied"}),
    ],
)
def test_calling_a_library(call: Callable[[], object], rows: set[str]) -> None:
    assert rows_of(stacks_of(lambda: call())) == rows


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@contextmanager
def answering() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def test_asking_a_server() -> None:
    def asks_urllib() -> None:
        with urllib.request.urlopen(url) as answer:
            answer.read()

    with answering() as url, urllib3.PoolManager() as pool:
        network = ThreadState.NETWORK
        assert rows_of(stacks_of(asks_urllib), network) == {"connection-opened", "http-answer-awaited"}
        assert rows_of(stacks_of(lambda: pool.request("GET", url)), network) == {"http-answer-awaited"}
    retries = stacks_of(lambda: urllib3.Retry(backoff_factor=0.001).sleep())
    assert rows_of(retries, ThreadState.TIMER) == {"request-retried"}
    assert rows_of(retries, ThreadState.RUNNING) == set()


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Dropout())
        self.attention = torch.nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        tokens = self.body(images).flatten(2).transpose(1, 2)
        mixed, _ = self.attention(tokens, tokens, tokens)
        return torch.cat([mixed, torch.stack([tokens, tokens]).mean(0)])


def test_a_model_and_plain_code_match_nothing() -> None:
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        loss = torch.nn.functional.mse_loss(model(torch.zeros(2, 3, 8, 8)), torch.zeros(4, 36, 4))
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()

    def plain() -> object:
        rows = [{"x": number**2} for number in range(3)]
        return sorted(rows, key=lambda row: -row["x"]), np.array([row["x"] for row in rows]).mean()

    assert len(stacks_of(step)) > 100
    assert rows_of(stacks_of(step), *ThreadState) == set()
    assert rows_of(stacks_of(plain), *ThreadState) == set()
    loader = DataLoader(TensorDataset(torch.zeros(3, 2)), collate_fn=len)
    assert rows_of(stacks_of(lambda: list(loader))) == set()


# -- stacks of what is not installed here, or starts processes


def written(*calls: str) -> tuple[Frame, ...]:
    """Return a stack with these calls, "file function", innermost first. "std/" is Python's library."""
    frames = []
    for call in calls:
        file, function = call.split()
        root = "/usr/lib/python3.12" if file.startswith("std/") else "/opt/venv/lib/python3.12/site-packages"
        frames.append(Frame(f"{root}/{file.removeprefix('std/')}.py", "7", function))
    return (*frames, *USER)


# Files and functions are those of the package's own sources; the innermost first.
EXAMPLES: Final[dict[str, tuple[str, ...]]] = {
    "hdf5-reopened": ("h5py/_hl/files make_fid", "h5py/_hl/files __init__"),
    "hdf5-object-looked-up": ("h5py/_hl/group __getitem__",),
    "hdf5-chunk-read": ("h5py/_hl/dataset __getitem__",),
    # zarr 3 waits for its own thread, in which an event loop reads the chunks.
    "zarr-reopened": ("std/threading wait", "zarr/core/sync sync", "zarr/api/synchronous open_array"),
    "zarr-chunk-read": (
        "zarr/core/sync sync",
        "zarr/core/array get_basic_selection",
        "zarr/core/array __getitem__",
    ),
    "parquet-file-read": ("pyarrow/parquet/core read", "pyarrow/parquet/core read_table"),
    "parquet-reopened": ("pyarrow/parquet/core __init__",),
    "parquet-row-group-read": ("pyarrow/parquet/core read_row_group",),
    "xarray-reopened": (
        "h5py/_hl/files make_fid",
        "xarray/backends/h5netcdf_ open",
        "xarray/backends/api open_dataset",
    ),
    "hub-dataset-loaded": (
        "std/json/decoder decode",
        "datasets/info from_directory",
        "datasets/load load_from_disk",
    ),
    "audio-resampled": ("resampy/core resample", "librosa/core/audio resample", "librosa/core/audio load"),
    "spectrogram-computed": ("librosa/core/spectrum stft", "librosa/feature/spectral melspectrogram"),
    "audio-loaded-librosa": (
        "soundfile read",
        "librosa/core/audio __soundfile_load",
        "librosa/core/audio load",
    ),
    "audio-decoded-pydub": ("std/subprocess communicate", "pydub/audio_segment from_file"),
    "audio-decoded": (
        "soundfile read",
        "torchaudio/_backend/soundfile_backend load",
        "torchaudio/_backend/utils load",
    ),
    "audio-read": ("soundfile _array_io", "soundfile read"),
    "audio-features-extracted": (
        "transformers/audio_utils spectrogram",
        "transformers/models/whisper/feature_extraction_whisper __call__",
    ),
    "pretrained-loaded": (
        "std/json/decoder raw_decode",
        "std/json/__init__ loads",
        "transformers/tokenization_utils_base _from_pretrained",
        "transformers/models/auto/tokenization_auto from_pretrained",
    ),
    "chat-template-rendered": (
        "jinja2/environment render",
        "transformers/utils/chat_template_utils render_jinja_template",
        "transformers/tokenization_utils_base apply_chat_template",
    ),
    "text-tokenized-in-python": (
        "std/re/__init__ sub",
        "transformers/tokenization_python tokenize",
        "transformers/tokenization_python _encode_plus",
        "transformers/tokenization_utils_base __call__",
    ),
    "image-processed": (
        "PIL/Image resize",
        "transformers/image_transforms resize",
        "transformers/models/vit/image_processing_vit preprocess",
    ),
    "feature-decoded": ("PIL/ImageFile load", "datasets/features/image decode_example"),
    "arrow-indices-mapped": (
        "datasets/formatting/formatting _query_table_with_indices_mapping",
        "datasets/formatting/formatting query_table",
        "datasets/arrow_dataset _getitem",
    ),
    "arrow-row-formatted": (
        "datasets/formatting/formatting format_row",
        "datasets/arrow_dataset __getitem__",
    ),
    "table-file-read": ("pandas/io/parsers/readers _read", "pandas/io/parsers/readers read_csv"),
    "table-rows-iterated": ("pandas/core/series __init__", "pandas/core/frame iterrows"),
    "table-searched": (
        "pandas/core/generic take",
        "pandas/core/frame _getitem_bool_array",
        "pandas/core/frame __getitem__",
    ),
    "table-row-taken": (
        "pandas/core/frame _ixs",
        "pandas/core/indexing _getitem_axis",
        "pandas/core/indexing __getitem__",
    ),
    "hub-file-checked": (
        "std/ssl do_handshake",
        "huggingface_hub/file_download get_hf_file_metadata",
        "huggingface_hub/file_download hf_hub_download",
    ),
    "cloud-client-created": (
        "std/json/decoder decode",
        "botocore/loaders load_file",
        "botocore/session create_client",
    ),
    "database-connected": ("std/socket create_connection", "pymysql/connections connect"),
    "database-queried": ("pymysql/connections _read_bytes", "sqlalchemy/engine/default do_execute"),
    "tls-handshake": (
        "std/ssl do_handshake",
        "urllib3/util/ssl_ ssl_wrap_socket",
        "urllib3/connection connect",
        "requests/api get",
    ),
    "cloud-object-awaited": (
        "std/http/client _read_status",
        "botocore/httpsession send",
        "botocore/client _api_call",
    ),
    "remote-file-awaited": (
        "std/threading wait",
        "fsspec/asyn sync",
        "fsspec/caching _fetch",
        "fsspec/spec read",
    ),
    "shard-pipe-awaited": (
        "webdataset/gopen read",
        "std/tarfile next",
        "webdataset/tariterators tar_file_iterator",
    ),
    "image-decoded-torchvision": ("torch/_ops __call__", "torchvision/io/image decode_jpeg"),
    "video-scanned": ("torch/_ops __call__", "torchcodec/decoders/_video_decoder __init__"),
    "video-decoded": ("torch/_ops __call__", "torchcodec/decoders/_video_decoder get_frames_at"),
    "video-scanned-decord": ("decord/video_reader __init__",),
    "video-decoded-decord": ("decord/video_reader get_batch",),
    "video-read-torchvision": ("torchvision/io/video _read_from_stream", "torchvision/io/video read_video"),
    "image-read-imageio": ("PIL/Image open", "imageio/v3 imread"),
    "image-resized-skimage": ("scipy/ndimage/_interpolation zoom", "skimage/transform/_warps resize"),
    "tiff-read-whole": ("tifffile/tifffile asarray", "tifffile/tifffile imread"),
    "volume-read-whole": (
        "std/gzip read",
        "nibabel/arrayproxy _get_unscaled",
        "nibabel/arrayproxy __array__",
        "nibabel/dataobj_images get_fdata",
    ),
    "dicom-read": ("pydicom/filereader read_dataset", "pydicom/filereader dcmread"),
    "image-resized-torchvision": (
        "PIL/Image resize",
        "torchvision/transforms/_functional_pil resize",
        "torchvision/transforms/functional resize",
        "torchvision/transforms/transforms forward",
    ),
    "image-to-float": (
        "torchvision/transforms/functional to_tensor",
        "torchvision/transforms/transforms __call__",
    ),
    "image-transformed-torchvision": (
        "torchvision/transforms/v2/functional/_color adjust_hue",
        "torchvision/transforms/v2/_container forward",
    ),
    "image-transformed-albumentations": (
        "albumentations/augmentations/blur/functional blur",
        "albumentations/core/composition __call__",
    ),
    "metrics-logged": (
        "tensorboard/summary/writer/event_file_writer flush",
        "torch/utils/tensorboard/writer add_scalar",
    ),
    "manager-asked": (
        "std/multiprocessing/connection _recv",
        "std/multiprocessing/managers _callmethod",
    ),
    "workers-restarted": (
        "std/multiprocessing/popen_fork _launch",
        "std/multiprocessing/process start",
        "torch/utils/data/dataloader __init__",
        "torch/utils/data/dataloader __iter__",
    ),
    "workers-ended": ("std/multiprocessing/process join", "torch/utils/data/dataloader _shutdown_workers"),
    "process-pool-started": (
        "std/multiprocessing/process start",
        "std/multiprocessing/pool _repopulate_pool_static",
        "std/multiprocessing/pool __init__",
    ),
    "function-compiled": ("numba/core/compiler compile_extra", "numba/core/dispatcher _compile_for_args"),
    "module-imported": (
        "std/importlib/_bootstrap_external get_code",
        "std/importlib/_bootstrap _find_and_load",
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_written_stack_fits_its_row(name: str) -> None:
    stack = written(*EXAMPLES[name])
    row = known_cost(stack, state_of(ROWS[name]))
    assert row is ROWS[name]
    qualified = [Frame(frame.file, frame.line, f"Some.<locals>.{frame.function}") for frame in stack[:-2]]
    assert known_cost([*qualified, *USER], state_of(row)) is row
    assert row is known_cost([*_moved(stack[:-2], "C:/py/Lib"), *USER], state_of(row)), "Windows"
    assert row is known_cost([*_moved(stack[:-2], "/usr/lib64/python3.12"), *USER], state_of(row)), "Fedora"
    redaction = Redaction(b"key of the test", sharing=True)
    redacted = [Frame(redaction.path(frame.file), frame.line, frame.function) for frame in stack]
    assert known_cost(redacted, state_of(row)) is row, "recordings that go to others"


def _moved(frames: Sequence[Frame], root: str) -> list[Frame]:
    """Return the frames of an installation in another folder, with backslashes on Windows."""
    files = [re.sub(r"^.*/lib/python3\.12", root, frame.file) for frame in frames]
    return [
        Frame(file.replace("/", "\\") if ":" in file else file, frame.line, frame.function)
        for file, frame in zip(files, frames, strict=True)
    ]


NATIVE: Final = {
    "sleep-called": "time.sleep",
    "garbage-collected": "gc.collect",
    "file-forced-to-disk": "os.fsync",
    "lmdb-reopened": "lmdb.open",
    "video-opened": "cv2.VideoCapture",
    "image-decoded-opencv": "cv2.imdecode",
    "checksum-computed": "hashlib.sha256",
    "objects-unpickled": "pickle.loads",
    "tensor-made-of-numbers": "torch.FloatTensor",
    "tensors-joined": "torch.cat",
    "file-opened": "open",
    "array-grown": "numpy.concatenate",
    "slow-format-decompressed": "lzma.decompress",
    "directory-listed": "os.scandir",
    "file-status-asked": "os.stat",
    "database-queried": "self._conn.execute",
}


@pytest.mark.parametrize("name", NATIVE)
def test_a_native_function_fits_its_row(name: str) -> None:
    called = Frame(NATIVE_FILE, "48", NATIVE[name])
    assert known_cost([called, *USER], ThreadState.RUNNING) is ROWS[name]
    redacted = Frame(Redaction(b"key of the test", sharing=True).path(called.file), "48", called.function)
    assert known_cost([redacted, *USER], ThreadState.RUNNING) is ROWS[name]


@pytest.mark.parametrize("name", ["self.opener.open", "self.sleep", "self.execute", "torch.tensor_split"])
def test_another_native_function_fits_no_row(name: str) -> None:
    assert known_cost([Frame(NATIVE_FILE, "48", name), *USER], ThreadState.RUNNING) is None


def test_packages_of_the_table_are_not_redacted() -> None:
    redaction = Redaction(b"key of the test", sharing=True)
    items = [item for cost in KNOWN_COSTS for item in f"{cost.calls} {cost.inside}".split()]
    packages = {
        re.split(r"\W", item.lstrip("("))[0] for item in items if not item.startswith(("std/", "native:"))
    }
    for package in packages:
        file = f"/site-packages/{package}/core.py"
        assert redaction.path(f"/opt/venv/lib/python3.12{file}") == file


def test_every_row_has_an_example() -> None:
    tests: list[Any] = [test_reading_a_file, test_calling_a_library]
    marks = [mark for test in tests for mark in test.pytestmark]
    run = {row for mark in marks for _, rows in mark.args[1] for row in rows}
    run |= {"connection-opened", "http-answer-awaited", "request-retried"}  # test_asking_a_server
    assert run & EXAMPLES.keys() == set()
    assert {*run, *EXAMPLES, *NATIVE} == ROWS.keys()


def test_what_the_user_wrote_inside_a_library_is_no_cost_of_the_library() -> None:
    """A transform of the user's in torchvision's ``Compose``: the user's own line is the innermost."""
    own = Frame("/home/me/project/augment.py", "3", "cut")
    inner = written("torchvision/transforms/transforms __call__")
    assert known_cost((own, *inner)) is None
    assert known_cost(inner) is ROWS["image-transformed-torchvision"]


def test_words_of_python_count_only_if_the_user_says_them() -> None:
    parsed = ("std/json/decoder decode", "std/json/__init__ loads")
    assert known_cost(written(*parsed)) is ROWS["json-parsed"]
    assert known_cost(written(*parsed, "another/package load")) is None
    assert known_cost(written(*parsed)[:2]) is None, "nobody's line is known"
    frozen = Frame("<frozen genericpath>", "7", "getsize")
    assert known_cost((frozen, *USER)) is ROWS["file-status-asked"]


def test_a_row_with_states_needs_one_of_them() -> None:
    stack = written("PIL/ImageFile load")
    assert known_cost(stack, ThreadState.RUNNING) is ROWS["image-decoded"]
    assert known_cost(stack, ThreadState.DISK) is None
    assert known_cost(stack) is None


def test_a_start_of_workers_is_inside_the_loader() -> None:
    start = "std/multiprocessing/process start"
    assert known_cost(written(start)) is ROWS["process-started"]
    assert known_cost(written("torch/utils/data/dataloader __init__", start)) is ROWS["process-started"]


def test_shares_lines_and_faults() -> None:
    zipped = written("std/zipfile/__init__ _RealGetContents", "std/zipfile/__init__ __init__")
    elsewhere = (*zipped[:2], Frame("/home/me/project/data.py", "60", "mask"), *USER)
    decoded = written("PIL/ImageFile load")
    running = ThreadState.RUNNING
    counted: list[tuple[Sequence[Frame], ThreadState, int]] = [
        (zipped, running, 30),
        (elsewhere, ThreadState.DISK, 10),
        (decoded, running, 45),
        (USER, running, 15),
    ]
    first, second = costs_of(counted)
    assert (first.cost.id, first.samples, first.ratio) == ("image-decoded", 45, 0.45)
    assert not first.is_fault, "decoding must be done; at less than half it is not blamed"
    assert (second.cost.id, second.samples, second.ratio) == ("zip-reopened", 40, 0.4)
    assert (second.line, second.is_fault) == (USER[0], True)
    (sibling,) = costs_of([(zipped, running, 5), (USER, running, 95)])
    assert (sibling.ratio, sibling.is_fault) == (0.05, False)
    (alone,) = costs_of([(decoded[:1], running, 1)])
    assert (alone.line, alone.is_fault) == (None, True)
    assert costs_of([]) == []


# -- the table


def test_rows_are_whole() -> None:
    assert len(ROWS) == len(KNOWN_COSTS) >= 80
    for cost in KNOWN_COSTS:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", cost.id)
        assert 0 < cost.fault_ratio < 1
        assert pattern(cost.calls).pattern
        assert cost.inside == "" or pattern(cost.inside).pattern
        assert all(
            re.fullmatch(r"[\w./()|\\*+?\[\]-]+:[\w.()|\\*+?\[\]]+", item) for item in cost.calls.split()
        )


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_row_says_what_it_means_and_what_to_do(language: str) -> None:
    for cost in KNOWN_COSTS:
        for text in (cost.meaning, cost.advice):
            said = say(text, language)
            assert said != cost.id
            assert said.endswith("." if language == "en" else "。"), said
            longest = max(len(sentence.split()) for sentence in re.split(r"[.:;] ", said))
            assert longest <= 30, said


def test_the_docs_have_every_row() -> None:
    assert documented.FILE.read_text(encoding="utf-8") == documented.text(), "run `make docs`"

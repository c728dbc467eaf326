"""Known costs: what a sampled stack does that costs too much, and what to do instead.

A row of the table names functions of Python's library or of an installed package. A stack fits the row if
one of these functions is on it, further in than the user's innermost line. Functions in C, C++ or Rust have
no Python frame. The sampler names the one that the innermost line has called, as the source calls it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from typing import Final, Literal, TypeAlias

from loaderwatch.core.answers import Text
from loaderwatch.core.facts import NATIVE_FILE
from loaderwatch.core.records import ThreadState
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.measures.stacks import Frame, user_frame

NEEDLESS_RATIO: Final = threshold(
    0.1,
    "ratio",
    "chosen: nearly all of this work can go, and a tenth of the time is a warning elsewhere, too",
)
REDUCIBLE_RATIO: Final = threshold(
    0.2, "ratio", "chosen: at least half of this work can go, so a fix saves the tenth that is a warning"
)
NECESSARY_RATIO: Final = threshold(
    0.5, "ratio", "chosen: the work must be done somewhere; no other line can save more from this share on"
)

Per: TypeAlias = Literal["sample", "batch", "epoch"]

COMPUTING: Final = frozenset({ThreadState.RUNNING, ThreadState.RUNNABLE, ThreadState.LOCK})
"""States of a thread that computes. Native code that ends waits for the interpreter's lock."""
_NETWORK: Final = frozenset({ThreadState.NETWORK})
_REMOTE: Final = frozenset({ThreadState.NETWORK, ThreadState.LOCK})  # a lock: another thread asks the server
_TIMER: Final = frozenset({ThreadState.TIMER})
_PIPE: Final = frozenset({ThreadState.PIPE})


@dataclass(frozen=True, slots=True)
class KnownCost:
    """A row of the table.

    ``calls``: items "file:functions", separated by spaces. Both are regular expressions. A file has no ending
    and begins below "site-packages"; after "std/" it begins in the folder of Python's own library. The
    functions of "native:" are dotted names, with the full names of imported modules.
    """

    id: str  # its message in the catalogues has the same id, with the parts "meaning" and "advice"
    library: str
    calls: str
    fault_ratio: float  # the share of a fetch, step, evaluation or boundary from which it is a fault
    per: Per = "sample"
    states: frozenset[ThreadState] = frozenset()  # what the thread does meanwhile; empty: anything
    inside: str = ""  # a call, as in ``calls``, that must be further out on the stack
    direct: bool = False  # only if the user's own code calls it, not another package

    @property
    def meaning(self) -> Text:
        """What the call does, as a sentence."""
        return Text(self.id, {}, "meaning")

    @property
    def advice(self) -> Text:
        """What to change, and why that helps."""
        return Text(self.id, {}, "advice")


@dataclass(frozen=True, slots=True)
class CostShare:
    """How much of the sampled time a known cost takes."""

    cost: KnownCost
    samples: int
    ratio: float  # of all samples
    line: Frame | None  # the user's line that most often leads to it; None without code of the user

    @property
    def is_fault(self) -> bool:
        """Whether the share reaches the row's limit."""
        return self.ratio >= self.cost.fault_ratio


CONTAINERS: Final = (
    KnownCost(
        "hub-dataset-loaded",
        "datasets",
        r"datasets/load:load_dataset|load_from_disk|load_dataset_builder",
        NEEDLESS_RATIO,
    ),
    KnownCost("xarray-reopened", "xarray", r"xarray/backends/\w+:(open|load)_\w+", NEEDLESS_RATIO),
    KnownCost(
        "parquet-file-read",
        "pyarrow, pandas",
        "pyarrow/parquet(/core)?:read_table|read_pandas pandas/io/parquet:read_parquet",
        REDUCIBLE_RATIO,
    ),
    KnownCost(
        "parquet-reopened",
        "pyarrow",
        "pyarrow/parquet(/core)?:__init__|read_metadata|read_schema",
        NEEDLESS_RATIO,
    ),
    KnownCost(
        "parquet-row-group-read",
        "pyarrow",
        "pyarrow/parquet(/core)?:read_row_groups?|iter_batches|read",
        NECESSARY_RATIO,
    ),
    KnownCost(
        "npz-member-read",
        "numpy",
        "numpy/lib/(_npyio_impl|npyio):zipfile_factory|__getitem__",
        REDUCIBLE_RATIO,
    ),
    KnownCost(
        "text-array-parsed",
        "numpy",
        "numpy/lib/(_npyio_impl|npyio):loadtxt|genfromtxt",
        NEEDLESS_RATIO,
    ),
    KnownCost("npy-read-whole", "numpy", "numpy/lib/(_npyio_impl|npyio):load", REDUCIBLE_RATIO),
    KnownCost("tensor-file-read", "torch", "torch/serialization:load", REDUCIBLE_RATIO),
    KnownCost(
        "zip-reopened",
        "zipfile",
        "std/zipfile(/__init__)?:_RealGetContents|_EndRecData|_EndRecData64",
        NEEDLESS_RATIO,
    ),
    KnownCost(
        "zip-member-decompressed",
        "zipfile",
        "std/zipfile(/__init__)?:_read1|_update_crc",
        REDUCIBLE_RATIO,
        states=COMPUTING,
    ),
    KnownCost("tar-scanned", "tarfile", "std/tarfile:_load|getnames", NEEDLESS_RATIO),
    KnownCost("tar-member-searched", "tarfile", "std/tarfile:_?getmember|getmembers", NEEDLESS_RATIO),
    KnownCost(
        "tar-reopened",
        "tarfile",
        r"std/tarfile:(open|taropen|gzopen|bz2open|xzopen)",
        NEEDLESS_RATIO,
    ),
    KnownCost("hdf5-reopened", "h5py", r"h5py/_hl/files:make_f\w+|__init__|close", NEEDLESS_RATIO),
    KnownCost(
        "hdf5-object-looked-up",
        "h5py",
        "h5py/_hl/group:__getitem__|get|__contains__|__iter__ h5py/_hl/attrs:__getitem__",
        REDUCIBLE_RATIO,
    ),
    KnownCost(
        "hdf5-chunk-read", "h5py", "h5py/_hl/dataset:__getitem__|read_direct|__array__", NECESSARY_RATIO
    ),
    KnownCost(
        "zarr-reopened",
        "zarr",
        r"zarr/(api/synchronous|convenience|creation|hierarchy):(open|open_\w+|load)",
        NEEDLESS_RATIO,
    ),
    KnownCost("zarr-chunk-read", "zarr", r"zarr/core(/array)?:__getitem__|get_\w*selection", NECESSARY_RATIO),
)

REMOTE: Final = (
    KnownCost(
        "request-retried",
        "urllib3, tenacity, backoff, botocore, huggingface_hub",
        r"urllib3/util/retry:sleep|_sleep_backoff|sleep_for_retry tenacity/nap:sleep backoff/_sync:retry"
        r" botocore/endpoint:_needs_retry huggingface_hub/utils/_http:\w*http_backoff\w*",
        NEEDLESS_RATIO,
        states=_TIMER,
    ),
    KnownCost(
        "hub-file-checked",
        "huggingface_hub",
        r"huggingface_hub/file_download:hf_hub_download|_hf_hub_download_\w+|get_hf_file_metadata",
        NEEDLESS_RATIO,
    ),
    KnownCost(
        "cloud-client-created",
        "boto3, google-cloud-storage",
        r"boto3(/__init__|/session):client|resource|__init__|_get_default_session"
        r" botocore/session:create_client google/cloud/storage/client:__init__",
        NEEDLESS_RATIO,
    ),
    KnownCost(
        "database-connected",
        "SQLAlchemy, PyMySQL, psycopg, redis",
        "sqlalchemy/pool/base:__connect pymysql/connections:connect psycopg/connection:connect"
        " redis/connection:connect",
        NEEDLESS_RATIO,
    ),
    KnownCost(
        "database-queried",
        "SQLAlchemy, PyMySQL, psycopg, redis",
        "sqlalchemy/engine/default:do_execute pymysql/cursors:execute psycopg/cursor:execute"
        r" redis/client:_?execute_command"
        r" native:([\w.]*[._])?(cur|cursor|con|conn|connection|db|database)\.(execute\w*|fetch\w+|commit)",
        REDUCIBLE_RATIO,
    ),
    KnownCost(
        "certificates-loaded",
        "ssl, urllib3, httpx",
        "std/ssl:create_default_context|_create_unverified_context|load_default_certs"
        " urllib3/util/ssl_:create_urllib3_context httpx/_config:create_ssl_context",
        NEEDLESS_RATIO,
    ),
    KnownCost(
        "tls-handshake",
        "ssl, urllib3, httpx",
        "std/ssl:do_handshake|wrap_socket httpcore/_backends/sync:start_tls"
        " urllib3/util/ssl_:ssl_wrap_socket|_ssl_wrap_socket_impl",
        NEEDLESS_RATIO,
    ),
    KnownCost(
        "connection-opened",
        "socket, http, urllib3, httpx",
        "std/socket:create_connection|getaddrinfo std/http/client:connect"
        " urllib3/connection:_new_conn|connect urllib3/util/connection:create_connection"
        " httpcore/_backends/sync:connect_tcp",
        NEEDLESS_RATIO,
    ),
    KnownCost(
        "cloud-object-awaited",
        "botocore, s3transfer",
        r"botocore/(httpsession|response):(send|read|readinto) s3transfer/futures:result",
        REDUCIBLE_RATIO,
        states=_REMOTE,
    ),
    KnownCost(
        "remote-file-awaited",
        "fsspec, s3fs, gcsfs",
        "fsspec/asyn:sync fsspec/spec:read|readinto|cat_file",
        REDUCIBLE_RATIO,
        states=_REMOTE,
    ),
    KnownCost(
        "shard-pipe-awaited", "webdataset", "webdataset/gopen:read|readLine", NECESSARY_RATIO, states=_PIPE
    ),
    KnownCost(
        "http-answer-awaited",
        "http, requests, urllib3, httpx",
        r"std/http/client:begin|_read_status|read|readinto|_safe_read"
        r" httpcore/_sync/http11:_receive_\w+ httpcore/_backends/sync:read",
        REDUCIBLE_RATIO,
        states=_NETWORK,
    ),
)

PICTURES: Final = (
    KnownCost("thumbnail-made", "Pillow", "PIL/Image:thumbnail", NECESSARY_RATIO),
    KnownCost("image-decoded", "Pillow", "PIL/ImageFile:load", NECESSARY_RATIO, states=COMPUTING),
    KnownCost(
        "image-decoded-torchvision",
        "torchvision",
        r"torchvision/io/image:(read_image|decode_\w+)",
        NECESSARY_RATIO,
        states=COMPUTING,
    ),
    KnownCost("video-scanned", "torchcodec", "torchcodec/decoders/_video_decoder:__init__", REDUCIBLE_RATIO),
    KnownCost(
        "video-decoded",
        "torchcodec",
        r"torchcodec/decoders/_video_decoder:(get_\w+|__getitem__)",
        NECESSARY_RATIO,
    ),
    KnownCost("video-scanned-decord", "decord", "decord/video_reader:__init__", REDUCIBLE_RATIO),
    KnownCost(
        "video-decoded-decord",
        "decord",
        r"decord/video_reader:(get_batch|__getitem__|next|seek\w*|skip_frames)",
        NECESSARY_RATIO,
    ),
    KnownCost(
        "video-read-torchvision",
        "torchvision",
        r"torchvision/io/video:(read_video\w*|_read_from_stream)"
        r" torchvision/io/video_reader:(__next__|__init__|seek) torchvision/datasets/video_utils:\w+",
        NECESSARY_RATIO,
    ),
    KnownCost(
        "image-read-imageio",
        "imageio",
        "imageio/(__init__|v2|v3):imread|imiter|get_reader|mimread|volread",
        NECESSARY_RATIO,
    ),
    KnownCost("image-resized-skimage", "scikit-image", r"skimage/transform/\w+:\w+", REDUCIBLE_RATIO),
    KnownCost("tiff-read-whole", "tifffile", "tifffile/tifffile:imread|asarray", REDUCIBLE_RATIO),
    KnownCost(
        "volume-read-whole",
        "nibabel",
        r"nibabel/dataobj_images:get_f?data nibabel/arrayproxy:__array__|_?get_\w*scaled",
        REDUCIBLE_RATIO,
    ),
    KnownCost(
        "dicom-read",
        "pydicom",
        r"pydicom/filereader:dcmread|read_partial|read_dataset"
        r" pydicom/dataset:pixel_array|_?convert_pixel_data\w* pydicom/pixels/\w+(/\w+)?:\w+",
        NECESSARY_RATIO,
    ),
    KnownCost(
        "image-resized-torchvision",
        "torchvision",
        r"torchvision/transforms/(v2/)?\w+(/\w+)?:_?(resize|resized_crop)\w*",
        NECESSARY_RATIO,
    ),
    KnownCost(
        "image-to-float",
        "torchvision",
        "torchvision/transforms/functional:to_tensor|convert_image_dtype",
        REDUCIBLE_RATIO,
    ),
    KnownCost(
        "image-transformed-torchvision",
        "torchvision",
        r"torchvision/transforms/(v2/)?\w+(/\w+)?:\w+",
        NECESSARY_RATIO,
    ),
    KnownCost(
        "image-transformed-albumentations", "albumentations", r"albumentations/[\w/]+:\w+", NECESSARY_RATIO
    ),
    KnownCost("array-resampled-scipy", "scipy", r"scipy/ndimage/\w+:\w+", REDUCIBLE_RATIO),
    KnownCost("pixels-read-singly", "Pillow", "PIL/Image:getpixel|putpixel|getdata|putdata", NEEDLESS_RATIO),
    KnownCost("image-resized", "Pillow", "PIL/Image:resize|reduce", REDUCIBLE_RATIO),
    KnownCost(
        "image-transformed",
        "Pillow",
        r"PIL/Image:filter|rotate|transform|transpose|crop|point|paste"
        r" PIL/Image(Ops|Enhance|Filter|Chops):\w+",
        NECESSARY_RATIO,
    ),
)

SOUND: Final = (
    KnownCost(
        "audio-resampled",
        "librosa, torchaudio, scipy, resampy",
        "librosa/core/audio:resample resampy/core:resample"
        " scipy/signal/_?signaltools:resample(_poly)?|decimate"
        r" torchaudio/functional/functional:(resample|\w+_sinc_resample_kernel)",
        NEEDLESS_RATIO,
    ),
    KnownCost(
        "spectrogram-computed",
        "librosa",
        r"librosa/feature/spectral:\w+ librosa/core/spectrum:stft|_spectrogram|griffinlim|iirt",
        NECESSARY_RATIO,
    ),
    KnownCost("audio-loaded-librosa", "librosa", r"librosa/core/audio:load|__\w+_load", REDUCIBLE_RATIO),
    KnownCost("audio-decoded-pydub", "pydub", r"pydub/audio_segment:from_\w+", NEEDLESS_RATIO),
    KnownCost(
        "audio-decoded",
        "torchaudio, torchcodec",
        r"torchaudio/_backend/\w+:load\w* torchaudio/_torchcodec:load_with_torchcodec"
        r" torchcodec/decoders/_audio_decoder:get_\w+",
        NECESSARY_RATIO,
    ),
    KnownCost("audio-read", "soundfile", "soundfile:read|_array_io|_cdata_io|_open", NECESSARY_RATIO),
    KnownCost(
        "audio-features-extracted",
        "transformers",
        r"transformers/models/\w+/feature_extraction_\w+:\w+ transformers/audio_utils:\w+",
        NECESSARY_RATIO,
    ),
)

WORDS: Final = (
    KnownCost(
        "pretrained-loaded",
        "transformers",
        r"transformers/[\w/]+:_?from_pretrained",
        NEEDLESS_RATIO,
    ),
    KnownCost(
        "chat-template-rendered",
        "transformers",
        r"transformers/utils/chat_template_utils:\w+",
        REDUCIBLE_RATIO,
    ),
    KnownCost(
        "text-tokenized-in-python",
        "transformers",
        r"transformers/tokenization_(utils|python):\w+",
        REDUCIBLE_RATIO,
    ),
    KnownCost(
        "tokens-padded",
        "transformers",
        r"transformers/tokenization_utils_base:_?pad transformers/data/data_collator:\w+",
        REDUCIBLE_RATIO,
        per="batch",
    ),
    KnownCost(
        "text-tokenized",
        "transformers, tiktoken, sentencepiece",
        r"transformers/tokenization_utils_\w+:(__call__|encode\w*|_?batch_encode_plus|_encode_plus|tokenize)"
        r" tiktoken/core:encode\w* sentencepiece/__init__:_?Encode\w*",
        NECESSARY_RATIO,
    ),
    KnownCost(
        "image-processed",
        "transformers",
        r"transformers/(models/\w+/)?image_processing_\w+:\w+ transformers/image_transforms:\w+",
        NECESSARY_RATIO,
    ),
    KnownCost("feature-decoded", "datasets", r"datasets/features/\w+:decode_\w+", NECESSARY_RATIO),
    KnownCost(
        "arrow-indices-mapped",
        "datasets",
        "datasets/formatting/formatting:_query_table_with_indices_mapping",
        REDUCIBLE_RATIO,
    ),
    KnownCost(
        "arrow-row-formatted",
        "datasets",
        r"datasets/formatting/\w+:\w+ datasets/arrow_dataset:_getitem|__getitems?__ datasets/table:fast_\w+",
        NECESSARY_RATIO,
    ),
    KnownCost(
        "yaml-parsed",
        "PyYAML",
        r"yaml/(__init__|constructor|composer|parser|scanner|reader):\w+",
        NEEDLESS_RATIO,
    ),
    KnownCost(
        "xml-parsed",
        "xml",
        r"std/xml/etree/ElementTree:(parse|fromstring|XML|iterparse) std/xml/dom/\w+:\w+",
        REDUCIBLE_RATIO,
    ),
    KnownCost(
        "json-parsed",
        "json",
        r"std/json(/__init__)?:loads? std/json/decoder:\w+",
        REDUCIBLE_RATIO,
        direct=True,
    ),
    KnownCost("csv-parsed", "csv", "std/csv:__next__|sniff|has_header", REDUCIBLE_RATIO, direct=True),
    KnownCost(
        "regex-compiled",
        "re",
        r"std/(re/_compiler|sre_compile):compile std/(re/_parser|sre_parse):parse",
        NEEDLESS_RATIO,
        direct=True,
    ),
    KnownCost(
        "regex-applied",
        "re",
        "std/re(/__init__)?:subn?|split|findall|finditer|search|match|fullmatch",
        REDUCIBLE_RATIO,
        direct=True,
    ),
)

TABLES_IN_MEMORY: Final = (
    KnownCost(
        "table-file-read",
        "pandas",
        r"pandas/io/[\w/]+:read_\w+",
        NEEDLESS_RATIO,
    ),
    KnownCost(
        "table-rows-iterated", "pandas", r"pandas/core/frame:iterrows|itertuples|apply", NEEDLESS_RATIO
    ),
    KnownCost(
        "table-searched",
        "pandas",
        "pandas/core/frame:_getitem_bool_array|query|merge|sort_values"
        " pandas/core/arraylike:__(eq|ne|lt|le|gt|ge)__"
        r" pandas/core/groupby/\w+:\w+ pandas/core/generic:groupby",
        NEEDLESS_RATIO,
    ),
    KnownCost(
        "table-row-taken",
        "pandas",
        r"pandas/core/indexing:\w+ pandas/core/(frame|series):__getitem__|_ixs pandas/core/generic:xs|take",
        NEEDLESS_RATIO,
    ),
    KnownCost(
        "array-grown",
        "numpy",
        "numpy/lib/(_function_base_impl|function_base):append|insert|delete"
        r" numpy/_?core/shape_base:vstack|hstack|stack|block native:numpy\.(concatenate|append)",
        REDUCIBLE_RATIO,
    ),
)

PYTHON: Final = (
    KnownCost("manager-asked", "multiprocessing", "std/multiprocessing/managers:_callmethod", NEEDLESS_RATIO),
    KnownCost(
        "objects-copied",
        "copy",
        r"std/copy:(deepcopy|_deepcopy_\w+|_reconstruct)",
        REDUCIBLE_RATIO,
        direct=True,
    ),
    KnownCost(
        "compressed-file-sought",
        "gzip, bz2, lzma",
        "std/(gzip|bz2|lzma|_compression|compression/_common/_streams):seek|_rewind|rewind",
        NEEDLESS_RATIO,
    ),
    KnownCost(
        "slow-format-decompressed",
        "bz2, lzma",
        r"std/(bz2|lzma):(read\w*|decompress|__next__|peek) native:(bz2|lzma)\.decompress",
        REDUCIBLE_RATIO,
    ),
    KnownCost(
        "gzip-decompressed",
        "gzip",
        r"std/gzip:(read\w*|decompress|_read_\w+|peek)",
        REDUCIBLE_RATIO,
        states=COMPUTING,
    ),
    KnownCost(
        "log-written",
        "logging",
        r"std/logging/(__init__|handlers):(emit|flush|callHandlers|findCaller|makeRecord|format\w*)",
        NEEDLESS_RATIO,
    ),
    KnownCost(
        "warning-written",
        "warnings",
        r"std/(_py_)?warnings:_showwarnmsg\w*|showwarning|_formatwarnmsg\w*",
        NEEDLESS_RATIO,
    ),
    KnownCost(
        "workers-restarted",
        "torch",
        "std/multiprocessing/process:start",
        NEEDLESS_RATIO,
        per="epoch",
        inside="torch/utils/data/dataloader:__init__",
    ),
    KnownCost(
        "workers-ended", "torch", "torch/utils/data/dataloader:_shutdown_workers", NEEDLESS_RATIO, per="epoch"
    ),
    KnownCost(
        "process-pool-started",
        "multiprocessing, concurrent.futures, joblib",
        r"std/multiprocessing/pool:__init__|_repopulate_pool\w*|terminate|_terminate_pool|join"
        r" std/concurrent/futures/process:(_spawn_process|_launch_processes|_adjust_process_count|shutdown)"
        r" joblib/externals/loky/[\w/]+:(_adjust_process_count|shutdown|get_memmapping_executor)",
        NEEDLESS_RATIO,
    ),
    KnownCost(
        "process-started",
        "subprocess, multiprocessing, os",
        "std/subprocess:_execute_child|run|communicate|wait|check_output std/os:popen"
        " std/multiprocessing/process:start|join",
        NEEDLESS_RATIO,
    ),
    KnownCost(
        "threads-started",
        "threading, concurrent.futures",
        "std/threading:start std/concurrent/futures/thread:_adjust_thread_count",
        NEEDLESS_RATIO,
    ),
    KnownCost(
        "pool-awaited",
        "concurrent.futures, multiprocessing, joblib",
        "std/concurrent/futures/_base:result|wait|as_completed|result_iterator"
        " std/concurrent/futures/thread:shutdown"
        " std/multiprocessing/pool:get|wait|next joblib/parallel:_?retrieve|_get_outputs",
        NECESSARY_RATIO,
    ),
    KnownCost(
        "function-compiled",
        "numba",
        r"numba/core/dispatcher:(compile|_compile_for_args)",
        NEEDLESS_RATIO,
        per="epoch",
    ),
    KnownCost(
        "module-imported",
        "importlib",
        "std/importlib/_bootstrap:_find_and_load",
        NEEDLESS_RATIO,
        per="epoch",
    ),
    KnownCost(
        "file-copied",
        "shutil",
        r"std/shutil:(copy\w*|_fastcopy_\w+|move|unpack_archive|rmtree|_rmtree_\w+)",
        NEEDLESS_RATIO,
    ),
    KnownCost(
        "directory-listed",
        "os, glob, pathlib",
        r"std/os:walk|_walk|fwalk std/glob:\w+"
        r" std/pathlib(/\w+)?:(r?glob|iterdir|walk|_select_from|_iterate_directories)"
        r" native:os\.(listdir|scandir)",
        NEEDLESS_RATIO,
    ),
    KnownCost(
        "file-status-asked",
        "os.path, pathlib",
        "std/genericpath:exists|isfile|isdir|getsize|getmtime std/posixpath:realpath|_joinrealpath|lexists"
        r" std/pathlib(/\w+)?:exists|is_file|is_dir|stat|resolve native:os\.(l?stat|access)",
        NEEDLESS_RATIO,
    ),
)

BATCHES: Final = (
    KnownCost(
        "numbers-collated",
        "torch",
        r"torch/utils/data/_utils/collate:collate_(float|int|numpy_scalar)_fn",
        REDUCIBLE_RATIO,
        per="batch",
    ),
    KnownCost(
        "samples-stacked",
        "torch",
        r"torch/utils/data/_utils/collate:collate_(tensor|numpy_array)_fn",
        REDUCIBLE_RATIO,
        per="batch",
    ),
    KnownCost(
        "nested-sample-collated",
        "torch",
        "torch/utils/data/_utils/collate:collate|default_collate|default_convert",
        REDUCIBLE_RATIO,
        per="batch",
    ),
    KnownCost(
        "memory-cache-emptied",
        "torch, accelerate, lightning",
        r"torch/cuda/memory:empty_cache accelerate/utils/memory:(clear_device_cache|release_memory)"
        r" (pytorch_lightning|lightning/pytorch)/utilities/memory:garbage_collection_cuda",
        NEEDLESS_RATIO,
        per="batch",
    ),
    KnownCost(
        "progress-bar-drawn", "tqdm", r"tqdm/std:refresh|display|update|print_status", NEEDLESS_RATIO, "batch"
    ),
    KnownCost(
        "metrics-logged",
        "tensorboard, wandb",
        r"torch/utils/tensorboard/\w+:\w+ tensorboard/summary/writer/\w+:\w+ wandb/sdk/wandb_run:log|_log",
        NEEDLESS_RATIO,
        per="batch",
    ),
)

NATIVE_CALLS: Final = (
    KnownCost("sleep-called", "time", r"native:time\.sleep", NEEDLESS_RATIO),
    KnownCost("garbage-collected", "gc", r"native:gc\.collect", NEEDLESS_RATIO),
    KnownCost("file-forced-to-disk", "os", r"native:os\.(fsync|fdatasync|sync)", NEEDLESS_RATIO),
    KnownCost("lmdb-reopened", "lmdb", r"native:lmdb\.(open|Environment)", NEEDLESS_RATIO),
    KnownCost(
        "video-opened", "PyAV, OpenCV", r"native:av(\.container)?\.open|cv2\.VideoCapture", REDUCIBLE_RATIO
    ),
    KnownCost("image-decoded-opencv", "OpenCV", r"native:cv2\.(imread|imdecode)", NECESSARY_RATIO),
    KnownCost(
        "checksum-computed",
        "hashlib, zlib",
        r"native:hashlib\.\w+|zlib\.(crc32|adler32)",
        NEEDLESS_RATIO,
    ),
    KnownCost(
        "objects-unpickled", "pickle", r"native:(_?pickle|cPickle|dill|marshal)\.loads?", REDUCIBLE_RATIO
    ),
    KnownCost("tensor-made-of-numbers", "torch", r"native:torch\.(tensor|\w*Tensor)", REDUCIBLE_RATIO),
    KnownCost(
        "tensors-joined",
        "torch",
        r"native:torch\.(cat|concat|concatenate|stack|hstack|vstack)",
        REDUCIBLE_RATIO,
    ),
    KnownCost("file-opened", "io, os", r"native:(io\.|os\.)?open", REDUCIBLE_RATIO),
)

KNOWN_COSTS: Final = (
    *CONTAINERS,
    *SOUND,
    *WORDS,
    *TABLES_IN_MEMORY,
    *REMOTE,
    *PICTURES,
    *BATCHES,
    *PYTHON,
    *NATIVE_CALLS,
)
"""All rows in order of precedence: a call of a library before the work that it consists of."""

_STANDARD: Final = r"(?:.*/lib(?:64)?/python[\d.]+t?/|[A-Za-z]:/.*[Ll]ib/)"
_INSTALLED: Final = r"(?:.*/(?:site|dist)-packages/)"
_INSTALLED_FILE: Final = re.compile(_INSTALLED)


@lru_cache
def pattern(calls: str) -> re.Pattern[str]:
    """Return the expression for the calls of a row. It matches "file:function" as ``_place`` writes it."""
    items = [item.split(":", 1) for item in calls.split()]
    return re.compile(
        "|".join(
            f"{NATIVE_FILE}:(?:{functions})"
            if file == "native"
            else rf"{_STANDARD if file.startswith('std/') else _INSTALLED}"
            rf"(?:{file.removeprefix('std/')})\.py:(?:{functions})"
            for file, functions in items
        )
    )


def known_cost(frames: Sequence[Frame], state: ThreadState | None = None) -> KnownCost | None:
    """Return the first row that fits a stack (innermost frame first); None if no row fits.

    ``state``: what the thread did. Rows that name states fit only if it is known.
    """
    library = tuple(takewhile(lambda frame: frame.library, frames))
    of_frames = [_rows_of(frame.file, frame.function) for frame in library]
    fitting = frozenset[int]().union(*of_frames)
    if not fitting:
        return None
    called_by_user = frozenset[int]()
    if len(library) < len(frames):
        outermost = len(library)
        while outermost and not _INSTALLED_FILE.match(_place(library[outermost - 1].file, "")):
            outermost -= 1
        called_by_user = called_by_user.union(*of_frames[outermost:])
    for row in sorted(fitting):
        cost = KNOWN_COSTS[row]
        if (
            (not cost.states or state in cost.states)
            and (not cost.direct or row in called_by_user)
            and (not cost.inside or _is_inside(cost, library))
        ):
            return cost
    return None


def costs_of(counted: Iterable[tuple[Sequence[Frame], ThreadState, int]]) -> list[CostShare]:
    """Return the share of each known cost, the largest first.

    Args:
        counted: stacks (innermost frame first), what the thread did, and how many samples had both.
    """
    total = 0
    lines: dict[KnownCost, Counter[Frame | None]] = {}
    for frames, state, samples in counted:
        total += samples
        cost = known_cost(frames, state)
        if cost is not None and samples > 0:
            lines.setdefault(cost, Counter())[user_frame(frames)] += samples
    shares = [
        CostShare(cost, of_cost.total(), of_cost.total() / total, of_cost.most_common(1)[0][0])
        for cost, of_cost in lines.items()
    ]
    return sorted(shares, key=lambda share: -share.samples)


def _is_inside(cost: KnownCost, library: Sequence[Frame]) -> bool:
    """Whether the outer call of a row is further out than its inner one."""
    places = [_place(frame.file, frame.function) for frame in library]
    innermost = next(depth for depth, place in enumerate(places) if pattern(cost.calls).fullmatch(place))
    return any(pattern(cost.inside).fullmatch(place) for place in places[innermost + 1 :])


@lru_cache(maxsize=8192)
def _rows_of(file: str, function: str) -> frozenset[int]:
    """Return the rows whose calls include this function."""
    place = _place(file, function)
    return frozenset(index for index, cost in enumerate(KNOWN_COSTS) if pattern(cost.calls).fullmatch(place))


def _place(file: str, function: str) -> str:
    """Return "file:function" with slashes. A qualified name loses its class.

    Python keeps some of its modules frozen in its program file: "<frozen os>" is its os.py.
    """
    if file.startswith("<frozen "):
        file = f"/lib/python3/{file[8:-1].replace('.', '/')}.py"
    if file == NATIVE_FILE:
        return f"{file}:{function}"
    file = file.replace("\\", "/")
    return f"{file}:{function.rpartition('.')[2]}"

"""Redaction: paths, messages and arguments of a run are replaced before they leave the host.

Only what a diagnosis needs stays: line numbers, names of functions and classes, types of exceptions, sample
indices, frames of Python and of well-known public packages, and all numbers. Everything else is replaced by a
short form, which is the same for the same file (``path-5c1f09/file-3f2a91.py``), or dropped. Only known
harmless text is kept: a text of unknown form is dropped.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
import secrets
import sys
from pathlib import Path, PurePosixPath
from typing import Final, TypeVar

import msgspec

from loaderwatch.core.facts import (
    Call,
    FailedSample,
    FlightEntry,
    FlightGroup,
    GpuState,
    LoaderInfo,
    ProcessInfo,
    ProfileStack,
    StackDump,
)
from loaderwatch.core.files import private_folder, read_own
from loaderwatch.core.message import Text
from loaderwatch.core.wire import Envelope

log = logging.getLogger(__name__)

KEY_BYTES: Final = 32
DROPPED: Final = "<redacted>"

_PACKAGES: Final = """IPython PIL accelerate aiohttp albumentations av backoff boto3 botocore cv2
    datasets debugpy decord deepspeed einops fastai ffcv fsspec gcsfs google h5py httpcore httpx
    huggingface_hub imageio ipdb ipykernel joblib jupyter_client kornia librosa lightning litdata lmdb
    loaderwatch matplotlib mmap_ninja monai msgspec multiprocess nibabel numba numpy nvidia pandas peft
    polars psycopg pudb pyarrow pydevd pydicom pydub pymysql pytorch_lightning ray redis requests resampy
    s3fs s3torchconnector s3transfer safetensors scipy sentencepiece skimage sklearn soundfile sqlalchemy
    tenacity tensorboard tensordict tensorstore tifffile tiktoken timm tokenizers torch torchaudio
    torchcodec torchdata torchmetrics torchrec torchtext torchvision tornado tqdm traitlets transformers
    triton urllib3 wandb webdataset xarray yaml zarr zmq"""
"""Packages whose names and files reveal nothing about their user."""
_PUBLIC: Final = frozenset(_PACKAGES.split())
_FILES: Final = """arrow bin bmp csv gif gz h5 hdf5 ipynb jpeg jpg json jsonl lmdb mp3 mp4 npy npz parquet pkl
    png pt pth py pyc pyx safetensors so tar tfrecord tgz tif tiff txt wav webp yaml yml zip zst"""
_ENDINGS: Final = frozenset(_FILES.split())
_INSTALLED: Final = re.compile(r"(?:site|dist)-packages[/\\](?P<rest>.+)$")
_STANDARD: Final = re.compile(r"[/\\]lib(?:64)?[/\\](?P<version>python3\.\d+t?)[/\\](?P<rest>.+)$")
_FOLDERS: Final = "doctor|hot|launcher|loaders|model|outbox|process|ring|samplers|workers"
_OURS: Final = re.compile(
    rf"[/\\]loaderwatch[/\\](?:agent|core|streamer)[/\\](?:(?:{_FOLDERS})[/\\])?[a-z_]+\.py$"
)
_DEBUGGER: Final = re.compile(r"[/\\]pydevd\w*\.py$")  # PyCharm's own copy
_NO_FILE: Final = re.compile(r"<(?:frozen [\w.]+|native|string|stdin)>")
_AnyStack = TypeVar("_AnyStack", StackDump, ProfileStack)

_FRAME: Final = re.compile(
    r'(?P<lead>\s*)File "(?P<file>[^"]*)", line (?P<line>\d+|\?\?\?) in (?P<function>.+?)\s*'
)
_THREAD: Final = re.compile(r"(?P<thread>(?:Current t|T)hread 0x[0-9a-fA-F]+)\b.*")
_HARMLESS_LINE: Final = re.compile(r"Stack \(most recent call first\):|\s*<no Python frame>|\s*\.\.\.|\s*")
_AT: Final = re.compile(r"(?P<file>[^/]+):(?P<line>\d+) in (?P<function>.+)")
_FUNCTION: Final = re.compile(r"[\w.<>]{1,200}")
_NAME: Final = re.compile(r"[\w .:+()\[\]#-]{1,200}")
_PATH: Final = re.compile(r"""(?:~|\.{1,2})?/[^\s'",;()\[\]]+|\b[A-Za-z]:\\[^\s'",;()\[\]]+""")
_SIGNAL: Final = (
    r"(?:Killed|Aborted|Terminated|Hangup|Interrupt|Quit|Bus error|Segmentation fault|Illegal instruction"
    r"|Floating point exception|User defined signal \d|Unknown signal \d+)"
)
_ENDED: Final = re.compile(r"(?:exit code -?\d+|SIG[A-Z0-9+]+)")
_UNCAUGHT: Final = re.compile(r"(?P<type>uncaught [\w.]{1,200})(?:: (?P<message>.*))?", re.DOTALL)
_SAID: Final = re.compile(
    rf"DataLoader worker \(pid(?:\(s\))? [\d, ]+\) (?:is killed by signal: {_SIGNAL}|exited unexpectedly)"
    r"|DataLoader timed out after \d+(?:\.\d+)? seconds|Caught \w+ in \w+(?: worker)? process \d+"
    r"|\[Errno \d+\]|insufficient shared memory"
    r"|unable to (?:write|resize|open|mmap|allocate) (?:shared memory|shm|file|to file|\d+ bytes)"
    r"|Bus error|No space left on device|Disk quota exceeded|unexpected pos \d+ vs \d+"
    r"|PytorchStreamWriter failed writing|Too many open files|received \d+ items of ancdata"
    r"|communication with the workers is no longer possible|(?:[Cc]an't|cannot) pickle"
    r"|Can't get (?:local )?(?:object|attribute)|Cannot re-initialize CUDA in forked subprocess"
    r"|initialization error|daemonic processes are not allowed to have children|bootstrapping phase"
    r"|freeze_support|CUDA out of memory|[Oo]ut of memory|Cannot allocate memory|CUDA error"
    r"|device-side assert triggered|NCCL error|No such file or directory|Permission denied"
    r"|Input/output error|Stale file handle|Broken pipe"
    r"|Connection (?:refused|reset by peer|closed by peer|timed out)|Timed out|timed out"
    r"|stack expects each tensor to be equal size|index out of range|list index out of range|division by zero"
)
"""Texts in messages of PyTorch, Python and the system that name nothing of the user, so they may stay."""


class Redaction:
    """Replaces names of people, files and data. One key gives one file the same short form everywhere.

    ``sharing``: for a recording that goes to others; names of hosts and of the run are replaced as well.
    """

    def __init__(self, key: bytes, *, sharing: bool = False) -> None:
        self._key = key
        self._sharing = sharing
        self._known: dict[str, str] = {}

    def envelope(self, envelope: Envelope) -> Envelope:
        """Return the envelope without anything that must not leave. Tables stay: they hold only numbers."""
        disk = envelope.host.filling_disk
        host = msgspec.structs.replace(
            envelope.host,
            gpu_status=self._without_paths(envelope.host.gpu_status),
            gpu_status_text=self._text_without_paths(envelope.host.gpu_status_text),
            filling_disk=self._short("path", disk) if disk and disk != "/" else disk,
        )
        envelope = msgspec.structs.replace(
            envelope,
            host=host,
            processes=[self._process(process) for process in envelope.processes],
            spans=[
                msgspec.structs.replace(span, phase_name=self._name(span.phase_name))
                for span in envelope.spans
            ],
            stacks=[self._stack(stack) for stack in envelope.stacks],
            profile_stacks=[self._stack(stack) for stack in envelope.profile_stacks],
            gpu_states=[_without_people(state) for state in envelope.gpu_states],
        )
        if not self._sharing:
            return envelope
        name = self._short("host", envelope.host.name)
        return msgspec.structs.replace(
            envelope,
            run_id=self.run_id(envelope.run_id),
            run_name=self.run_id(envelope.run_id),
            stream=self._short("stream", envelope.stream),
            host=msgspec.structs.replace(envelope.host, name=name, boot_id=None),
        )

    def run_id(self, run_id: str) -> str:
        """Return the id of the run in a shared recording."""
        return self._short("run", run_id)

    def path(self, path: str) -> str:
        """Return a path's short form; paths of Python and public packages keep the part from the package."""
        known = self._known.get(path)
        if known is None:
            known = self._known[path] = self._path(path)
            if not known.startswith(("/", "<")):
                log.info("%s stands for %s", known, path)
        return known

    # -- parts of an envelope

    def _process(self, process: ProcessInfo) -> ProcessInfo:
        more = len(process.argv) - 1
        argv = [self.path(argument) for argument in process.argv[:1]]
        return msgspec.structs.replace(
            process,
            name=process.name
            if process.name in ("", "python", "notebook")
            else self._file(process.name.rpartition(".")[2]),
            argv=argv + ([f"<{more} arguments redacted>"] if more > 0 else []),
            cwd=self._short("path", process.cwd) if process.cwd else "",
            exit=None if process.exit is None else last_words(process.exit),
            failed=process.failed and self._failed(process.failed),
            last_lines={},
            loaders=[self._loader(loader) for loader in process.loaders],
            phase_names=[self._name(name) or "" for name in process.phase_names],
            calls=[self._call(call) for call in process.calls],
            flight_dump=self.path(process.flight_dump) if process.flight_dump else process.flight_dump,
            flight=[self._group(group) for group in process.flight],
            thread_limits=process.thread_limits
            and {
                name: value if value.isalnum() else DROPPED for name, value in process.thread_limits.items()
            },
            backend=self._name(process.backend),
        )

    def _failed(self, failed: FailedSample) -> FailedSample:
        """Remove the words of the error, and text keys, which are often names of files."""
        return msgspec.structs.replace(
            failed,
            indices=[index for index in failed.indices if isinstance(index, int)],
            at=failed.at and self._call(failed.at),
            error="",
        )

    def _call(self, call: Call) -> Call:
        return msgspec.structs.replace(call, file=self.path(call.file), function=_function(call.function))

    def _loader(self, loader: LoaderInfo) -> LoaderInfo:
        return msgspec.structs.replace(
            loader,
            name=self._name(loader.name) or "",
            class_name=self._name(loader.class_name) or "",
            dataset_class=self._name(loader.dataset_class),
            sampler_class=self._name(loader.sampler_class),
            reader=self._name(loader.reader),
            reader_error=self._name(loader.reader_error),
        )

    def _group(self, group: FlightGroup) -> FlightGroup:
        entries = [
            msgspec.structs.replace(entry, what=self._name(entry.what) or "", at=self._at(entry))
            for entry in group.entries
        ]
        return msgspec.structs.replace(group, group=self._name(group.group) or "", entries=entries)

    def _at(self, entry: FlightEntry) -> str | None:
        place = _AT.fullmatch(entry.at or "")
        if place is None:
            return None
        stem, ending = os.path.splitext(place["file"])  # noqa: PTH122 - a name, not a path
        return f"{self._file(stem)}{_ending(ending)}:{place['line']} in {_function(place['function'])}"

    def _stack(self, stack: _AnyStack) -> _AnyStack:
        text = "\n".join(map(self._stack_line, stack.text.split("\n")))
        return msgspec.structs.replace(stack, text=text)

    def _stack_line(self, line: str) -> str:
        frame = _FRAME.fullmatch(line)
        if frame is not None:
            function = _function(frame["function"])
            return f'{frame["lead"]}File "{self.path(frame["file"])}", line {frame["line"]} in {function}'
        thread = _THREAD.fullmatch(line)
        if thread is not None:
            return f"{thread['thread']} (most recent call first):"
        return line if _HARMLESS_LINE.fullmatch(line) else f"  {DROPPED}"

    def _without_paths(self, text: str) -> str:
        return _PATH.sub(lambda path: self.path(path[0]), text)

    def _text_without_paths(self, text: Text | None) -> Text | None:
        """Return a message whose values are numbers and words without paths; other values are dropped."""
        if text is None:
            return None
        kept = {name: value for name, value in text.params.items() if isinstance(value, str | int | float)}
        cleaned = {
            name: self._without_paths(value) if isinstance(value, str) else value
            for name, value in kept.items()
        }
        return Text(text.id, {**dict.fromkeys(text.params), **cleaned}, text.part)

    def _name(self, name: str | None) -> str | None:
        """Return a name that can appear in code as it is; replace a name that may be a path or a text."""
        return name if name is None or _NAME.fullmatch(name) else self._short("name", name)

    # -- short forms

    def _path(self, path: str) -> str:
        if not path or _NO_FILE.fullmatch(path):
            return path
        installed = _INSTALLED.search(path)
        if installed is not None:
            package = re.split(r"[/\\.]", installed["rest"])[0]
            if package in _PUBLIC:
                return f"/site-packages/{installed['rest']}"
            return f"/site-packages/{self._short('package', package)}/{self._ended_file(path)}"
        standard = _STANDARD.search(path)
        if standard is not None and re.split(r"[/\\.]", standard["rest"])[0] in sys.stdlib_module_names:
            return f"/lib/{standard['version']}/{standard['rest']}"
        kept = _OURS.search(path) or _DEBUGGER.search(path)
        if kept is not None:
            return kept[0]
        folder = path.replace("\\", "/").rpartition("/")[0]
        file = self._ended_file(path)
        return f"{self._short('path', folder)}/{file}" if folder else file

    def _ended_file(self, path: str) -> str:
        name = PurePosixPath(path.replace("\\", "/"))
        return f"{self._file(name.stem)}{_ending(name.suffix)}"

    def _file(self, stem: str) -> str:
        return self._short("file", stem)

    def _short(self, kind: str, text: str) -> str:
        digest = hmac.new(self._key, f"{kind}\0{text}".encode("utf-8", "replace"), hashlib.sha256).hexdigest()
        return f"{kind}-{digest[:6]}"


def _without_people(state: GpuState) -> GpuState:
    processes = [msgspec.structs.replace(process, name=None, user=None) for process in state.processes]
    return msgspec.structs.replace(state, processes=processes)


def last_words(text: str) -> str:
    """Return how a process ended, without parts of an exception's message that may name files and samples."""
    if _ENDED.fullmatch(text):
        return text
    uncaught = _UNCAUGHT.fullmatch(text)
    if uncaught is None:
        return f"exit code {DROPPED}" if text.startswith("exit code ") else DROPPED
    if not uncaught["message"]:
        return uncaught["type"]
    harmless = list(dict.fromkeys(match[0] for match in _SAID.finditer(uncaught["message"])))
    return f"{uncaught['type']}: {', '.join([*harmless, DROPPED])}"


def load_key(path: Path) -> bytes:
    """Return this data directory's key, made on first use and readable by its owner only.

    If the key cannot be stored, each process uses its own key.
    """
    try:
        private_folder(path.parent)
        draft = path.with_name(f"{path.name}.{os.getpid()}.new")
        if not path.exists():
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(KEY_BYTES))
            try:
                os.link(draft, path)  # the first process wins
            except FileExistsError:
                pass
            finally:
                draft.unlink()
        key = read_own(path)
        if len(key) == KEY_BYTES:
            return key
        log.warning("%s does not hold %d bytes; delete it to get a new one", path, KEY_BYTES)
    except OSError as error:
        log.warning("%s cannot be used: %s", path, error)
    return secrets.token_bytes(KEY_BYTES)


def _function(name: str) -> str:
    return name if _FUNCTION.fullmatch(name) else DROPPED


def _ending(ending: str) -> str:
    return ending if ending[1:].lower() in _ENDINGS else ""

"""The errors that loaderwatch raises on purpose; a message names the thing, its value and the next move."""

from __future__ import annotations


class LoaderwatchError(Exception):
    """Base of every error that loaderwatch raises on purpose."""


class RingError(LoaderwatchError):
    """A ring file is not one of ours, is truncated, or has a layout that this version cannot read."""


class WireError(LoaderwatchError):
    """An envelope is malformed.

    Attributes:
        field: dotted path of the wrong field, e.g. ``tables.steps.wait_ns``.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field


class ConfigError(LoaderwatchError, ValueError):
    """A setting (environment variable, command-line option) has a value that cannot be used."""


class SampleTimeout(LoaderwatchError, TimeoutError):
    """Reading one sample took longer than ``attach(loader, sample_timeout=…)`` allows.

    PyTorch raises it again in the training process, with one string that contains the worker's traceback.
    """

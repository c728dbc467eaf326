"""How each language writes numbers, times, sizes and lists; catalogues call these functions by their names.

All take values in SI units: seconds, bytes, shares from 0 to 1. A value that is not finite is "unknown".
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from fluent.runtime.types import FluentNone

UNITS: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {"us": "µs", "ms": "ms", "s": "s", "min": "min", "h": "h"},
    "zh": {"us": "微秒", "ms": "毫秒", "s": "秒", "min": "分", "h": "小时"},
}
UNKNOWN: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {"time": "an unknown time", "bytes": "an unknown number of bytes", "count": "an unknown number"},
    "zh": {"time": "未知时间", "bytes": "未知字节数", "count": "未知数量"},
}


_CHINESE: Final = re.compile("[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]")
"""Characters without a space beside them."""
_STEPS_PER_S: Final = re.compile(r"每秒 (\S+) 步")
ANY_NUMBER: Final[Mapping[str, str]] = {"en": "any number", "zh": "任意多"}


class Unknown(FluentNone):
    """A parameter without a value: KNOWN detects it. As a number it is NaN, which JSON cannot store."""

    def __float__(self) -> float:
        return math.nan


def percent(ratio: float, language: str = "en") -> str:
    """Return a ratio as percent: 0.62 as "62 %" ("62%" in Chinese); below 2 % with one decimal digit."""
    value = float(ratio) * 100
    sign = "%" if language == "zh" else " %"
    return f"{value:.1f}{sign}" if 0 < value < 2 else f"{value:.0f}{sign}"


def duration(seconds: float, language: str = "en") -> str:
    """Return seconds as "12 µs", "0.4 ms", "118 ms", "2.4 s", "3 min 20 s" or "2 h 5 min"."""
    unit = UNITS[language]
    seconds = float(seconds)
    if not math.isfinite(seconds):
        return UNKNOWN[language]["time"]
    if 0 < seconds < 0.000095:
        return f"{max(1, round(seconds * 1e6))} {unit['us']}"
    if seconds < 0.0095:
        return f"{seconds * 1000:.1f} {unit['ms']}"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} {unit['ms']}"
    if seconds < 9.95:
        return f"{seconds:.1f} {unit['s']}"
    if seconds < 119.5:
        return f"{seconds:.0f} {unit['s']}"
    whole = round(seconds)
    if whole < 7200:
        return f"{whole // 60} {unit['min']} {whole % 60} {unit['s']}"
    return f"{whole // 3600} {unit['h']} {whole % 3600 // 60} {unit['min']}"


def whole_duration(seconds: float, language: str = "en") -> str:
    """Return a time in whole seconds: "8 s", "42 s", "3 min 20 s" or "2 h 5 min"."""
    seconds = float(seconds)
    if not math.isfinite(seconds) or round(seconds) >= 120:
        return duration(seconds, language)
    return f"{round(seconds)} {UNITS[language]['s']}"


def roughly(seconds: float, language: str = "en") -> str:
    """Return the time over which a share was measured: in whole seconds, above 12 s in steps of five."""
    rounded = 5 * round(seconds / 5) if seconds > 12 else max(1, round(seconds))
    return f"{rounded} {UNITS[language]['s']}"


def rate(per_second: float) -> str:
    """Return a rate per second, or other number, to the digits that matter: "0.42", "9.1", "24", "1,240"."""
    per_second = float(per_second)
    if per_second < 1:
        return f"{per_second:.2f}"
    if per_second < 10:
        return f"{per_second:.1f}"
    return f"{per_second:,.0f}"


def speed(per_second: float) -> str:
    """Return steps per second with one digit after the point, below one step with two: "24.0", "0.42"."""
    per_second = float(per_second)
    return f"{per_second:.{1 if per_second >= 1 else 2}f}"


def rate_of(each_s: float, language: str = "en") -> str:
    """Return the rate per second for a duration of each: "33", or "any number" for a duration of zero."""
    each_s = float(each_s)
    return ANY_NUMBER[language] if each_s == 0 else rate(1 / each_s)


def cpus(number: float, language: str = "en", noun: str = "CPU") -> str:
    """Return a number of CPUs, also a fraction: "1 CPU", "0.40 CPUs", "7.5 CPUs"."""
    number = float(number)
    if not math.isfinite(number):
        amount = UNKNOWN[language]["count"]
        return f"{amount}的 {noun}" if language == "zh" else f"{amount} of {noun}s"
    nearest = round(number)
    amount = str(nearest) if abs(number - nearest) < 0.05 and nearest else rate(number)
    if language == "zh":
        return f"{amount} 个{noun}" if _CHINESE.match(noun) else f"{amount} 个 {noun}"
    return f"{amount} {noun}" if amount == "1" else f"{amount} {noun}s"


def size(number: float, language: str = "en") -> str:
    """Return bytes as "640 B", "12 kB", "3.1 MB", "1.8 GB", in powers of 1000 like disk sizes."""
    number = float(number)
    if not math.isfinite(number):
        return UNKNOWN[language]["bytes"]
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= 0.9995 * scale:
            return f"{rate(number / scale)} {unit}"
    return f"{number:.0f} B"


def rough_size(number: float) -> str:
    """Return bytes as "640 kB", "14 MB", "1.7 GB", "28 GB", for estimates from varying batch sizes."""
    number = float(number)
    for unit, scale, digits in (("GB", 1e10, 0), ("GB", 1e9, 1), ("MB", 1e6, 0)):
        if number >= scale:
            return f"{number / (1e9 if unit == 'GB' else 1e6):.{digits}f} {unit}"
    return f"{number / 1e3:.0f} kB"


def megabytes(number: float) -> str:
    """Return bytes as whole megabytes: "200 MB"."""
    return f"{float(number) / 1e6:.0f} MB"


def mebibytes(number: float) -> str:
    """Return bytes in MiB, the unit of tools that limit memory: "24 MiB"."""
    return f"{rate(float(number) / 2**20)} MiB"


def megahertz(hz: float) -> str:
    """Return a frequency as whole megahertz: "1980 MHz"."""
    return f"{float(hz) / 1e6:.0f} MHz"


def listing(items: Sequence[str], language: str = "en", limit: int = 4) -> str:
    """Return items as "a", "a and b" or "a, b and c"; above ``limit`` items, the rest is a number."""
    chinese = language == "zh"
    if len(items) > limit:
        more = len(items) - limit + 1
        items = [*items[: limit - 1], f"另外 {more} 个" if chinese else f"{more} more"]
    if len(items) <= 1:
        return "".join(items)
    *first, last = items
    if not chinese:
        return f"{', '.join(first)} and {last}"
    before, after = ("" if _CHINESE.match(beside) else " " for beside in (first[-1][-1:], last))
    return f"{'、'.join(first)}{before}和{after}{last}"


def listing_of(words: str, language: str = "en", limit: int = 4) -> str:
    """Return words or numbers, separated by spaces, as a listing; its limit may be larger."""
    return listing(str(words).split(), language, int(limit))


def counted(number: float) -> str:
    """Return a whole number with a comma between thousands: "6,000,000"."""
    return f"{int(number):,}"


def decimal(number: float, digits: int = 1) -> str:
    """Return a number with so many digits after the point: "12.5"."""
    return f"{float(number):.{int(digits)}f}"


def whole(number: float) -> str:
    """Return a rounded number: "4711"."""
    return f"{float(number):.0f}"


def plain(number: float) -> str:
    """Return a number with only the digits that it has: "4", "2.5"."""
    return f"{float(number):g}"


def three_digits(number: float) -> str:
    """Return a number with three digits, never as a power of ten: "0.42", "12.1", "1,240"."""
    number = float(number)
    return f"{number:.3g}" if number < 999.5 else f"{number:,.0f}"


def signed(ratio: float, language: str = "en") -> str:
    """Return a change with its sign, as a percentage: "+12 %"."""
    ratio = float(ratio)
    return f"{'-' if ratio < 0 else '+'}{percent(abs(ratio), language)}"


def per_batch(said: str, language: str = "en") -> str:
    """Return a text on training steps as a text on evaluation batches: "48 steps/s" as "48 batches/s"."""
    if language == "zh":
        return _STEPS_PER_S.sub(r"每秒 \1 个批次", said).replace(" 步/秒", " 批次/秒")
    return said.replace(" steps/s", " batches/s")


def known(value: object) -> str:
    """Return "yes", or "no" for a value that is missing or not a number; variants depend on it."""
    unknown = isinstance(value, FluentNone) or (isinstance(value, float) and not math.isfinite(value))
    return "no" if unknown else "yes"


def _same(function: Callable[..., str]) -> Callable[[str], Callable[..., str]]:
    """Return a maker of the same function for every language."""
    return lambda language: function


def _of(function: Callable[..., str]) -> Callable[[str], Callable[..., str]]:
    """Return a maker of the function with a language filled in."""
    return lambda language: partial(function, language=language)


FUNCTIONS: Final[Mapping[str, Callable[[str], Callable[..., Any]]]] = {
    "DURATION": _of(duration),
    "WHOLE_DURATION": _of(whole_duration),
    "SIZE": _of(size),
    "PERCENT": _of(percent),
    "MEBIBYTES": _same(mebibytes),
    "ROUGHLY": _of(roughly),
    "RATE": _same(rate),
    "SPEED": _same(speed),
    "RATE_OF": _of(rate_of),
    "CPUS": _of(cpus),
    "LISTING": _of(listing_of),
    "COUNT": _same(counted),
    "DECIMAL": _same(decimal),
    "WHOLE": _same(whole),
    "PLAIN": _same(plain),
    "ROUGH_SIZE": _same(rough_size),
    "MEGABYTES": _same(megabytes),
    "MEGAHERTZ": _same(megahertz),
    "THREE_DIGITS": _same(three_digits),
    "SIGNED": _of(signed),
    "PER_BATCH": _of(per_batch),
    "KNOWN": _same(known),
}
"""The functions of catalogues by name, as makers that take a language."""

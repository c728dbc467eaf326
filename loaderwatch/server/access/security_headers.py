"""The Content-Security-Policy and the other security headers of every answer.

Scripts come only from our own files, never from text (``eval``, handlers in markup, ``javascript:`` links).
With Trusted Types not even our own scripts can turn text into markup. Style attributes in markup have no
effect, except for one known text; scripts may set styles. A style sheet is our own or a known empty one.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Final

_FILLED_LATER: Final = ""
"""The style sheet that Plotly creates empty and fills rule by rule."""

SHARP: Final = "".join(
    f"image-rendering: {value}; "
    for value in (
        *("optimizeSpeed", "-moz-crisp-edges", "-o-crisp-edges", "-webkit-optimize-contrast"),
        *("optimize-contrast", "crisp-edges", "pixelated"),
    )
)
"""The style that Plotly sets as text on heat maps with more cells than pixels, to prevent blurring."""


def headers() -> tuple[tuple[str, str], ...]:
    """Return the headers of pages, as names and values."""
    policy = (
        "default-src 'none'",
        "script-src 'self'",
        f"style-src 'self' {_hash(_FILLED_LATER)}",
        f"style-src-attr 'unsafe-hashes' {_hash(SHARP)}",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types loaderwatch",  # the policy in web/js/plotly.js allows the address of one script
    )
    return (
        ("content-security-policy", "; ".join(policy)),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        # "no-referrer" would make browsers send "Origin: null" with our own POSTs
        ("referrer-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    )


def answer_headers() -> tuple[tuple[str, str], ...]:
    """Return the headers of answers that are not pages. For scripts and style sheets, their page counts.

    A browser that shows such an answer as a page may load nothing for it.
    """
    return (
        ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
        ("x-content-type-options", "nosniff"),
        ("cross-origin-resource-policy", "same-origin"),
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

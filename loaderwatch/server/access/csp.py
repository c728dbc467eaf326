"""The Content-Security-Policy and the other security headers that every answer carries.

Scripts come only from our own files, never from text (``eval``, handlers in markup, ``javascript:`` links), and with
Trusted Types not even our own scripts can turn text into markup. Style attributes in markup have no effect, except for one
known text; scripts may set styles one by one. A style sheet is a file of ours or one of three known texts.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import re
from typing import Final

from loaderwatch.server.access.sign_in import STYLE

_SHEET: Final = re.compile(
    rb"""createElement\("style"\);\w+\.id="[0-9a-f]{64}",\w+\.textContent=('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
)
"""Matches the style sheets that Plotly makes when it is loaded, for maps that we do not draw."""

_SHARP: Final = re.compile(rb"""CSS_DECLARATIONS=(\[(?:\["[a-z-]+","[A-Za-z-]+"\],?)+\])""")
"""Matches the style that Plotly sets as a text on heat maps with more cells than pixels, whose image must not be blurred."""


def headers(plotly: bytes = b"") -> tuple[tuple[str, str], ...]:
    """Return the headers; ``plotly`` is the text of plotly.min.js, whose style sheets are allowed by their hashes."""
    # Plotly makes an empty style sheet, too, and fills it rule by rule.
    sheets = ["", STYLE, *(ast.literal_eval(found.decode()) for found in _SHEET.findall(plotly))]
    policy = (
        "default-src 'none'",
        "script-src 'self'",
        f"style-src 'self' {' '.join(_hash(sheet) for sheet in sheets)}",
        f"style-src-attr {_attributes(plotly)}",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types loaderwatch",  # the policy in web/js/plotly.js allows the address of one script
    )
    return (
        ("content-security-policy", "; ".join(policy)),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        (
            "referrer-policy",
            "same-origin",
        ),  # "no-referrer" would make browsers send "Origin: null" with our own POSTs
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    )


def _attributes(plotly: bytes) -> str:
    texts = (
        "".join(f"{name}: {value}; " for name, value in ast.literal_eval(found.decode()))
        for found in _SHARP.findall(plotly)
    )
    hashes = " ".join(map(_hash, texts))
    return f"'unsafe-hashes' {hashes}" if hashes else "'none'"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

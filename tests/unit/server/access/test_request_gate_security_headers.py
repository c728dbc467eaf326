"""The headers of every answer, for the Plotly that the page loads."""

from __future__ import annotations

import base64
import hashlib
import re

from loaderwatch.server.access.request_gate import SHARP, headers
from loaderwatch.server.page import find_web

PLOTLY = (find_web() / "vendor" / "plotly.min.js").read_text()


def _policy() -> dict[str, str]:
    directives = dict(headers())["content-security-policy"].split("; ")
    return {name: value for name, _, value in (directive.partition(" ") for directive in directives)}


def test_plotlys_own_texts_are_let_through_and_no_others() -> None:
    """An empty sheet and one style attribute, by their hashes: a new Plotly must not come with others."""
    (declared,) = re.findall(r"CSS_DECLARATIONS=\[(.+?)\]\]", PLOTLY)
    pairs = re.findall(r'\["([a-z-]+)","([A-Za-z-]+)"', declared + "]")
    assert "".join(f"{name}: {value}; " for name, value in pairs) == SHARP
    policy = _policy()
    assert policy["style-src-attr"] == "'unsafe-hashes' 'sha256-AR/cKIZjWPcPmBUPDA6oti9XBiTbJvz0Cro2J1VzzS8='"
    assert len(re.findall(r"""createElement\(.style.\)""", PLOTLY)) == 1
    assert 'document.createTextNode("")' in PLOTLY
    assert len(policy["style-src"].split()) == 2
    assert policy["script-src"] == "'self'"


def test_nothing_in_it_needs_a_weaker_policy() -> None:
    assert not re.findall(r"(?<![\w.$])(?:eval|new Function|Function)\(", PLOTLY)
    assert "unsafe-inline" not in str(_policy())
    assert "unsafe-eval" not in str(_policy())


def test_the_script_that_loads_late_is_known_by_its_hash() -> None:
    """By then another process may have taken over the server's port."""
    digest = base64.b64encode(hashlib.sha384(PLOTLY.encode()).digest()).decode()
    page = (find_web() / "js" / "plotly.js").read_text()
    assert f'const INTEGRITY = "sha384-{digest}";' in page
    assert "script.integrity = INTEGRITY;" in page
    loading = [path.name for path in (find_web() / "js").rglob("*.js") if ".src = " in path.read_text()]
    assert sorted(loading) == ["downloads.js", "plotly.js"], "the former draws a picture of a chart"

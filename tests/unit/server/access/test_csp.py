"""The headers of every answer, made for the Plotly that is installed."""

from __future__ import annotations

from importlib.resources import files

from loaderwatch.server.access.csp import headers


def _policy(plotly: bytes) -> dict[str, str]:
    directives = dict(headers(plotly))["content-security-policy"].split("; ")
    return {name: value for name, _, value in (directive.partition(" ") for directive in directives)}


def test_plotlys_own_texts_are_let_through_and_no_others() -> None:
    """Two sheets and one style attribute, each by its hash: a new Plotly must not come without them."""
    plotly = (files("plotly") / "package_data" / "plotly.min.js").read_bytes()
    bare, real = _policy(b""), _policy(plotly)
    assert bare["style-src-attr"] == "'none'"
    assert real["style-src-attr"] == "'unsafe-hashes' 'sha256-AR/cKIZjWPcPmBUPDA6oti9XBiTbJvz0Cro2J1VzzS8='"
    assert len(real["style-src"].split()) == len(bare["style-src"].split()) + 1
    assert "unsafe-inline" not in str(real)
    assert "unsafe-eval" not in str(real)
    assert real["script-src"] == "'self'"

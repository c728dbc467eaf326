"""The sign-in page, for people who come without a token. It uses no script and no other file, since those need a token."""

from __future__ import annotations

import html
from typing import Final

from starlette.responses import HTMLResponse

STYLE: Final = """
:root { color-scheme: light dark; --ink: light-dark(#15171c, #eceef2); --soft: light-dark(#565b66, #a4abb8);
  --line: light-dark(#8b919d, #6d7584); --card: light-dark(#fff, #1b1f27); --edge: light-dark(#dfe2e8, #343a45); }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: light-dark(#f4f5f7, #12151b); margin: 0; }
main { max-width: 30rem; margin: 14vh auto 0; padding: 1.75rem; background: var(--card);
  border: 1px solid var(--edge); border-top: 3px solid #d9480f; border-radius: 10px; }
h1 { font-size: 1.2rem; margin: 0 0 .5rem; }
p { color: var(--soft); margin: .5rem 0; }
label { display: block; font-weight: 600; margin: 1.25rem 0 .35rem; }
form div { display: flex; gap: .5rem; flex-wrap: wrap; }
input, button { font: inherit; padding: .45rem .75rem; border-radius: 6px; border: 1px solid var(--line); }
input { flex: 1 1 12rem; min-width: 0; color: var(--ink); background: var(--card); }
button { background: #b93c0b; border-color: #b93c0b; color: #fff; font-weight: 600; cursor: pointer; }
:focus-visible { outline: 2px solid #b93c0b; outline-offset: 2px; }
code { overflow-wrap: anywhere; }
.problem { color: light-dark(#a40e26, #ff8f98); font-weight: 600; }
@media (max-width: 34rem) { main { margin: 1rem; padding: 1.25rem; } }
"""


def sign_in_page(problem: str = "", status: int = 401, *, here: bool = True) -> HTMLResponse:
    """Return the form. ``here`` sends it to the address that it was shown at, so that the part after ``#`` is not lost."""
    action = "" if here else ' action="/login"'
    said = f'<p class="problem" id="problem" role="alert">{html.escape(problem)}</p>\n' if problem else ""
    described = ' aria-describedby="problem"' if problem else ""
    page = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>loaderwatch: sign in</title><link rel="icon" href="data:,">
<style>{STYLE}</style></head><body><main>
<h1>This page needs a token</h1>
{said}<p>Open the address that <code>loaderwatch serve</code> or the training job printed; it holds the token.
It is also kept in <code>token.json</code> in the server's data folder.</p>
<form method="post"{action}>
<label for="token">Token</label>
<div><input id="token" name="token" type="password" autocomplete="current-password" required autofocus{described}>
<button>Sign in</button></div></form>
</main></body></html>"""
    return HTMLResponse(page, status_code=status, headers={"cache-control": "no-store"})

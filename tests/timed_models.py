"""Which models are watched."""

from __future__ import annotations

from typing import Any


def is_timed(model: Any) -> bool:
    """Whether the agent times the calls of a model. The model does not know."""
    calls = getattr(vars(type(model)).get("_compiled_call_impl"), "calls", ())
    return any(call.model() is model for call in calls)

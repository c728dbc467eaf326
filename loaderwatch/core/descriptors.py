"""How many files and connections this process may have open."""

from __future__ import annotations

try:
    import resource
except ImportError:  # Windows, which has no such limit
    resource = None  # type: ignore[assignment]

_UNLIMITED = 2**20


def descriptor_limit() -> int:
    """What this process may have now."""
    if resource is None:
        return _UNLIMITED
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED if soft == resource.RLIM_INFINITY else min(soft, _UNLIMITED)


def raise_descriptor_limit(wanted: int) -> int:
    """Raise it to ``wanted``, as far as it may be raised; returns what it is then. 1,024 is a usual limit, and few."""
    if resource is not None and descriptor_limit() < wanted:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return descriptor_limit()

"""A framework's own count of its progress, which the callbacks in ``loaderwatch/frameworks/`` publish."""

from __future__ import annotations

import os

from loaderwatch.agent.guard import guard, shield
from loaderwatch.agent.model.phase import current_session
from loaderwatch.core.facts import Progress


@shield
def publish_progress(
    *,
    framework: str,
    framework_version: str,
    stage: str | None,
    epoch: int | None = None,
    max_epochs: int | None = None,
    global_step: int | None = None,
) -> None:
    """Publish the progress. This writes a file: call it when a stage or epoch begins, not in every step."""
    session = None if guard.tripped else current_session()
    if session is None or session.pid != os.getpid():
        return
    recorder = session.recorder
    recorder.settle()
    session.change(
        progress=Progress(
            framework=framework[:100],
            framework_version=framework_version[:100],
            stage=stage,
            epoch=epoch,
            max_epochs=max_epochs,
            global_step=global_step,
            at_steps=recorder.steps,
        )
    )

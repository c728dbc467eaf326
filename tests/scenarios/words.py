"""The words of each alert for every recording, as text that a person can review, in order of the alerts.

``python -m tests.scenarios.words`` writes ``words.txt`` and ``words.zh.txt``. Their diff in git shows every
change of words for review. A change that only moves code leaves them unchanged.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

from loaderwatch.core.answers import Evidence, Finding
from loaderwatch.detect.translation import in_language
from loaderwatch.server.recordings import recording
from loaderwatch.server.recordings.analysis import Judged, judge_recording

FOLDER: Final = Path(__file__).resolve().parent
RECORDINGS: Final = sorted((FOLDER / "recordings").glob(f"*{recording.SUFFIX}"))
GOLDEN: Final = {"en": FOLDER / "words.txt", "zh": FOLDER / "words.zh.txt"}


@lru_cache(1)
def judged(path: Path) -> tuple[int, Judged]:
    """Judge a recording; return the time of its first envelope (ns, UTC), the findings and the verdict."""
    recorded = recording.load(path)
    return min(envelope.made_ns for envelope in recorded.decoded()), judge_recording(recorded)


def golden(spoken: str) -> dict[str, str]:
    """Return the kept words of each recording by its name."""
    blocks = GOLDEN[spoken].read_text(encoding="utf-8").split("\n\n")
    return {block.partition("\n")[0].removeprefix("== "): f"{block.rstrip()}\n" for block in blocks}


def words_of(path: Path, spoken: str) -> str:
    """Return the verdict and every alert of one recording, in one language, "en" or "zh"."""
    first_ns, (findings, verdict) = judged(path)
    lines = [f"== {path.stem}"]
    if verdict is not None:
        verdict = in_language(verdict, spoken)
        lines.append(f"verdict ({verdict.severity}): {verdict.title}")
        lines += [f"    do: {verdict.advice}"] if verdict.advice else []
    for finding in in_language(findings, spoken):
        lines += _lines(finding, first_ns / 1e9)
    return "\n".join(lines) + "\n"


def _lines(finding: Finding, first_s: float) -> Iterator[str]:
    """Yield the lines of one alert; times count from the recording's first envelope."""
    began = f"{finding.began_at - first_s:+.1f} s"
    ended = "open" if finding.ended_at is None else f"{finding.ended_at - first_s:+.1f} s"
    yield (
        f"{finding.severity} {finding.scenario} {finding.code} [{finding.key}]"
        f" {began} to {ended}, {finding.state}"
    )
    who = {
        "rank": finding.rank,
        "host": finding.host,
        "worker": finding.worker,
        "samples": finding.sample_indices or None,
    }
    yield f"    who: {', '.join(f'{name} {value}' for name, value in who.items() if value is not None)}"
    yield f"    title: {finding.title}"
    yield f"    cause: {finding.cause}"
    yield f"    advice: {finding.advice}"
    costs = (finding.lost_s, finding.gain_ceiling_ratio)
    lost, gain = ("unknown" if cost is None else f"{cost:.4g}" for cost in costs)
    yield (
        f"    lost: {lost} s; gain at most: {gain} of the {finding.gain_of};"
        f" confidence {finding.confidence:.3g}"
    )
    for evidence in finding.evidence:
        yield f"    {_evidence(evidence)}"
    for folded in finding.folded:
        yield f"    under it: {folded.severity} {folded.scenario} {folded.code} [{folded.key}] {folded.title}"


def _evidence(evidence: Evidence) -> str:
    value = evidence.value
    shown = f"{value:.4g}" if isinstance(value, float) else str(value)
    return f"- {evidence.label} = {shown} {evidence.unit}"


def main() -> None:
    """Write both files."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for spoken, file in GOLDEN.items():
            words = pool.map(partial(words_of, spoken=spoken), RECORDINGS)
            file.write_text("\n".join(words), encoding="utf-8")


if __name__ == "__main__":
    main()

"""The answers of the HTTP API, see docs/http-api.md.

The server makes them, and the command line reads them. The page's ``web/js/types.js`` is generated from them.
Times are UTC seconds, durations seconds, shares 0 to 1; None is "not known". A field with a default may be
missing, because a running server may be of an older version.
"""

from __future__ import annotations

from loaderwatch.core.answers.basics import (
    Advice,
    AlertState,
    AttemptStatus,
    Clock,
    CouplingState,
    Evidence,
    GainOf,
    PlaceState,
    RankMeasure,
    RankStatus,
    RunStatus,
    Severity,
    Stack,
    Unit,
    Verdict,
    VerdictSeverity,
)
from loaderwatch.core.answers.charts import Epoch, Fetches, Heatmap, Series, SlowSample
from loaderwatch.core.answers.comparison import (
    ComparedRun,
    Comparison,
    Difference,
    Estimate,
    Judgement,
    Setting,
)
from loaderwatch.core.answers.current_state import Coupling, Gpu, GpuProcess, Place, Share, Worker
from loaderwatch.core.answers.findings import Finding, Folded, Followed
from loaderwatch.core.answers.runs import (
    Contents,
    Earlier,
    Fingerprint,
    Host,
    Labels,
    Loader,
    Progress,
    RankGroup,
    RankPage,
    RankRow,
    RunRow,
    ServerFacts,
    Summary,
)
from loaderwatch.core.answers.settings import LoaderOption, LoaderSetting, WhatIf
from loaderwatch.core.answers.timeline import EpochParts, LoaderEpochs, Mark, MarkKind
from loaderwatch.core.message import Param, Text

__all__ = [
    "Advice",
    "AlertState",
    "AttemptStatus",
    "Clock",
    "ComparedRun",
    "Comparison",
    "Contents",
    "Coupling",
    "CouplingState",
    "Difference",
    "Earlier",
    "Epoch",
    "EpochParts",
    "Estimate",
    "Evidence",
    "Fetches",
    "Finding",
    "Fingerprint",
    "Folded",
    "Followed",
    "GainOf",
    "Gpu",
    "GpuProcess",
    "Heatmap",
    "Host",
    "Judgement",
    "Labels",
    "Loader",
    "LoaderEpochs",
    "LoaderOption",
    "LoaderSetting",
    "Mark",
    "MarkKind",
    "Param",
    "Place",
    "PlaceState",
    "Progress",
    "RankGroup",
    "RankMeasure",
    "RankPage",
    "RankRow",
    "RankStatus",
    "RunRow",
    "RunStatus",
    "Series",
    "ServerFacts",
    "Setting",
    "Severity",
    "Share",
    "SlowSample",
    "Stack",
    "Summary",
    "Text",
    "Unit",
    "Verdict",
    "VerdictSeverity",
    "WhatIf",
    "Worker",
]

"""The parts of a running server, as its routes find them in ``app.state.parts``."""

from __future__ import annotations

from dataclasses import dataclass, field

from loaderwatch.server.access.page_sessions import PageSessions
from loaderwatch.server.access.tokens import Keys
from loaderwatch.server.alerts.notify import Notifier
from loaderwatch.server.config_file import ConfigFile, ServeOptions
from loaderwatch.server.idle_shutdown import Lifetime
from loaderwatch.server.ingest import Ingest, IngestCounts
from loaderwatch.server.live.event_stream import Hub
from loaderwatch.server.live.runs import LiveRuns
from loaderwatch.server.page import StaticFiles
from loaderwatch.server.peers.forwarding import Peers
from loaderwatch.server.peers.handover import Handover
from loaderwatch.server.recordings.incoming_runs import Arrivals
from loaderwatch.server.recordings.later_runs import LaterRuns
from loaderwatch.server.recordings.stored_windows import StoredWindows
from loaderwatch.server.recordings.verdict_cache import Verdicts
from loaderwatch.server.store.protocol import Store


@dataclass
class Parts:
    """The parts that the routes work with, in ``app.state.parts``."""

    options: ServeOptions
    store: Store
    ingest: Ingest
    hub: Hub
    live: LiveRuns
    notifier: Notifier
    config: ConfigFile
    static: StaticFiles
    verdicts: Verdicts
    stored_windows: StoredWindows
    later_runs: LaterRuns
    arrivals: Arrivals
    url: str
    reached_at: str  # this server's address for the other servers of its database
    keys: Keys  # the tokens in force; with them the server also proves itself
    sessions: PageSessions
    lifetime: Lifetime
    peers: Peers | None = None  # the other servers of the database; None if there can be none
    handover: Handover | None = None
    ready: bool = False
    stopping: bool = False
    ingest_counts: IngestCounts = field(default_factory=IngestCounts)

"""The streamer's loop: it drains rings, samples, assembles an envelope and puts it into the outbox."""

from __future__ import annotations

import logging
import time
from typing import Final

from loaderwatch.core.clock import SECOND_NS, monotonic_ns, slept_ns, wall_offset_ns
from loaderwatch.core.config import Settings
from loaderwatch.core.facts import GPU_IDLE, SpanInfo
from loaderwatch.core.message import Param, Text
from loaderwatch.core.records import Phase, Row, pack_row
from loaderwatch.core.redact import Redaction, load_key
from loaderwatch.core.system import boot_id
from loaderwatch.core.wire import ENVELOPE_S, SLOWEST_ENVELOPES_S, Envelope, encode, pack_table
from loaderwatch.streamer.drain import Drain, build_span
from loaderwatch.streamer.flight_recorder import FlightReader
from loaderwatch.streamer.job_stderr import JobStderr, write_stderr
from loaderwatch.streamer.messages.run_files import RunFiles
from loaderwatch.streamer.outbox.files import StreamState, host_folder_name, new_stream_name, ring_folder
from loaderwatch.streamer.outbox.outbox import Outbox
from loaderwatch.streamer.process_rows import MemberSampler
from loaderwatch.streamer.profile.sampler import Sampler
from loaderwatch.streamer.rings import RingFolder
from loaderwatch.streamer.roster import Roster
from loaderwatch.streamer.samplers.gpu import GpuSampler
from loaderwatch.streamer.samplers.host import HostSampler
from loaderwatch.streamer.server_finder import ServerFinder
from loaderwatch.streamer.stack_moments.budget import LastStacks
from loaderwatch.streamer.stack_moments.slow_loops import IdleGpus, SlowLoops
from loaderwatch.streamer.stacks import SAMPLE, StackCollector
from loaderwatch.streamer.streamer_start import Succession
from loaderwatch.streamer.upload import Uploader
from loaderwatch.texts import in_own_language

log = logging.getLogger(__name__)

TICK_NS: Final = SECOND_NS // 4
SAMPLE_NS: Final = SECOND_NS
CHECK_NS: Final = 5 * SECOND_NS
SETTLED_NS: Final = 2 * SECOND_NS
"""The run has ended on this host if its last training process is dead and nothing new came for this long."""
FIRST_RING_NS: Final = 60 * SECOND_NS
ALONE_NS: Final = 30 * SECOND_NS
"""How long a streamer without a server starts no other process. Its server starts within this time."""
LINGER_S: Final = 600.0
CLOCK_JUMP_NS: Final = 2 * SECOND_NS
IN_STEP: Final = frozenset(
    {Phase.STEP, Phase.H2D, Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.USER}
)
"""Phases of a training process that works on a batch."""


class Streamer:
    """The active streamer of one run on this host."""

    def __init__(
        self,
        settings: Settings,
        run_id: str,
        run_name: str,
        *,
        adopting: bool = False,
        inherited: bool = False,
        host: str | None = None,
        job_stderr: JobStderr | None = None,
    ) -> None:
        self._settings = settings
        self._run_id = run_id
        self._adopting = adopting
        self._rings_are_there = adopting or inherited  # all rings exist already; no new run begins here
        self._job_stderr = job_stderr
        host = host or host_folder_name()
        fresh = StreamState(
            stream=new_stream_name(host),
            run_name=run_name,
            wall_offset_ns=wall_offset_ns(),
            boot_id=boot_id(),
            slept_ns=slept_ns(),
        )
        folder = settings.outbox_dir / run_id / host
        rings = ring_folder(settings, run_id, host)
        self._outbox = Outbox(folder, fresh, fresh.boot_id, settings.outbox_bytes, spare=rings)
        self._state = self._outbox.state
        self._rings = RingFolder(rings, self._outbox.cursors, settings.data_dir / "set-aside" / run_id)
        self._roster = Roster(self._rings)
        self._drain = Drain(self._state.wall_offset_ns)
        self._drain.rows["gpu_waits"] = self._outbox.held
        self._members = MemberSampler()
        self._host = HostSampler()
        self._sampled_pid: int | None = None  # the training process whose cgroups were last sampled
        self._gpus = GpuSampler()
        last_stacks = LastStacks()
        self._stacks = StackCollector(last_stacks)
        self._idle_gpus = IdleGpus(last_stacks)
        self._slow_loops = SlowLoops(self._in_step, last_stacks)
        self._sampler = Sampler()
        self._flights = FlightReader()
        self._finder = ServerFinder(settings, may_start=not adopting)
        self._uploader = Uploader(self._outbox, self._finder.find)
        self._files = RunFiles(settings, run_id, rings)
        self._host_rows: list[Row] = []
        self._next_sample_ns = self._next_envelope_ns = 0
        self._envelope_ns = int(ENVELOPE_S * SECOND_NS)
        self._redaction: Redaction | None = None
        self._succession = Succession(settings, run_id, self._state.run_name)
        self._began_ns = monotonic_ns()
        self._next_check_ns = self._began_ns + CHECK_NS // 2
        self._clock_error_ns = 0  # the wall clock minus this run's clock, as last logged
        self._final_due = False  # the final envelope did not fit into the outbox yet

    def run(self) -> int:
        """Stream until the run has ended on this host and everything is sent."""
        log.info(
            "streaming run %s as %s from envelope %d", self._run_id, self._state.stream, self._outbox.next_seq
        )
        self._uploader.start()
        self._gpus.start()
        self._sampler.start()
        if not self._adopting:
            self._succession.adopt_orphans(monotonic_ns())
        try:
            while True:
                self._stream()
                if self._linger():
                    break
        finally:
            self._sampler.stop()
            self._gpus.stop()
            self._uploader.stop()
        self._roster.close()
        rank_0_here = 0 in (self._roster.newest_by_rank() or (0,))
        self._files.remove(addresses=rank_0_here and not len(self._outbox))
        self._outbox.close()  # before the removal of the rings' folder, which may hold a part of the outbox
        self._rings.remove()
        log.info("run %s has ended on this host", self._run_id)
        return 0

    # -- while the run lives

    def _stream(self) -> None:
        began = deadline = monotonic_ns()
        while True:
            now = monotonic_ns()
            self._tick(now)
            if self._has_ended(now, began):
                self._final_due = bool(self._roster.mains) and not self._send_envelope(final=True)
                return
            deadline += TICK_NS
            late = monotonic_ns() - deadline
            if late > SECOND_NS:
                deadline += late  # after a suspend or starvation, do not catch up by running faster
            elif late < 0:
                time.sleep(-late / 1e9)

    def _tick(self, now: int) -> None:
        roster = self._roster
        roster.refresh(now)
        roster.check_alive(now)
        if self._job_stderr is not None and roster.all_dead():
            self._job_stderr.close()
        if self._sampled_pid is not None and roster.all_dead():
            self._sample_host(None, now)
        self._drain.lose("ring", -1, self._rings.overwritten)
        self._rings.overwritten = 0
        self._drain.collect(roster, now)
        while self._drain.full:
            self._send_envelope()
            self._drain.collect(roster, now)
        if now >= self._next_sample_ns:
            self._next_sample_ns = now + SAMPLE_NS - TICK_NS // 2
            self._sample(now)
            self._sampler.watch(roster, self._drain.usual_ns)
        self._stacks.poll(roster, self._drain.usual_ns, monotonic_ns())
        for asked in self._sampler.asked():
            self._stacks.request(asked.key.rank, roster, monotonic_ns(), SAMPLE, pids=[asked.pid])
        for dump in self._stacks.take_samples():
            self._sampler.answer(dump)
        for rank in self._idle_gpus.due(self._gpus.used(), self._in_step, now):
            self._stacks.request(rank, roster, monotonic_ns(), GPU_IDLE, workers=False)
        if now >= self._next_envelope_ns:
            self._next_envelope_ns = max(self._next_envelope_ns + self._envelope_ns, now)
            if roster.mains:
                self._send_envelope()
                roster.retire(now)
        self._hear()
        if not self._uploader.is_alive():
            raise RuntimeError("the upload thread ended; the standby takes over")
        if now >= self._next_check_ns:
            self._next_check_ns = now + CHECK_NS
            # Start one process after another, and none while the server starts.
            settled = self._uploader.target is not None or now - self._began_ns > ALONE_NS
            if settled and not roster.all_dead():
                self._succession.keep_standby(now)
                self._succession.adopt_orphans(now)
            self._check_clock()

    def _in_step(self, rank: int) -> int | None:
        """Return the pid of a rank's training process if it works on a batch."""
        main = self._roster.newest_by_rank().get(rank)
        span = main.ring.span() if main is not None and main.alive else None
        return main.pid if main is not None and span is not None and span.phase in IN_STEP else None

    def _has_ended(self, now: int, began: int) -> bool:
        roster = self._roster
        if not roster.mains:
            return self._rings_are_there or now - began > FIRST_RING_NS
        return (
            roster.all_dead()
            and now - max(roster.last_new_main_ns, *(m.died_ns for m in roster.mains.values())) > SETTLED_NS
            and all(member.final_cursor is not None for member in roster.mains.values())
            and not self._stacks.busy
        )

    def _sample(self, now: int) -> None:
        self._members.sample(self._roster, now, self._state.wall_offset_ns)
        usual_ns = self._drain.usual_ns
        for rank, why, pids in self._slow_loops.due(self._roster, self._members.readings, usual_ns, now):
            self._stacks.request(rank, self._roster, monotonic_ns(), why, workers=False, pids=pids)
        mains = list(self._roster.newest_by_rank().values())
        self._gpus.follow({m.info.rank: (m.pid, m.info.gpu_uuid) for m in mains if m.info and m.alive})
        self._sample_host(next((m.pid for m in mains if m.alive), None), now)

    def _sample_host(self, training_pid: int | None, now: int) -> None:
        """Sample the host, once more after the last training process died: counters may show the reason."""
        pid = self._sampled_pid if training_pid is None else training_pid
        self._sampled_pid = training_pid
        if pid is not None:
            mains = [self._members.last(main) for main in self._roster.newest_by_rank().values()]
            written = sum(float(reading.values.get("written_chars") or 0) for reading in mains if reading)
            values = {"t_ns": now + self._state.wall_offset_ns, **self._host.sample(pid, now, written)}
            self._host_rows.append(pack_row("hosts", values))

    def _spans(self) -> tuple[list[SpanInfo], int]:
        spans = []
        for member in self._roster.members():
            span = member.ring.span()
            if span is None:
                continue
            reading = self._members.of_span(member, span.since_ns)
            info = build_span(member, self._roster, self._state.wall_offset_ns, reading)
            if info is not None:
                spans.append(info)
        return spans, monotonic_ns() + self._state.wall_offset_ns

    def _send_envelope(self, *, final: bool = False) -> bool:
        for rank, count in self._outbox.take_losses().items():
            self._drain.lose("outbox", rank, count)
        spans, made_ns = self._spans()
        waits, offset = self._drain.rows.setdefault("gpu_waits", []), self._state.wall_offset_ns
        waits[:] = self._gpus.believed(waits, offset, final=final)
        tables, losses = self._drain.take(made_ns)
        profile, profile_stacks = self._sampler.take(monotonic_ns(), offset, final=final)
        for name, rows in (
            ("processes", self._members.take_rows()),
            ("hosts", self._host_rows),
            ("gpus", self._gpus.take_rows(offset)),
            ("profile", profile),
        ):
            if rows:
                tables[name] = pack_table(name, rows)
        self._host_rows = []
        ended = [m for m in self._roster.members() if m.final_cursor is not None]
        envelope = Envelope(
            run_id=self._run_id,
            run_name=self._state.run_name,
            stream=self._state.stream,
            seq=self._outbox.next_seq,
            made_ns=made_ns,
            host=self._host.info(self._gpus.off),
            processes=self._gpus.annotate(self._flights.annotate(self._roster.describe())),
            spans=spans,
            gpus=self._gpus.infos(),
            gpu_states=self._gpus.take_states(),
            tables=tables,
            stacks=self._stacks.take(self._state.wall_offset_ns),
            profile_stacks=profile_stacks,
            losses=losses,
            final=final,
        )
        payload = encode(self._redacted(envelope))
        if not self._outbox.put(payload, self._rings.cursors(), self._gpus.held()):
            return False
        for member in ended:
            member.drained = True
        return True

    def _redacted(self, envelope: Envelope) -> Envelope:
        """Redact the envelope if its run asks for it. A streamer may also send another run's leftovers."""
        if self._redaction is None and (
            self._settings.redact or any(process.redact for process in envelope.processes)
        ):
            self._redaction = Redaction(load_key(self._settings.redact_key_path))
        return envelope if self._redaction is None else self._redaction.envelope(envelope)

    # -- messages to and from the server, and lines for people

    def _hear(self) -> None:
        while self._uploader.receipts:
            receipt = self._uploader.receipts.popleft()
            for request in receipt.stack_requests:
                self._stacks.request(request.rank, self._roster, monotonic_ns())
            for notice in receipt.notices:
                self._write_to_rank(notice.rank, notice.text)
            self._files.take(receipt)
            self._envelope_ns = int(min(max(receipt.envelope_s, ENVELOPE_S), SLOWEST_ENVELOPES_S) * SECOND_NS)
        for source in (self._uploader, self._finder, self._files, self._outbox):
            while source.troubles:
                self._say(self._voice(), source.troubles.popleft())
        target = self._uploader.target
        if (
            target is not None
            and self._uploader.reached
            and target.page_url
            and not self._state.announced
            and self._roster.mains
        ):
            rank = self._voice()
            if rank is not None:
                watched: dict[str, Param] = {"run": self._state.run_name, "url": target.page_url}
                self._say(rank, Text("watching-run", watched))
                self._outbox.remember(announced=True)

    def _voice(self) -> int | None:
        """Return the rank whose stderr people read: 0, else this host's lowest if the page is local."""
        ranks = [rank for rank, member in self._roster.newest_by_rank().items() if member.alive]
        if 0 in ranks:
            return 0
        return min(ranks) if ranks and self._settings.server is None else None

    def _say(self, rank: int | None, line: Text) -> None:
        self._write_to_rank(rank, in_own_language("job-line", line=line))

    def _write_to_rank(self, rank: int | None, text: str) -> None:
        member = self._roster.newest_by_rank().get(rank) if rank is not None else None
        if self._files.is_closed():
            log.info("the run has printed its last line; not written: %s", text)
        elif member is not None and member.alive and member.info is not None and member.info.has_stderr:
            if self._job_stderr is not None:
                self._job_stderr.write(text)
            else:
                write_stderr(member.pid, text)
        else:
            log.info("no living process of rank %s with a stderr here; not written: %s", rank, text)

    # -- time

    def _check_clock(self) -> None:
        """Add the host's sleep to the run's times, because the monotonic clock does not count it.

        A change of the wall clock changes nothing here. If the run's times jumped, they would have gaps or
        overlap, and ranks on two hosts would drift apart.
        """
        slept = slept_ns()
        slept_before = slept if self._state.slept_ns is None else self._state.slept_ns
        if slept - slept_before > CLOCK_JUMP_NS:
            offset = self._state.wall_offset_ns + slept - slept_before
            log.info("this host was suspended for %.1f s", (slept - slept_before) / 1e9)
            self._drain.wall_offset_ns = offset
            self._outbox.remember(wall_offset_ns=offset, slept_ns=slept)
        error = wall_offset_ns() - self._state.wall_offset_ns
        if abs(error - self._clock_error_ns) > CLOCK_JUMP_NS:
            self._clock_error_ns = error
            log.warning(
                "the wall clock was set: it is %+.1f s from the one this run began with, which goes on",
                error / 1e9,
            )

    # -- after the run

    def _linger(self) -> bool:
        """Wait until everything is sent; return False if the run goes on here (an elastic restart)."""
        self._roster.drop_workers()
        deadline = time.monotonic() + LINGER_S
        while (
            len(self._outbox) or self._final_due or self._outbox.unreported
        ) and time.monotonic() < deadline:
            self._roster.refresh(monotonic_ns())
            if not self._roster.all_dead():
                return False
            self._hear()
            # Losses that the last envelopes caused are reported when there is room again.
            if self._final_due or (self._outbox.unreported and not len(self._outbox)):
                self._final_due = not self._send_envelope(final=True)
            time.sleep(0.1)
        if len(self._outbox):
            log.warning(
                "%d envelopes could not be sent; the next streamer on this host tries again",
                len(self._outbox),
            )
        return True

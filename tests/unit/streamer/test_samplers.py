"""Parsing of /proc, control groups and PSI, over trees made by the test."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from loaderwatch.core.records import TABLES
from loaderwatch.streamer.samplers.cgroup import (
    CpuLimit,
    MemoryLimit,
    find_cpu_groups,
    find_groups,
    read_cpu_limit,
    read_memory_limit,
    read_oom_kills,
)
from loaderwatch.streamer.samplers.host import HostSampler
from loaderwatch.streamer.samplers.process import ProcessSampler, ThreadTimes
from loaderwatch.streamer.samplers.procfs import (
    ProcessFiles,
    Stat,
    Status,
    parse_fd_limit,
    parse_io,
    parse_pss,
    parse_stat,
    parse_status,
    started_after,
)
from tests.scenarios.control_group import why_not
from tests.waiting import PATIENCE_S, wait_until

SECOND = 10**9
NO_GROUP = why_not("memory")
HOST_COLUMNS = {column.name for column in TABLES["hosts"]} - {"t_ns"}
PROCESS_COLUMNS = {column.name for column in TABLES["processes"]} - {
    "rank",
    "loader",
    "worker",
    "pid",
    "t_ns",
    "state",
}


def write(root: Path, files: dict[str, str]) -> None:
    """Files under a folder."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_stat_with_a_nasty_command() -> None:
    """The command may hold spaces and parentheses."""
    numbers = " ".join(str(n) for n in range(4, 53))
    stat = parse_stat(f"42 (pt_data) worker) R {numbers}\n".encode())
    assert stat is not None
    assert (stat.state, stat.major_faults, stat.cpu_ticks) == ("R", 12, 14 + 15)
    assert (stat.threads, stat.start_ticks, stat.rss_bytes) == (20, 22, 24 * os.sysconf("SC_PAGE_SIZE"))
    assert parse_stat(b"42 (x) R 1 2") is None
    assert parse_stat(b"") is None


def test_status_and_io() -> None:
    """Missing lines are unknown."""
    text = (
        b"Name:\tx\nRssAnon:\t      12 kB\nTracerPid:\t7\nSigCgt:\t0000000400000002\n"
        b"voluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t6\n"
    )
    assert parse_status(text) == Status(7, 0x400000002, 5, 6, 12 * 1024)
    assert parse_status(b"Name:\tx\n") == Status(None, None, None, None)
    assert parse_io(b"rchar: 10\nwchar: 1\nread_bytes: 4096\n") == (10, 1, 4096)
    mapped = b"rchar: 10\nwchar: 1\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 9\n"
    assert parse_io(mapped) == (10, 8192, 4096)
    assert parse_io(b"") == (None, None, None)


def cpu_s(pid: int) -> float:
    """CPU time that a process has used."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux's /proc")
def test_the_pages_of_a_training_process_are_never_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    """It could map no memory meanwhile. Its workers get their turns all the same."""
    walked = []

    def pss_bytes(files: ProcessFiles) -> int:
        walked.append(files.pid)
        return 1

    monkeypatch.setattr(ProcessFiles, "pss_bytes", pss_bytes)
    children = [subprocess.Popen(["sleep", "60"]) for _ in range(3)]
    main, *workers = (ProcessFiles(child.pid) for child in children)
    sampler = ProcessSampler()
    try:
        for second in range(10, 50):
            for files in (main, *workers):
                assert sampler.sample(files, second * SECOND, training=files is main)
            # a process may write the ring of a worker as well
            assert sampler.sample(main, second * SECOND)
    finally:
        for child in children:
            child.kill()
            child.wait()
    assert set(walked) == {files.pid for files in workers}
    assert {walked.count(files.pid) for files in workers} == {4}  # every ten seconds


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux's /proc")
def test_a_real_process_and_its_end() -> None:
    """Rates appear with the second look; a dead process is None, also when its pid were used again."""
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    files, sampler = ProcessFiles(child.pid), ProcessSampler()
    try:
        wait_until("it computes", lambda: cpu_s(child.pid) > 0.05)
        before_ns = time.monotonic_ns()
        first = sampler.sample(files, before_ns)
        late_s = (time.monotonic_ns() - before_ns) / 1e9  # what it computes meanwhile counts as well, or not
        began_s = cpu_s(child.pid)
        wait_until("it has computed on", lambda: cpu_s(child.pid) > began_s + 0.3)
        now_ns = time.monotonic_ns()
        second = sampler.sample(files, now_ns)
        late_s += (time.monotonic_ns() - now_ns) / 1e9
        late = late_s / ((now_ns - before_ns) / 1e9)
        assert first is not None
        assert second is not None
        assert first.values["cpu_ratio"] is None
        row = second.values
        assert row.keys() == PROCESS_COLUMNS
        assert 0 < float(row["cpu_ratio"] or 0) < 1.1 + late
        assert row["threads"] == 1
        assert row["fds"]
        if Path("/proc/self/schedstat").exists():
            assert row["run_delay_ratio"] is not None
            assert 0 <= float(row["run_delay_ratio"]) <= 1 + late
        assert row["read_chars"]
        assert float(row["fd_limit"] or 0) >= float(row["fds"] or 0)
        assert float(row["anonymous_bytes"] or 0) > 0
        assert row["lock_wait"] == row["timer_wait"] == 0.0  # it runs, and so waits for neither
        assert row["pss_bytes"] is None  # not its turn again
        assert float(first.values["pss_bytes"] or 0) > 0
        assert second.state == "R"
        assert second.traced is False
        stat = files.stat()
        assert stat is not None
        assert not started_after(stat, time.monotonic_ns())
        assert started_after(stat, time.monotonic_ns() - 100 * SECOND)
    finally:
        child.kill()
        child.wait()
    assert sampler.sample(files, time.monotonic_ns()) is None
    assert sampler.look(files) is None
    files.close()


PINNING = """
import sys, threading, time, torch

def pin():
    torch.multiprocessing._set_thread_name("pt_data_pin")
    while True:
        pass

threading.Thread(target=pin, daemon=True).start()
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print("up", flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux's /proc")
def test_threads_of_a_training_process() -> None:
    """The thread that pins is found by the name that PyTorch gives it, and counts apart from the main one."""
    child = subprocess.Popen([sys.executable, "-c", PINNING], stdout=subprocess.PIPE)
    times = ThreadTimes(child.pid)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        began_s = cpu_s(child.pid)
        wait_until("the name is set", lambda: cpu_s(child.pid) > began_s + 0.1)
        before_ns = time.monotonic_ns()
        assert times.look(before_ns, pins=True) == (None, None)
        late_s = (time.monotonic_ns() - before_ns) / 1e9
        began_s = cpu_s(child.pid)
        wait_until("it has computed on", lambda: cpu_s(child.pid) > began_s + 0.3)
        now_ns = time.monotonic_ns()
        main, pin = times.look(now_ns, pins=True)
        late_s += (time.monotonic_ns() - now_ns) / 1e9
        assert main is not None
        assert pin is not None
        assert main < pin / 5, "one of them sleeps"
        assert pin < 1.1 + late_s / ((now_ns - before_ns) / 1e9)
    finally:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()
    assert times.look(time.monotonic_ns(), pins=True) == (None, None)


def write_thread(folder: Path, thread: int, name: str, ticks: int) -> None:
    task = folder / str(thread)
    task.mkdir(parents=True, exist_ok=True)
    (task / "comm").write_text(name + "\n")
    fields = ["S", *["0"] * 10, str(ticks), *["0"] * 30]
    (task / "stat").write_text(f"{thread} ({name}) {' '.join(fields)}")


def test_threads_come_get_their_name_and_go(tmp_path: Path) -> None:
    folder = tmp_path / "7" / "task"
    ticks = os.sysconf("SC_CLK_TCK")
    times = ThreadTimes(7, tmp_path)
    write_thread(folder, 7, "python", 0)
    write_thread(folder, 8, "python", 0)  # a pin thread that has no name yet

    def look(at_s: int, *, pins: bool = True) -> list[float | None]:
        return [None if one is None else round(one, 3) for one in times.look(at_s * SECOND, pins=pins)]

    assert look(10) == [None, None]
    write_thread(folder, 7, "python", ticks // 10)
    write_thread(folder, 8, "pt_data_pin", ticks // 2)
    assert look(11) == [0.1, None]
    write_thread(folder, 8, "pt_data_pin", ticks)
    write_thread(folder, 9, "pt_data_pin", 0)
    assert look(12) == [0.0, 0.5]
    write_thread(folder, 9, "pt_data_pin", ticks)
    (folder / "8" / "stat").unlink()
    (folder / "8" / "comm").unlink()
    (folder / "8").rmdir()
    assert look(13) == [0.0, 1.0]
    assert look(14, pins=False) == [0.0, 0.0]


MAPPED = """
import mmap, os, sys, time
path, pages = sys.argv[1], 400
with open(path, "wb") as file:
    file.write(os.urandom(pages * 65536))
    file.flush()
    os.fsync(file.fileno())
with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
    mapped.madvise(mmap.MADV_RANDOM)
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    print("ready", flush=True)
    sys.stdin.readline()
    sum(mapped[page * 65536] for page in range(pages))
    for _ in range(20):
        time.sleep(0.001)  # a fast disk has many a page there before the process sleeps for it
    print("done", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux's /proc")
def test_a_real_process_that_reads_a_mapped_file(tmp_path: Path) -> None:
    """Pages that faults bring from storage, which read() never sees. Each sleep for one is counted."""
    child = subprocess.Popen(
        [sys.executable, "-c", MAPPED, str(tmp_path / "data")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    sampler, files = ProcessSampler(), ProcessFiles(child.pid)
    try:
        assert child.stdout.readline() == "ready\n"
        before = sampler.sample(files, time.monotonic_ns())
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "done\n"
        after = sampler.sample(files, time.monotonic_ns())
    finally:
        child.kill()
        child.communicate()
        files.close()
    assert before is not None
    assert after is not None
    grown = {
        name: float(after.values[name] or 0) - float(before.values[name] or 0) for name in PROCESS_COLUMNS
    }
    if not grown["major_faults"] and not grown["read_bytes"]:
        pytest.skip(f"{tmp_path} lies in memory")
    assert grown["major_faults"] >= 100
    assert grown["voluntary_switches"] >= 20
    assert grown["read_chars"] < 65536


CROWDED = """
import sys, time
from tests.scenarios.control_group import join_memory_group
join_memory_group(64 << 20)
with open(sys.argv[1], "wb") as file:
    for _ in range(160):
        file.write(bytes(1 << 20))
print("full", flush=True)
sys.stdin.readline()
"""


@pytest.mark.skipif(NO_GROUP is not None, reason=str(NO_GROUP))
def test_a_real_memory_limit_that_was_reached(tmp_path: Path) -> None:
    """Page cache counts, too: writing a large file in a small group makes the kernel reclaim."""
    child = subprocess.Popen(
        [sys.executable, "-c", CROWDED, str(tmp_path / "data")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "full\n"
        row = HostSampler().sample(child.pid, time.monotonic_ns())
    finally:
        child.kill()
        child.communicate()
    assert row["memory_limit_bytes"] == 64 << 20
    assert float(row["memory_limit_hits"] or 0) > 0
    assert row["oom_kills"] == 0


def test_zombies_have_ended() -> None:
    """Only their parent has not asked."""
    assert not Stat("Z", 0, 0, 1, 1, 0).alive
    assert Stat("D", 0, 0, 1, 1, 0).alive


@pytest.mark.parametrize("pages", [0, 24])
def test_a_process_that_gave_its_memory_back_has_ended(tmp_path: Path, pages: int) -> None:
    """Between its exit and the zombie it runs without memory; the chart showed 0 bytes."""
    fields = ["R", *["1"] * 20, str(pages), *["0"] * 20]
    write(tmp_path, {"9/stat": f"9 (python) {' '.join(fields)}"})
    reading = ProcessSampler(tmp_path).sample(ProcessFiles(9, tmp_path), time.monotonic_ns())
    assert (reading is not None) == bool(pages)


def test_cgroup_v2_takes_the_tightest_of_all_levels(tmp_path: Path) -> None:
    """A parent's quota holds for the child."""
    write(
        tmp_path,
        {
            "proc/9/cgroup": "0::/a/b\n",
            "proc/9/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
            "sys/fs/cgroup/a/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/a/cpu.stat": "usage_usec 1\nnr_periods 40\nnr_throttled 10\n",
            "sys/fs/cgroup/cgroup.procs": "",
        },
    )
    folders = find_cpu_groups(9, tmp_path / "proc", tmp_path)
    assert [folder.name for folder in folders] == ["b", "a", "cgroup"]
    assert read_cpu_limit(folders) == CpuLimit(1.5, 40, 10)


def test_cgroup_v1_inside_a_container(tmp_path: Path) -> None:
    """The membership names the host's path; what is mounted is the container's own part of it."""
    write(
        tmp_path,
        {
            "proc/9/cgroup": "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n0::/\n",
            "proc/9/mountinfo": (
                "30 23 0:26 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                "31 23 0:27 /docker/abc /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
            ),
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/cpu/cpu.stat": "nr_periods 7\nnr_throttled 2\n",
        },
    )
    assert read_cpu_limit(find_cpu_groups(9, tmp_path / "proc", tmp_path)) == CpuLimit(0.5, 7, 2)


def test_no_quota_and_no_cgroups(tmp_path: Path) -> None:
    """-1, max and nothing at all are no limit."""
    assert find_cpu_groups(9, tmp_path / "proc", tmp_path) == []
    write(
        tmp_path,
        {"a/cpu.cfs_quota_us": "-1\n", "a/cpu.cfs_period_us": "100000\n", "b/cpu.max": "max 100000\n"},
    )
    assert read_cpu_limit([tmp_path / "a", tmp_path / "b", tmp_path / "c"]) is None


def test_memory_limits_of_both_versions(tmp_path: Path) -> None:
    """The tightest level counts, less the page cache that can be dropped; no limit is none."""
    write(
        tmp_path,
        {
            "proc/9/cgroup": "4:memory:/job\n0::/job\n",
            "proc/9/mountinfo": "30 23 0:26 / /v1 rw - cgroup cgroup rw,memory\n"
            "31 23 0:26 / /v2 rw - cgroup2 cgroup2 rw\n",
            "v1/job/memory.limit_in_bytes": "9223372036854771712\n",
            "v1/job/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
            "v1/memory.limit_in_bytes": "9223372036854771712\n",
            "v2/job/memory.max": "max\n",
            "v2/memory.max": "5000\n",
            "v2/memory.current": "3000\n",
            "v2/memory.stat": "anon 1000\ninactive_file 500\n",
            "v2/memory.events": "max 7\noom 1\noom_kill 1\n",
        },
    )
    folders = find_groups(9, "memory", tmp_path / "proc", tmp_path)
    assert read_memory_limit([folder for folder in folders if "v1" in folder.parts]) is None
    assert read_memory_limit(folders) == MemoryLimit(5000, 2500, 1, 7)
    write(tmp_path, {"v1/job/memory.limit_in_bytes": "4000\n", "v1/job/memory.failcnt": "9\n"})
    limit = read_memory_limit(folders)
    assert limit is not None
    assert (limit.limit_bytes, limit.hits) == (4000, 9)
    assert read_oom_kills(folders) == 2  # of the job's own group
    assert read_oom_kills([]) is None


def test_limits_and_rollups_of_a_process() -> None:
    """Unlimited is no limit."""
    head = b"Limit                     Soft Limit           Hard Limit           Units\n"
    assert (
        parse_fd_limit(head + b"Max open files            1024                 4096                 files\n")
        == 1024
    )
    assert (
        parse_fd_limit(head + b"Max open files            unlimited            unlimited            files\n")
        is None
    )
    assert parse_fd_limit(b"") is None
    assert parse_pss(b"x\nPss:  7 kB\nPss_Anon: 3 kB\nPss_File: 4 kB\n") == 3 * 1024  # no mapped files
    assert parse_pss(b"x\nRss:  9 kB\nPss:  7 kB\nPss_Dirty: 1 kB\n") == 7 * 1024
    assert parse_pss(b"") is None


MEMINFO = "".join(
    f"{name}:  {kilobytes} kB\n"
    for name, kilobytes in {
        "MemTotal": 1000, "MemFree": 1, "MemAvailable": 400, "Buffers": 1, "Cached": 1, "SwapCached": 0,
        "Active": 1, "Inactive": 1, "Shmem": 1, "Slab": 1, "SReclaimable": 1,
    }.items()
)  # fmt: skip


def psi(some: int, full: int) -> str:
    """The text of a PSI file."""
    return (
        f"some avg10=99.00 avg60=0.00 avg300=0.00 total={some}\n"
        f"full avg10=0.00 avg60=0.00 avg300=0.00 total={full}\n"
    )


def test_the_host_row_from_a_made_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every column from its source; rates from the second look on."""
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path / "proc"))
    monkeypatch.setattr(os, "getloadavg", lambda: (1.5, 1.0, 0.5))
    pid = os.getpid()
    sector = 512

    def tree(cpu: str, stall: int, throttled: int, read: int, received: int) -> None:
        write(
            tmp_path,
            {
                "proc/stat": f"{cpu}\ncpu0 1 2 3\n",
                "proc/meminfo": MEMINFO,
                "proc/vmstat": f"a 1\nworkingset_refault_anon 7\nworkingset_refault_file {read}\nb 2\n",
                "proc/pressure/cpu": psi(stall, 0),
                "proc/pressure/io": psi(2 * stall, stall),
                "proc/pressure/memory": psi(0, 0),
                "proc/diskstats": f"8 0 sda 1 0 {read} 0 1 0 20 0 0 0 0\n"
                f"8 1 sda1 1 0 {read} 0 1 0 20 0 0 0 0\n",
                f"proc/{pid}/net/dev": f"a\nb\n    lo: 99 0\n  eth0: {received} 0 0\n",
                f"proc/{pid}/cgroup": "0::/\n",
                f"proc/{pid}/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
                "sys/fs/cgroup/cpu.max": "50000 100000\n",
                "sys/fs/cgroup/cpu.stat": f"nr_periods {throttled * 2}\nnr_throttled {throttled}\n",
                "sys/block/sda/size": "1",
                "sys/block/loop0/size": "1",
                "dev/shm/x": "",
            },
        )

    tree("cpu 100 0 0 100 0 0 0 0 0 0", 1_000_000, 10, 100, 5000)
    sampler = HostSampler(tmp_path / "proc", tmp_path)
    first = sampler.sample(pid, 10 * SECOND)
    assert first.keys() == HOST_COLUMNS
    assert first["quota_cpus"] == first["usable_cpus"] == 0.5
    assert first["cpu_ratio"] is None
    assert first["psi_cpu_some_ratio"] is None
    assert first["throttled_ratio"] is None
    assert (first["memory_available_bytes"], first["memory_total_bytes"]) == (400 * 1024, 1000 * 1024)
    assert first["load1"] == 1.5
    assert float(first["shm_total_bytes"] or 0) > 0
    tree("cpu 175 0 0 125 0 0 0 0 0 0", 1_200_000, 15, 300, 9000)
    row = sampler.sample(pid, 12 * SECOND)
    assert row["cpu_ratio"] == pytest.approx(0.75)
    assert row["psi_cpu_some_ratio"] == pytest.approx(0.1)  # 0.2 s of 2 s
    assert row["psi_io_some_ratio"] == pytest.approx(0.2)
    assert row["psi_io_full_ratio"] == pytest.approx(0.1)
    assert row["psi_memory_full_ratio"] == 0
    assert row["throttled_ratio"] == pytest.approx(0.5)
    assert row["disk_read_bytes_per_s"] == 100 * sector  # the partition is not counted again
    assert row["disk_write_bytes_per_s"] == 0
    assert row["network_rx_bytes_per_s"] == 2000
    assert row["refault_bytes_per_s"] == 100 * os.sysconf("SC_PAGE_SIZE")
    assert sampler.info(None).usable_cpus == 0.5


def test_an_empty_tree_is_unknown_not_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing there: every field None, no error."""
    (tmp_path / "proc").mkdir()
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path / "proc"))

    def no_load() -> None:
        raise OSError("unobtainable")

    monkeypatch.setattr(os, "getloadavg", no_load)
    sampler = HostSampler(tmp_path / "proc", tmp_path)
    for now in (SECOND, 2 * SECOND):
        row = sampler.sample(1, now)
        row.pop("usable_cpus")  # asked from the kernel, not from a file
        row.pop("streamer_cpu_ratio")
        assert set(row.values()) == {None}


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux's /proc")
def test_this_host() -> None:
    """The real files have what the parser looks for."""
    sampler = HostSampler()
    sampler.sample(os.getpid(), time.monotonic_ns())
    time.sleep(0.2)
    row = sampler.sample(os.getpid(), time.monotonic_ns())
    for name in (
        "cpu_ratio",
        "usable_cpus",
        "load1",
        "memory_total_bytes",
        "shm_total_bytes",
        "streamer_rss_bytes",
    ):
        value = row[name]
        assert value is not None, name
        assert math.isfinite(value)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_processes_live_on_where_few_descriptors_are_allowed() -> None:
    """With all /proc files open a streamer of 64 ranks hit the limit of 1,024 and took its run for dead."""
    script = """
import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from pathlib import Path
from loaderwatch.streamer.samplers.procfs import ProcessFiles
files = [ProcessFiles(os.getpid()) for _ in range(60)]
for _ in range(2):
    assert all(each.stat() is not None and each.status() is not None for each in files)
open("/dev/null").close()
for each in files:
    each.close()
assert len(os.listdir("/proc/self/fd")) < 10
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=PATIENCE_S)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
def test_the_streamer_takes_the_descriptors_it_may_have() -> None:
    script = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 128))
from loaderwatch.core.system import raise_descriptor_limit
from loaderwatch.streamer.__main__ import MAX_FILES
raise_descriptor_limit(MAX_FILES)
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""
    ran = subprocess.run(
        [sys.executable, "-c", script], check=True, timeout=PATIENCE_S, capture_output=True, text=True
    )
    assert ran.stdout.strip() == "128"

"""A process that died: of what, by its last words and the kernel's counters."""

from __future__ import annotations

from typing import Any

import pytest

from loaderwatch.core.facts import Call, FailedSample, PhaseName
from loaderwatch.core.records import EndedBy, Outcome
from loaderwatch.detect.crash import detector
from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding
from loaderwatch.detect.window import RunWindow
from tests.unit.detect.build import RankBuilder, S, loader, run, verdict_now


def dead(text: str | None, *, steps: int = 50, phase: PhaseName = "wait", **fields: object) -> RankBuilder:
    builder = RankBuilder(loaders=[loader(**fields)])
    for _ in range(steps):
        builder.step(0.001, 0.05)
    builder.open(phase, 0.1)
    builder.state, builder.exit = "crashed", text
    return builder


def known_reason(window: RunWindow) -> list[Finding]:
    """What the rules on loaders say of a death; the rule on any other death is left out."""
    return detector.detect(RunEvidence(window))


WORKER = "uncaught RuntimeError: DataLoader worker (pid 77) is killed by signal: "


@pytest.mark.parametrize(
    ("text", "scenario", "says"),
    [
        (WORKER + "Killed. ", "S37", "usually comes from the kernel's out-of-memory killer"),
        (WORKER + "Segmentation fault. ", "S37", "Segmentation fault"),
        (
            WORKER + "Bus error. It is possible that dataloader's workers are out of shared memory.",
            "S39",
            "/dev/shm",
        ),
        (
            "uncaught RuntimeError: unable to write to file </torch_12_345_0>: No space left on device (28)",
            "S39",
            "--shm-size",
        ),
        (
            "uncaught RuntimeError: unable to resize file </torch_1> to the right size",
            "S39",
            "prefetch_factor",
        ),
        (
            "uncaught RuntimeError: Caught OSError in DataLoader worker process 0. OSError:"
            " [Errno 28] No space left on device",
            "S39",
            "/dev/shm",
        ),
        (
            "uncaught RuntimeError: [enforce fail at inline_container.cc:672] . unexpected pos 8000896 vs"
            " 8000848",
            "S56",
            "a disk seems to be full",
        ),
        ("uncaught OSError: [Errno 24] Too many open files", "S40", "ulimit"),
        ("uncaught RuntimeError: received 0 items of ancdata", "S40", ".clone()"),
    ],
)
def test_last_words_are_understood(text: str, scenario: str, says: str) -> None:
    window = run(dead(text), host={"shm_total_bytes": 64e6})
    (finding,) = detect(RunEvidence(window))
    assert (finding.scenario, finding.code, finding.severity) == (scenario, "crashed", "critical")
    assert says in " ".join([finding.title, finding.cause, finding.advice])
    assert verdict_now(window, [finding]).title == finding.title


@pytest.mark.parametrize(
    ("steps", "used", "scenario"),
    [
        (50, 1e6, "S56"),
        (50, 63e6, "S39"),
        (0, 1e6, "S39"),  # workers are being started, and semaphores lie in /dev/shm
    ],
)
def test_which_of_the_two_was_full(steps: int, used: float, scenario: str) -> None:
    text = "uncaught OSError: [Errno 28] No space left on device"
    window = run(dead(text, steps=steps), host={"shm_total_bytes": 64e6, "shm_used_bytes": used})
    (finding,) = detect(RunEvidence(window))
    assert (finding.scenario, finding.severity) == (scenario, "critical")
    assert finding.title == (
        "Training died because a disk is full and a file could not be written."
        if scenario == "S56"
        else "Training died because /dev/shm is full."
    )


def test_a_checkpoint_that_cannot_be_read_is_no_full_disk() -> None:
    text = (
        "uncaught RuntimeError: [enforce fail at inline_container.cc:110] ."
        " PytorchStreamReader failed reading zip archive"
    )
    assert not [finding for finding in detect(RunEvidence(run(dead(text)))) if finding.scenario == "S56"]


def test_without_workers_nothing_lies_in_shared_memory() -> None:
    (finding,) = detect(
        RunEvidence(run(dead("uncaught OSError: [Errno 122] Disk quota exceeded", num_workers=0)))
    )
    assert finding.scenario == "S56"


LATE = "sample 7 of train took 60.0 s in worker 1, longer than sample_timeout=60"


@pytest.mark.parametrize(
    ("text", "because", "cause"),
    [
        (
            "uncaught SampleTimeout: Caught SampleTimeout in DataLoader worker process 1."
            f" loaderwatch.core.errors.SampleTimeout: {LATE}. It stood at /data/train.py:7 in __getitem__."
            " Look at what it waits for there, raise sample_timeout, o",
            LATE,
            "It stood at /data/train.py:7 in __getitem__.",
        ),
        (
            f"uncaught SampleTimeout: {LATE}. It could not be interrupted, so the worker was ended:"
            " it stood at train.py:7 in read. Give that call a timeout of its own",
            LATE,
            "It could not be interrupted, so the worker was ended: it stood at train.py:7 in read.",
        ),
        (
            "uncaught SampleTimeout",  # redacted
            "a sample took longer than its loader's sample_timeout",
            "attach(sample_timeout=…) ended the training for it.",
        ),
        (
            WORKER + "Real-time signal 18. ",
            "sample 7 took longer than its loader's sample_timeout in worker 1 (pid 77)",
            "The sample could not be interrupted, so loaderwatch ended its worker. The worker was in"
            " code that does not return to Python, or that catches every exception."
            " The job's log has the line.",
        ),
    ],
)
def test_a_sample_that_took_too_long(text: str, because: str, cause: str) -> None:
    builder = dead(text).worker(1, "fetch", 2, pid=77, alive=False, sample_index=7, sample_age=2)
    builder.add("sample_timeouts", loader=0, worker=1, index=7, limit_ns=60 * S, outcome=Outcome.RAISED)
    (finding,) = detect(RunEvidence(run(builder)))
    assert (finding.code, finding.severity, finding.worker) == ("crashed", "critical", 1)
    assert (finding.title, finding.cause) == (f"Training died because {because}.", cause)
    assert finding.sample_indices == [7]


@pytest.mark.parametrize("text", [WORKER + "Killed. ", None])
def test_the_kernel_says_it_was_memory(text: str | None) -> None:
    rows = [{"oom_kills": 3.0}] * 4 + [{"oom_kills": 4.0}]
    (finding,) = detect(RunEvidence(run(dead(text), host_rows=rows)))
    assert finding.scenario == "S37"
    assert "was killed: out of memory" in finding.title
    assert {item.label: item.value for item in finding.evidence}["out-of-memory kills"] == 1


@pytest.mark.parametrize(
    ("text", "method", "says"),
    [
        (
            "uncaught AttributeError: Can't pickle local object 'main.<locals>.<lambda>'",
            "spawn",
            "module level",
        ),
        ("uncaught TypeError: cannot pickle '_thread.lock' object", "forkserver", "pickled"),
        ("uncaught RuntimeError: Cannot re-initialize CUDA in forked subprocess.", "fork", "CPU tensors"),
        ("uncaught AssertionError: daemonic processes are not allowed to have children", "fork", "daemon"),
        ("uncaught RuntimeError: DataLoader worker (pid(s) 7, 8) exited unexpectedly", "spawn", "__main__"),
        ("uncaught RuntimeError: something else", "fork", "num_workers=0"),
    ],
)
def test_before_the_first_batch(text: str, method: str, says: str) -> None:
    (finding,) = detect(RunEvidence(run(dead(text, steps=0, phase="iter", start_method=method))))
    assert finding.scenario == "S42"
    assert says in " ".join([finding.title, finding.cause, finding.advice])
    assert "before the first batch" in finding.title


@pytest.mark.parametrize(
    "builder",
    [
        dead("uncaught ValueError: my own mistake"),
        dead("uncaught ValueError: my own mistake", steps=0, phase="outside"),
        dead("uncaught ValueError: my own mistake", steps=0, phase="wait", num_workers=0),
        dead(None),
        dead("uncaught KeyboardInterrupt"),
    ],
)
def test_errors_of_the_users_own_are_left_to_them(builder: RankBuilder) -> None:
    assert known_reason(run(builder)) == []


def test_the_first_rank_that_died_speaks_for_all() -> None:
    first, second = dead(WORKER + "Killed. "), dead("uncaught RuntimeError: Connection closed by peer")
    second.rank = 1
    second.now_ns += 10**9
    findings = detect(RunEvidence(run(first, second)))
    assert [(finding.scenario, finding.rank) for finding in findings if finding.code == "crashed"] == [
        ("S37", 0)
    ]


KILLED = WORKER + "Killed. "
CAUGHT = (
    "uncaught FileNotFoundError: Caught FileNotFoundError in DataLoader worker process 0."
    " [Errno 2] No such file"
)


def started(text: str | None, *, worker_phase: PhaseName = "fetch", **fields: object) -> RankBuilder:
    """Dead in its first batch, which its workers were reading."""
    builder = dead(text, steps=0, phase="wait", **fields)
    builder.worker(0, worker_phase, 0.1, sample_age=0.1, sample_index=3)
    builder.workers_are_gone = True
    return builder


@pytest.mark.parametrize("text", [None, "uncaught KeyboardInterrupt", "exit code 143", CAUGHT])
def test_an_end_in_a_slow_first_batch_is_no_failed_start(text: str | None) -> None:
    assert known_reason(run(started(text))) == []
    assert known_reason(run(dead(text, steps=0, phase="wait"))) == []  # also when nobody saw its workers


def test_an_error_of_the_first_batch_is_the_datasets() -> None:
    builder = dead(CAUGHT, steps=0, phase="wait").epoch_left(EndedBy.ERROR).open("outside", 0.2)
    assert known_reason(run(builder)) == []
    unpickled = (
        "uncaught UnpicklingError: Caught UnpicklingError in DataLoader worker process 1."
        " pickle data was truncated"
    )
    builder.exit = unpickled
    assert known_reason(run(builder)) == []


@pytest.mark.parametrize("text", [None, "uncaught KeyboardInterrupt", "exit code 143"])
def test_who_is_stopped_while_workers_start_has_not_failed_to_start_them(text: str | None) -> None:
    assert known_reason(run(dead(text, steps=0, phase="iter"))) == []


def test_an_error_of_iter_is_a_failed_start_after_its_epoch_was_closed() -> None:
    builder = dead(
        "uncaught TypeError: cannot pickle 'x' object", steps=0, phase="iter", start_method="spawn"
    )
    builder.epoch_left(EndedBy.ERROR, in_iter=True).open("outside", 20.0)
    (finding,) = detect(RunEvidence(run(builder)))
    assert finding.scenario == "S42"
    builder.exit = "uncaught RuntimeError: can't start new thread"
    (finding,) = detect(RunEvidence(run(builder)))
    assert (finding.scenario, finding.confidence) == ("S42", 0.5)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_worker_that_vanishes_in_its_first_batch_was_killed(method: str) -> None:
    text = "uncaught RuntimeError: DataLoader worker (pid(s) 200, 201) exited unexpectedly"
    (finding,) = detect(RunEvidence(run(started(text, start_method=method))))
    assert (finding.scenario, finding.worker, finding.pid) == ("S37", 0, 200)
    assert "worker 0 (pid 200) ended suddenly" in finding.title
    (finding,) = detect(RunEvidence(run(started(text, start_method=method), host=PLENTY)))
    assert "45 GB of the host's 64 GB were free" in finding.cause
    assert "memory" not in finding.advice


def test_cuda_in_a_worker_of_the_first_batch_is_told_as_before() -> None:
    text = (
        "uncaught RuntimeError: Caught RuntimeError in DataLoader worker process 0."
        " Cannot re-initialize CUDA in forked"
    )
    (finding,) = detect(RunEvidence(run(started(text))))
    assert (finding.scenario, finding.confidence) == ("S42", 0.9)


@pytest.mark.parametrize("gone", [False, True])
def test_a_worker_that_crashed_is_named_with_its_sample(gone: bool) -> None:
    builder = dead(
        "uncaught RuntimeError: DataLoader worker (pid 201) is killed by signal: Segmentation fault. "
    )
    builder.worker(0, "idle", 0.1).worker(1, "fetch", 0.1, sample_age=0.05, sample_index=3210, alive=False)
    builder.workers_are_gone = gone
    (finding,) = detect(RunEvidence(run(builder)))
    assert (finding.worker, finding.pid, finding.sample_indices) == (1, 201, [3210])
    assert (
        finding.title
        == "Training died because worker 1 (pid 201) crashed (Segmentation fault) in dataset[3210]."
    )
    assert finding.advice.startswith("Read dataset[3210] alone, with num_workers=0")


def test_a_worker_killed_while_it_handed_over_a_batch_is_named() -> None:
    builder = dead(
        "uncaught ConnectionResetError: [Errno 104] Connection reset by peer, as DataLoader worker (pid 201)"
        " is killed by signal: Killed"
    )
    builder.worker(1, "fetch", 0.1, sample_age=0.05, sample_index=3210, alive=False)
    (finding,) = detect(RunEvidence(run(builder)))
    assert (finding.scenario, finding.worker, finding.pid) == ("S37", 1, 201)


def test_a_worker_that_read_nothing_blames_no_sample() -> None:
    builder = dead(
        "uncaught RuntimeError: DataLoader worker (pid 201) is killed by signal: Segmentation fault. "
    )
    builder.worker(1, "idle", 0.1, sample_age=0.05, sample_index=3210, alive=False)
    (finding,) = detect(RunEvidence(run(builder)))
    assert (finding.worker, finding.sample_indices) == (1, [])
    assert "dataset[" not in finding.title + finding.cause + finding.advice


def test_a_sample_of_before_it_died_is_not_blamed() -> None:
    builder = dead(KILLED.replace("77", "201"))
    builder.worker(1, "fetch", 0.1, sample_age=0.05, sample_index=3210, alive=True)
    (finding,) = detect(RunEvidence(run(builder)))
    assert (finding.worker, finding.pid, finding.sample_indices) == (1, 201, [])


def test_workers_of_a_process_before_it_are_not_meant() -> None:
    builder = dead(KILLED.replace("77", "201"))
    builder.worker(1, "fetch", 3600.0, sample_index=5)
    (finding,) = detect(RunEvidence(run(builder)))
    assert (finding.worker, finding.pid, finding.sample_indices) == (None, 201, [])


PLENTY = {"memory_available_bytes": 45e9, "memory_total_bytes": 64e9}


def test_with_plenty_of_memory_free_somebody_else_did_it() -> None:
    builder = dead(KILLED.replace("77", "201")).worker(
        1, "fetch", 0.1, sample_age=0.1, sample_index=333, alive=False
    )
    (finding,) = detect(RunEvidence(run(builder, host=PLENTY | {"memory_limit_hits": 2.0})))
    assert finding.cause.startswith("A person or a program sent SIGKILL")
    assert "45 GB of the host's 64 GB were free" in finding.cause
    assert "; the control group never reached its limit." in finding.cause
    assert "It was reading dataset[333]." in finding.cause
    assert "memory" not in finding.advice
    assert (finding.severity, finding.confidence) == ("critical", 0.75)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([PLENTY | {"memory_available_bytes": 5e9}, PLENTY], " 5.0 GB of the host's 64 GB were free"),
        (
            [PLENTY | {"memory_limit_hits": 1.0}, PLENTY | {"memory_limit_hits": 4.0}],
            "; the control group reached its limit 3 times.",
        ),
        (
            [PLENTY | {"memory_limit_bytes": 8e9, "memory_used_bytes": 7.9e9}],
            "used 7.9 GB of 8.0 GB allowed",
        ),
    ],
)
def test_where_memory_was_short_the_figure_is_part_of_the_sentence(
    rows: list[dict[str, float]], says: str
) -> None:
    (finding,) = detect(RunEvidence(run(dead(KILLED), host_rows=rows)))
    assert "usually comes from the kernel's out-of-memory killer" in finding.cause
    assert says in finding.cause
    assert "give the job more memory" in finding.advice


def test_a_signal_that_people_send_is_no_crash_of_native_code() -> None:
    (finding,) = detect(RunEvidence(run(dead(WORKER + "Terminated. "))))
    assert "was ended from outside (Terminated)" in finding.title
    assert "Native code" not in finding.cause


def test_ctrl_c_is_nobodys_fault() -> None:
    builder = dead("uncaught KeyboardInterrupt")
    assert verdict_now(run(builder), []).severity == "info"


def test_descriptors_are_counted_every_five_seconds() -> None:
    """255 of 300 were open at the last count, and 23 more each second."""
    builder = dead("uncaught EOFError")
    for second in range(13):
        fds = 25 + 23 * (second - second % 5)
        at_ns = builder.now_ns - (13 - second) * S
        builder.process(worker=0, pid=200, cpu=0.5, fds=fds, fd_limit=300, t_ns=at_ns)
    (finding,) = [one for one in detect(RunEvidence(run(builder))) if one.code == "crashed"]
    assert (finding.scenario, finding.worker) == ("S40", 0)
    assert "The worker last had 255 of 300 descriptors open" in finding.cause


@pytest.mark.parametrize(("fds", "told"), [(295.0, True), (120.0, False)])
def test_a_worker_that_could_open_no_more(fds: float, told: bool) -> None:
    """It cannot hand its batch over, and what the training dies of is the end of that."""
    builder = dead("uncaught EOFError")
    builder.process(worker=0, pid=200, cpu=0.5, fds=40, fd_limit=300)
    builder.process(worker=1, pid=201, cpu=0.5, fds=fds, fd_limit=300)
    found = [finding for finding in detect(RunEvidence(run(builder))) if finding.scenario == "S40"]
    assert [finding.worker for finding in found] == ([1] if told else [])
    if told:
        assert found[0].title == "Training died because worker 1 ran out of file descriptors."
        assert "The worker last had 295 of 300 descriptors open" in found[0].cause


AT = Call(file="/home/me/project/data.py", function="__getitem__", line=12)
TORN = "uncaught OSError: Caught OSError in DataLoader worker process 1. OSError: image file is truncated"


def failed(text: str = TORN, **fields: Any) -> RankBuilder:
    """A process that died of an error which worker 1 raised."""
    builder = dead(text)
    facts: dict[str, Any] = {"loader": 0, "worker": 1, "samples": 1, "indices": [237], "at": AT}
    builder.failed = FailedSample(**(facts | {"error": "OSError: image file is truncated"} | fields))
    return builder


def test_the_sample_whose_reading_failed() -> None:
    (finding,) = detect(RunEvidence(run(failed())))
    assert (finding.code, finding.severity, finding.worker, finding.sample_indices) == (
        "crashed",
        "critical",
        1,
        [237],
    )
    assert finding.title == (
        "Training died of an error that worker 1 raised on sample 237, at data.py:12 in __getitem__: OSError:"
        " image file is truncated."
    )
    assert "train_loader" in finding.cause
    assert "dataset[237]" in finding.advice
    told = {each.label: each.value for each in finding.evidence}
    assert told["failed in"] == "/home/me/project/data.py:12 in __getitem__"
    assert told["sample it was reading"] == 237


@pytest.mark.parametrize(
    ("fields", "title", "advice"),
    [
        ({"worker": -1}, "that the training process raised on sample 237, at", "dataset[237]"),
        ({"indices": ["a.jpg"]}, "raised on sample a.jpg, at", "dataset['a.jpg']"),
        ({"indices": []}, "raised on a sample, at", "without a DataLoader"),
        ({"counted": True}, "raised on sample number 237 of an iterable dataset", "without a DataLoader"),
        ({"samples": 3, "indices": [4, 5, 6]}, "raised on samples 4, 5, 6, at", "this batch alone"),
        (
            {"samples": 20, "indices": list(range(20)), "collating": True},
            "raised while collating samples 0, 1, 2, 3, 4, 5, 6, 7 and 12 more",
            "collate_fn",
        ),
        ({"samples": 4, "indices": []}, "raised on a batch, at", "without a DataLoader"),
        ({"at": None, "error": ""}, "raised on sample 237.", "dataset[237]"),
    ],
)
def test_what_is_known_of_what_failed(fields: dict[str, Any], title: str, advice: str) -> None:
    (finding,) = detect(RunEvidence(run(failed(**fields))))
    assert title in finding.title
    assert advice in finding.advice
    assert len(finding.sample_indices) <= 8


def test_what_a_process_ran_out_of_is_told_before_the_sample() -> None:
    (finding,) = detect(RunEvidence(run(failed("uncaught OSError: [Errno 24] Too many open files"))))
    assert finding.scenario == "S40"


def test_an_interrupt_of_a_fetch_is_no_failed_sample() -> None:
    assert known_reason(run(failed("uncaught KeyboardInterrupt"))) == []

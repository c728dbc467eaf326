"""How much one caller may ask for."""

from __future__ import annotations

import asyncio

import pytest

from loaderwatch.server.access.rate_limits import _MOST_KEYS, Allowance, Guesses, TooMany, Turns, caller_of


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_an_allowance_is_used_up_and_comes_back() -> None:
    clock = Clock()
    allowance = Allowance(3, 0.5, clock)
    for _ in range(3):
        assert allowance.wait_s("a") == 0
        allowance.take("a")
    assert allowance.wait_s("a") == pytest.approx(2.0)
    assert allowance.wait_s("b") == 0
    clock.now += 2.0
    assert allowance.wait_s("a") == 0
    clock.now += 1e6
    allowance.take("a", 10)
    assert allowance.wait_s("a", 10) == pytest.approx(20.0), "more than a burst can be had, once all is there"


def test_many_callers_fill_no_memory() -> None:
    allowance = Allowance(1, 1)
    guesses = Guesses()
    for number in range(_MOST_KEYS + 50):
        allowance.take(str(number))
        guesses.note(str(number), "wrong", right=False)
    assert len(allowance) == _MOST_KEYS
    assert len(guesses._shown) == _MOST_KEYS


def test_a_guesser_waits_and_others_do_not() -> None:
    clock = Clock()
    guesses = Guesses(clock)
    guesses.note("here", "right", right=True)
    for number in range(Guesses.BURST):
        assert guesses.wait_s("here", f"guess {number}") == 0
        guesses.note("here", f"guess {number}", right=False)
    assert guesses.wait_s("here", "the next") > 0
    assert guesses.wait_s("here", "right") == 0, "who was in stays in"
    assert guesses.wait_s("there", "the next") == 0
    clock.now += 1 / Guesses.PER_S
    assert guesses.wait_s("here", "the next") == 0


def test_a_job_with_an_old_token_locks_nobody_out() -> None:
    guesses = Guesses(Clock())
    for _ in range(10 * Guesses.BURST):
        guesses.note("here", "the old one", right=False)
    assert guesses.wait_s("here", "the new one") == 0


def test_each_caller_gets_its_turns() -> None:
    async def check() -> None:
        turns = Turns(2, 1)
        running = 0
        most = 0
        open_now = asyncio.Event()

        async def ask(caller: str) -> None:
            nonlocal running, most
            async with turns.turn(caller):
                running += 1
                most = max(most, running)
                await open_now.wait()
                running -= 1

        greedy = [asyncio.create_task(ask("greedy")) for _ in range(3)]
        await asyncio.sleep(0.01)
        assert running == 2
        with pytest.raises(TooMany):
            await ask("greedy")
        other = asyncio.create_task(ask("other"))
        await asyncio.sleep(0.01)
        assert running == 3, "the other did not wait for the greedy one"
        open_now.set()
        await asyncio.gather(*greedy, other)
        assert not turns._callers

    asyncio.run(check())


@pytest.mark.parametrize(
    ("host", "caller"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:0db8:0001:0002"),
        ("2001:db8:1:2::9", "2001:0db8:0001:0002"),
        ("testclient", "testclient"),
        (None, ""),
    ],
)
def test_caller_of(host: str | None, caller: str) -> None:
    assert caller_of(host) == caller

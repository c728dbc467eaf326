"""Challenge and answer."""

from __future__ import annotations

import msgspec
import pytest

from loaderwatch.core.trust import NotProven, check_proof, new_challenge, proofs


def test_a_server_that_knows_the_token_proves_it_without_saying_it() -> None:
    challenge = new_challenge()
    answer = msgspec.json.encode(proofs(["viewer", "agent"], challenge))
    check_proof("agent", challenge, answer)
    check_proof("viewer", challenge, answer)
    assert b"agent" not in answer


def test_an_answer_is_worth_nothing_for_another_challenge() -> None:
    answer = msgspec.json.encode(proofs(["agent"], new_challenge()))
    with pytest.raises(NotProven, match="does not know this token"):
        check_proof("agent", new_challenge(), answer)


@pytest.mark.parametrize(
    "answer",
    [b"", b"<html>", b"[]", b"{}", b'{"proofs": "x"}', b'{"proofs": [1]}', b"\xff", b'{"status": "ok"}'],
)
def test_what_is_no_answer_proves_nothing(answer: bytes) -> None:
    with pytest.raises(NotProven, match="does not answer as a loaderwatch server"):
        check_proof("agent", new_challenge(), answer)


@pytest.mark.parametrize("answer", [b'{"proofs": []}', '{"proofs": ["\u00e9"]}'.encode()])
def test_no_proof_or_a_strange_one(answer: bytes) -> None:
    with pytest.raises(NotProven, match="does not know this token"):
        check_proof("agent", new_challenge(), answer)

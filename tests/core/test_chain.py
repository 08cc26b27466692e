"""Hash links, commitments and Merkle trees: recomputed here from the published definitions."""

from __future__ import annotations

import hmac
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devassist.core.chain import PUBLIC_SALT, ZERO_HASH, Salts, call_id, commit, leaf_hash, link, merkle_root

RUN = bytes.fromhex("0192f0c1a2b37c4d8e5f60718293a4b5")
# RFC 9162 has no vectors of its own; these are the leaves that implementations of RFC 6962 share.
LEAVES = [bytes.fromhex(h) for h in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657")]
ROOTS = {
    0: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    7: "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
}


def test_a_link_covers_place_and_body() -> None:
    """The bytes of the design, written out: label, stream, seq, time, the hash before, the body."""
    body, prev, at = b'{"k":"x","v":1}', bytes(range(32)), 1_700_000_000_000_000
    plain = b"devassist/event/1" + RUN + (7).to_bytes(8, "big") + at.to_bytes(8, "big") + prev + body
    assert link(RUN, 7, at, prev, body) == sha256(plain).digest()
    assert ZERO_HASH == b"\0" * 32


@given(st.integers(0, 5), st.binary(max_size=20))
def test_any_change_breaks_a_link(which: int, body: bytes) -> None:
    """Another stream, seq, time, predecessor or body gives another hash."""
    place = [RUN, 1, 2, ZERO_HASH, body]
    other = [bytes(16), 2, 3, b"\x01" * 32, body + b"x", body + b" "]
    changed = [*place]
    changed[min(which, 4)] = other[which]
    assert link(*changed) != link(*place)


def test_a_commitment_hides_the_text() -> None:
    """Label, salt, text; the salt is keyed, so equal texts of two domains have two references."""
    assert commit(b"s" * 16, "é".encode()) == sha256(b"devassist/payload/1" + b"s" * 16 + b"\xc3\xa9").digest()
    assert PUBLIC_SALT == b"\0" * 16
    assert commit(Salts(b"a" * 32).of(b"yes"), b"yes") != commit(Salts(b"b" * 32).of(b"yes"), b"yes")


@given(st.binary(min_size=1, max_size=100), st.binary(max_size=200))
def test_a_salt_is_an_hmac(key: bytes, text: bytes) -> None:
    """The first 16 bytes of HMAC-SHA-256, also for keys longer than a block; asking twice changes nothing."""
    salts = Salts(key)
    assert salts.of(text) == salts.of(text) == hmac.digest(key, text, "sha256")[:16]


def test_a_call_is_named_by_its_decision() -> None:
    """C17: the key depends on run, decision and index, not on a step number; two calls never share one."""
    expected = sha256(b"devassist/call/1" + RUN + (5).to_bytes(8, "big") + (2).to_bytes(4, "big")).hexdigest()[:32]
    assert call_id(RUN, 5, 2) == expected
    keys = {call_id(run, seq, index) for run in (RUN, bytes(16)) for seq in range(5) for index in range(5)}
    assert len(keys) == 50


@pytest.mark.parametrize("size", ROOTS)
def test_known_roots(size: int) -> None:
    """The roots that other implementations compute over the same leaves."""
    assert merkle_root(LEAVES[:size]).hex() == ROOTS[size]


@given(st.lists(st.binary(max_size=4), max_size=40))
def test_the_root_of_rfc_9162(leaves: list[bytes]) -> None:
    """By a second way: pairing level by level, a node without a partner moves up as it is."""
    level = [sha256(b"\0" + leaf).digest() for leaf in leaves] or [sha256(b"").digest()]
    while len(level) > 1:
        pairs = [sha256(b"\x01" + a + b).digest() for a, b in zip(level[::2], level[1::2], strict=False)]
        level = pairs + level[len(pairs) * 2 :]
    assert merkle_root(leaves) == level[0]


def test_leaves_and_nodes_cannot_be_confused() -> None:
    """A leaf that holds two hashes is not their parent."""
    left, right = leaf_hash(b"a"), leaf_hash(b"b")
    assert merkle_root([left + right]) != merkle_root([b"a", b"b"])

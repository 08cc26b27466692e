"""The text of API keys: made, read back, and nothing else taken for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devassist.core.api_keys import ID_BYTES, SECRET_BYTES, checked, id_in, made, parsed

IDS, SECRETS = st.binary(min_size=ID_BYTES, max_size=ID_BYTES), st.binary(min_size=SECRET_BYTES, max_size=SECRET_BYTES)


@given(IDS, SECRETS, SECRETS)
def test_a_key_that_was_made_is_read(key_id: bytes, secret: bytes, other: bytes) -> None:
    """It names its id; its digest depends on the secret, all of it, and on nothing else."""
    text = made(key_id, secret)
    token = parsed(text)
    assert token is not None
    assert (token.key_id, checked(text)) == (key_id.hex(), text)
    assert secret not in token.digest
    theirs = parsed(made(bytes(ID_BYTES), other))
    assert theirs is not None
    assert (theirs.digest == token.digest) == (other == secret)


@given(IDS, SECRETS, st.data())
def test_a_changed_key_is_another_or_none(key_id: bytes, secret: bytes, data: st.DataObject) -> None:
    """Any other character anywhere: no key, another id or another digest."""
    text = made(key_id, secret)
    place = data.draw(st.integers(0, len(text) - 1))
    char = data.draw(st.characters().filter(lambda c: c != text[place]))
    assert parsed(text[:place] + char + text[place + 1 :]) != parsed(text)


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    """Nothing raises; what is no key has no token, and is not repeated by the refusal."""
    assert parsed(text) is None
    with pytest.raises(ValueError, match="devassist keys create") as refused:
        checked(text)
    assert len(text) < 8 or text not in str(refused.value)


@given(IDS, SECRETS)
def test_an_id_is_found_in_what_people_type(key_id: bytes, secret: bytes) -> None:
    """Bare, with its prefix, or within the whole key; a part of an id is none."""
    name = key_id.hex()
    for typed in (name, f"dak_{name}", made(key_id, secret), f" {name}\n"):
        assert id_in(typed) == name
    for typed in (name[:-1], f"{name}0", f"dak{name}", "", "dak_", name.upper() + "X"):
        assert id_in(typed) is None

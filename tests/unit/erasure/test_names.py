"""Keys in names: every form is seen, and what is not a key is left as it is."""

from __future__ import annotations

import base64
import os
from urllib.parse import quote

import pytest

from logwright.erasure.names import HIDDEN, Names, is_hidden
from logwright.erasure.secret import Secret

SECRET = Secret.of(b"s" * 32)
KEY = "änna+smith@example.org"
HMAC = SECRET.hmac(KEY.encode())
NAMES = Names.of(SECRET, [HMAC, SECRET.hmac(b"log"), SECRET.hmac(b"\xff\xfe\xfd\xfc")])
SHOWN = f"{HIDDEN}{HMAC.hex()[:16]}"
RAW = KEY.encode()


@pytest.mark.parametrize(
    "form",
    [
        KEY,
        quote(KEY),
        RAW.hex(),
        RAW.hex().upper(),
        base64.b64encode(RAW).decode().rstrip("="),
        base64.urlsafe_b64encode(RAW).decode(),
    ],
)
@pytest.mark.parametrize(
    "around", ["{}", "inbox-{}", "inbox.{}-0/0.log", "a/{}/b", "{}.txt", "/x/_{}_"]
)
def test_a_key_is_hidden(form: str, around: str) -> None:
    """Wherever it stands as a part, and the rest of the name stays."""
    name = around.format(form)
    assert around.format(SHOWN) == NAMES.shown(name)
    assert NAMES.has_key(name)
    assert is_hidden(NAMES.shown(name))


def test_twice_in_a_name() -> None:
    """Both are hidden."""
    assert f"{SHOWN}.{SHOWN}" == NAMES.shown(f"{KEY}.{KEY}")


def test_bytes_that_are_not_utf8() -> None:
    """As `os` has them."""
    assert NAMES.has_key(os.fsdecode(b"x-\xff\xfe\xfd\xfc-y"))


@pytest.mark.parametrize(
    "name",
    [
        "t-0/00000000000000000000.log",
        "t-0/00000000000000000000.timeindex.deleted",
        "__consumer_offsets-12/leader-epoch-checkpoint",
        "meta.properties",
        "",
        "/",
        os.fsdecode(b"caf\xe9-0"),
        "%zz-100%",
        "anna@example.org",
    ],
)
def test_no_false_alarm(name: str) -> None:
    """Other names stay, also where a key is as short as `log`."""
    assert name == NAMES.shown(name)
    assert not is_hidden(name)

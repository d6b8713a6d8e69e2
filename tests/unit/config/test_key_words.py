"""Which keys an `erase` of a cluster's file is about, by its words."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from logwright.cli.options.erase import command
from logwright.config.key_words import KeySource, key_source


def test_all_options_that_name_keys() -> None:
    """Relative paths are below the directory; the last one counts; an id can be repeated."""
    words = (
        "erase --keys=no --keys k --keys-format hex --topic regex:a=b --requests /r"
        " --request r-1 --request=r-2 --secret s"
    )
    expected = KeySource(
        keys=Path("/elsewhere/k"),
        form="hex",
        topics="regex:a=b",
        requests=Path("/r"),
        only=("r-1", "r-2"),
        secret=Path("/elsewhere/s"),
    )
    assert expected == key_source(shlex.split(words), Path("/elsewhere"))
    assert KeySource(keys=Path("/elsewhere/k")) == key_source(
        ["erase", "--keys", "k"], Path("/elsewhere")
    )


def test_as_the_command_takes_them() -> None:
    """The same words mean the same to `logwright erase`."""
    words = (
        "--keys k --keys-format base64 --topic t --requests r --request a --request b --secret s"
    )
    given = command.make_context("erase", ["/log-dir", *words.split()]).params
    source = key_source(["erase", *words.split()])
    assert given["keys"] == source.keys
    assert given["keys_format"] == source.form
    assert given["topics"] == source.topics
    assert given["requests"] == source.requests
    assert given["only"] == source.only
    assert given["secret"] == source.secret


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("erase", "names no keys: --keys FILE, or --requests DIR"),
        ("erase --topic t", "names no keys"),
        ("erase --keys", "has no value after --keys"),
        ("erase --keys k --yes", "takes only --keys, --keys-format, --requests, --request, "),
        ("erase --keys k people-0", "without --now-and-for-good"),
        ("erase --keys k --keys-format octal", "has no --keys-format octal: text, base64, hex"),
    ],
)
def test_what_is_refused(words: str, problem: str) -> None:
    """Also what is about a log directory: it is not run on one."""
    with pytest.raises(ValueError, match=problem):
        key_source(words.split())

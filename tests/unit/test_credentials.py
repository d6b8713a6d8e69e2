"""What a URL has of credentials is in no message."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.credentials import without_credentials
from logwright.errors import NotALogDir
from tests.e2e.command import call

PLANTED = "planted-in-a-url"
URLS = (
    f"s3://id:{PLANTED}@bucket/logs",
    f"S3://id:{PLANTED}@bucket/logs",
    f"az://c/x?sv=1&sig={PLANTED}",
    f"s3://bucket/x?X-Amz-Signature={PLANTED}&x=1",
    f"https://account.blob.core.windows.net/c/x?sv=1&sig={PLANTED}",
    f"https://storage.googleapis.com/b/x?X-Goog-Signature={PLANTED}",
    f"file:///x?sig={PLANTED}",
)


@pytest.mark.parametrize("url", URLS)
def test_an_error_has_none(url: str) -> None:
    """Also in its path, in which the slashes of a URL are one; what else it says stays."""
    error = NotALogDir(f"has no {url}.", path=Path(url), remedy="Give another directory.")
    assert PLANTED not in str(error)
    assert "***" in str(error)
    assert str(error).endswith("Give another directory.")


@pytest.mark.parametrize(
    "text",
    [
        "s3://bucket/logs: cannot be read (EIO: ...).",
        "/var/lib/kafka/data/t-0/00000000000000000000.log at byte 7: a@b, c:/d",
        "Listening on http://127.0.0.1:9090/metrics",
        "design=1&x=2 of kafka:9092, ann@example.com",
    ],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    """Places are named as they were given."""
    assert text == without_credentials(text)


def test_a_connection_string_has_none() -> None:
    """As Azure's tools give it."""
    text = f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey=a/{PLANTED}==;EndpointSuffix=x"
    assert PLANTED not in without_credentials(text)


COMMANDS = (
    ("inspect", "URL"),
    ("find", "LOGS", "--keys", "KEYS", "--table", "URL"),
    ("find", "LOGS", "--keys", "KEYS", "--archive", "URL"),
    ("latest", "LOGS", "t", "--to", "URL", "--value", "string"),
    ("upload", "LOGS", "--to", "URL"),
    ("move", "LOGS", "t-0", "--to", "URL", "--yes"),
    ("verify", "LOGS", "URL"),
    ("metrics", "URL"),
    ("doctor", "URL"),
)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_url_with_some_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """By every command, and nothing has its name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    (tmp_path / "logs" / "t-0").mkdir(parents=True)
    (tmp_path / "keys").write_text("ann@example.com\n")
    there = {"LOGS": str(tmp_path / "logs"), "KEYS": str(tmp_path / "keys")}
    for url in URLS:
        answer = call(*[(there | {"URL": url}).get(word, word) for word in words])
        assert 0 != answer.status
        assert PLANTED not in answer.out + answer.err
    assert ["keys", "logs"] == sorted(path.name for path in tmp_path.iterdir())

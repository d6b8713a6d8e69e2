"""The secret: who may read it, and what is computed with it."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from logwright.erasure.secret import Secret, load_secret
from logwright.errors import PolicyError
from logwright.format.siphash import HashKey
from tests import twins

TEXT = b"0123456789abcdef0123456789abcdef"


def write(path: Path, content: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(content)
    path.chmod(mode)
    return path


def test_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    """The newline at the end of the file is not part of the secret."""
    secret = load_secret(write(tmp_path / "secret", TEXT + b"\n"))
    assert Secret.of(TEXT) == secret
    assert secret == load_secret(None, TEXT.decode())
    assert secret == load_secret(write(tmp_path / "stricter", TEXT, 0o400))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o610])
def test_a_file_that_others_may_read_is_refused_by_name(tmp_path: Path, mode: int) -> None:
    """Any right of group or others is too much."""
    path = write(tmp_path / "secret", TEXT, mode)
    with pytest.raises(PolicyError, match=f"{path}.*{mode:04o}"):
        load_secret(path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    """A link, a directory, a short or a huge secret, none at all."""
    (tmp_path / "link").symlink_to(write(tmp_path / "secret", TEXT))
    for path in (tmp_path / "link", tmp_path, tmp_path / "missing"):
        with pytest.raises(PolicyError, match=str(path)):
            load_secret(path)
    with pytest.raises(PolicyError, match="has 31 bytes"):
        load_secret(write(tmp_path / "short", TEXT[1:]))
    with pytest.raises(PolicyError, match="4097 bytes"):
        load_secret(write(tmp_path / "long", bytes(4097)))
    for environment in (None, ""):
        with pytest.raises(PolicyError, match="LOGWRIGHT_ERASURE_SECRET"):
            load_secret(None, environment)


@pytest.mark.parametrize("key", [b"", b"alice", bytes(range(256)) * 5])
def test_the_hmac_is_that_of_openssl(key: bytes) -> None:
    """A stranger can compute it without logwright."""
    command = ["openssl", "dgst", "-sha256", "-hmac", TEXT.decode(), "-binary"]
    theirs = subprocess.run(command, input=key, capture_output=True, check=True).stdout
    assert theirs == Secret.of(TEXT).hmac(key)


def test_the_filter_is_a_keyed_hash() -> None:
    """The twin of SipHash gives the same under the derived key, and another secret another one."""
    secret = Secret.of(TEXT)
    low, high = secret.hash_key.low, secret.hash_key.high
    for key in (b"", b"alice", b"x" * 100):
        assert twins.siphash128(key, low, high)[0] & 0xFFFFFFFF == secret.filter(key)
    assert secret.hash_key != Secret.of(TEXT[::-1]).hash_key


def test_nothing_shows_the_secret() -> None:
    """Neither its text, nor the derived keys, nor an HMAC that a record key could have."""
    secret = Secret.of(TEXT)
    assert TEXT.decode() not in repr(secret)
    assert str(secret.hash_key.low) not in repr(secret)
    for label in (b"logwright erasure filter", b"logwright erasure secret id"):
        digest = secret.hmac(label)
        assert digest[:8].hex() != secret.id
        assert (
            HashKey(
                low=int.from_bytes(digest[:8], "little"),
                high=int.from_bytes(digest[8:16], "little"),
            )
            != secret.hash_key
        )
    assert secret.id not in hashlib.sha256(TEXT).hexdigest()
    assert Secret.random() != Secret.random()

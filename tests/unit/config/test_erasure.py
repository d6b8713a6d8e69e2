"""The section ``erasure`` of the policies."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.config.erasure import ErasureSettings
from logwright.config.policies import load_policies
from logwright.errors import PolicyError
from logwright.resources.erasure import request_places

ALL = (
    "{landing: in, store: kept, secret_file: s, certificates: c, signing_key: k, issuer: us,"
    " look_every_ms: 60000, margin_ms: 0, appends_continue: true,"
    " deadline_sweeps: true, owner: privacy}"
)


def load(tmp_path: Path, section: str) -> ErasureSettings:
    (tmp_path / "p.yml").write_text(f"version: 1\nerasure: {section}\n")
    return load_policies(tmp_path).erasure


def test_section(tmp_path: Path) -> None:
    """All of its settings; none without the section."""
    values = ("in", "kept", "s", "c", "k", "us", 60_000, 0, True, True, "privacy")
    assert values == tuple(load(tmp_path, ALL).model_dump().values())
    assert load(tmp_path, "{}").store is None
    assert (3_600_000, 3_600_000) == (
        ErasureSettings().look_every_ms,
        ErasureSettings().margin_ms,
    )


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ("{landing: in}", "p.yml:2:20: erasure.landing: store is required"),
        ("{secret_file: s}", "store is required"),
        ("{signing_key: k, certificates: c}", "store is required"),
        ("{store: s, signing_key: k}", "erasure.signing_key: certificates and signing_key belong"),
        ("{store: s, certificates: c}", "erasure.certificates: certificates and signing_key"),
        ("{store: s, look_every_ms: 59999}", "erasure.look_every_ms"),
        ("{store: s, margin_ms: -1}", "erasure.margin_ms"),
        ("{stor: s}", "stor"),
        ("{issuer: ' '}", "erasure.issuer.*is empty"),
        ("{issuer: %s}" % ("x" * 201), "is longer than 200 characters"),
        ('{issuer: "a\\nb"}', "has a character that cannot be printed"),
    ],
)
def test_problems(tmp_path: Path, section: str, problem: str) -> None:
    """Each with its place."""
    with pytest.raises(PolicyError, match=problem):
        load(tmp_path, section)


def test_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The secret is of the file, else of the environment; others must not read the file."""
    monkeypatch.delenv("LOGWRIGHT_ERASURE_SECRET", raising=False)
    secret = tmp_path / "secret"
    secret.write_text("x" * 40)
    secret.chmod(0o600)
    settings = ErasureSettings(store="kept", secret_file=str(secret))
    places = request_places(settings)
    assert (None, Path("kept")) == (places.landing, places.store)
    with pytest.raises(PolicyError, match="no secret"):
        request_places(ErasureSettings(store="kept"))
    monkeypatch.setenv("LOGWRIGHT_ERASURE_SECRET", "x" * 40)
    assert places.secret.id == request_places(ErasureSettings(store="kept")).secret.id
    secret.chmod(0o640)
    with pytest.raises(PolicyError, match="0640"):
        request_places(settings)
    with pytest.raises(PolicyError, match="store"):
        request_places(ErasureSettings())

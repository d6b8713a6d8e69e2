"""Where the platform finds what the clusters and brokers say."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.config.topic import TopicConfig
from logwright.errors import CorruptLogError, PolicyError
from logwright.resources.policies import METADATA_VARIABLE, PROPERTIES_VARIABLE, PolicyDirectory
from tests.metadata_builder import MetadataBuilder, config, topic


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    """Policies that say nothing."""
    directory = tmp_path / "policies"
    directory.mkdir()
    (directory / "defaults.yml").write_text("version: 1\n")
    return directory


@pytest.fixture
def log_dirs(tmp_path: Path) -> list[Path]:
    """Two log directories of two brokers."""
    paths = [tmp_path / name / "logs" for name in ("a", "b")]
    for log_dir in paths:
        log_dir.mkdir(parents=True)
    return paths


def cluster(path: Path, policy: str) -> Path:
    """Metadata of a topic t with this cleanup.policy."""
    builder = MetadataBuilder(path)
    builder.segment(0, [topic("t", 1)], [config(2, "t", "cleanup.policy", policy)])
    return builder.path


def configs(resource: PolicyDirectory, log_dirs: list[Path]) -> list[TopicConfig]:
    settings = resource.settings()
    return [settings.topic(log_dir, "t") for log_dir in log_dirs]


def test_each_directory_has_its_own(
    policies: Path, log_dirs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its path, else that of all; what is given goes before the environment."""
    (first, two) = (cluster(tmp_path / name, name) for name in ("compact", "delete"))
    fast, slow = tmp_path / "fast", tmp_path / "slow"
    fast.write_text("log.roll.ms=1\n")
    slow.write_text("log.roll.ms=2\n")
    monkeypatch.setenv(METADATA_VARIABLE, f"{log_dirs[1]}={two}, {first}")
    monkeypatch.setenv(PROPERTIES_VARIABLE, f"{slow},{log_dirs[0]}={fast}")
    resource = PolicyDirectory(directory=str(policies))
    settings = configs(resource, log_dirs)
    assert [("compact",), ("delete",)] == [each.cleanup_policy for each in settings]
    assert [1, 2] == [each.segment_ms for each in settings]
    given = PolicyDirectory(directory=str(policies), metadata=[str(two)], server_properties=[])
    settings = configs(given, log_dirs)
    assert [("delete",)] * 2 == [each.cleanup_policy for each in settings]
    assert {604_800_000} == {each.segment_ms for each in settings}
    monkeypatch.setenv(METADATA_VARIABLE, f"{first},{log_dirs[0]}=none")
    assert [False, True] == [each.policy_known for each in configs(resource, log_dirs)]


def test_damaged_metadata_says_how_to_go_on(policies: Path, log_dirs: list[Path]) -> None:
    """By the variable; then the settings are unknown."""
    cluster(log_dirs[0], "compact")
    (path,) = (log_dirs[0] / "__cluster_metadata-0").glob("*.log")
    content = bytearray(path.read_bytes())
    content[70] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(CorruptLogError, match=f"{METADATA_VARIABLE}=none"):
        configs(PolicyDirectory(directory=str(policies)), log_dirs)
    without = PolicyDirectory(directory=str(policies), metadata=["none"])
    assert [False, False] == [each.policy_known for each in configs(without, log_dirs)]


@pytest.mark.parametrize("entry", ["logs=/m", "/logs=", "=/m"])
def test_another_form_is_refused(policies: Path, entry: str) -> None:
    """With the variable's name."""
    with pytest.raises(PolicyError, match=METADATA_VARIABLE):
        PolicyDirectory(directory=str(policies), metadata=[entry]).settings()
    with pytest.raises(PolicyError, match=METADATA_VARIABLE):
        PolicyDirectory(directory=str(policies), metadata=["/m", "/n"]).settings()

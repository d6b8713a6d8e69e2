"""Log directories and the keys of their partitions."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import pytest
from dagster import DynamicPartitionsDefinition

from logwright.errors import NotALogDir, PolicyError, Unsettled
from logwright.format.names import TopicPartition
from logwright.place.model import Place, is_versioned
from logwright.place.named import place_of
from logwright.resources import log_dirs as of_directories
from logwright.resources.log_dirs import LOG_DIRS_VARIABLE, LogDirs
from logwright.resources.policies import PolicyDirectory


def log_dir(path: Path, *partitions: str) -> Path:
    """A directory as a broker leaves it, with empty partition directories."""
    path.mkdir(parents=True)
    (path / "meta.properties").write_text("version=1\n")
    for name in partitions:
        (path / name).mkdir()
    return path


def log_dirs(*directories: str | Path) -> LogDirs:
    return LogDirs(directories=[str(one) for one in directories], policies=PolicyDirectory())


def test_key_is_short_where_it_is_unique(tmp_path: Path) -> None:
    """One broker with two disks: a log keeps its key when it moves from one to the other."""
    first = log_dir(tmp_path / "disk1", "orders-0", "orders-10", "orders-2")
    two = log_dir(tmp_path / "disk2", "users-0")
    listing = log_dirs(first, two).listing()
    assert ["orders-0", "orders-2", "orders-10", "users-0"] == list(listing.logs)
    assert two == listing.find("users-0").log_dir
    assert listing.find("users-0") == listing.find("disk2:users-0")


def test_key_names_the_directory_where_two_hold_the_partition(tmp_path: Path) -> None:
    """Replicas: the directories of two brokers. Logs that are unique keep the short key."""
    first = log_dir(tmp_path / "a", "orders-0", "users-0")
    two = log_dir(tmp_path / "b", "orders-0")
    listing = log_dirs(f"left={first}", f"right={two}").listing()
    assert {"left:orders-0", "right:orders-0", "users-0"} == listing.logs.keys()
    assert first == listing.find("left:users-0").log_dir
    with pytest.raises(PolicyError, match=r"Use one of left:orders-0, right:orders-0"):
        listing.find("orders-0")


def test_key_is_one_that_dagster_takes(tmp_path: Path) -> None:
    """Kafka allows three dots in a topic's name, Dagster not in a key."""
    first = log_dir(tmp_path / "logs", "a...b-0", "a.b-0")
    listing = log_dirs(first).listing()
    assert {"a%2E%2E%2Eb-0", "a.b-0"} == listing.logs.keys()
    DynamicPartitionsDefinition(name="t").build_add_request(list(listing.logs))
    assert "a...b" == listing.find("a%2E%2E%2Eb-0").partition.topic


def test_unreadable_directory_does_not_hide_the_others(tmp_path: Path) -> None:
    """Its error is kept by its name."""
    first = log_dir(tmp_path / "a", "orders-0")
    listing = log_dirs(first, tmp_path / "unmounted").listing()
    assert ["orders-0"] == list(listing.logs)
    assert isinstance(listing.unreadable["unmounted"], NotALogDir)
    with pytest.raises(PolicyError, match="unmounted"):
        listing.find("users-0")


def test_a_log_that_is_gone_does_not_hide_the_others(tmp_path: Path) -> None:
    """Of the logs of a run those that are there are found, each once; the others have a reason."""
    first = log_dir(tmp_path / "a", "orders-0", "users-0")
    listing = log_dirs(first).listing()
    wanted = ["users-0", "gone-0", "a:users-0", "orders-0"]
    assert ["users-0", "orders-0"] == [log.key for log in listing.find_those(wanted)]
    assert ["gone-0"] == list(listing.missing(wanted))
    assert "'gone-0' is not in any log directory." in str(listing.missing(wanted)["gone-0"])
    assert [] == listing.find_those([])
    with pytest.raises(PolicyError, match="gone-0"):
        listing.find_those(["gone-0", "gone-1"])


@pytest.mark.parametrize("entry", ["relative/path", "=/path", "na:me=/path", "name=", "name=rel"])
def test_entry_that_is_no_named_path_is_refused(entry: str) -> None:
    """An absolute path, with a name or without."""
    with pytest.raises(PolicyError, match="neither /PATH nor NAME=/PATH"):
        log_dirs(entry).named()


def test_two_directories_of_one_name_need_names() -> None:
    """The name is part of keys."""
    with pytest.raises(PolicyError, match="NAME=/PATH,OTHER=/PATH"):
        log_dirs("/one/logs", "/two/logs").named()
    assert {"a": Path("/one/logs"), "logs": Path("/two/logs")} == log_dirs(
        "a=/one/logs", "/two/logs"
    ).named()


def test_environment_is_asked_before_the_policies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LOGWRIGHT_LOG_DIRS, in the form of Kafka's log.dirs."""
    (tmp_path / "p.yml").write_text("version: 1\nlog_dirs: [kafka-logs]\n")
    configured = LogDirs(policies=PolicyDirectory(directory=str(tmp_path)))
    monkeypatch.setenv(LOG_DIRS_VARIABLE, "/data/a, b=/data/c")
    assert {"a": Path("/data/a"), "b": Path("/data/c")} == configured.named()
    monkeypatch.delenv(LOG_DIRS_VARIABLE)
    assert {"kafka-logs": Path.cwd() / "kafka-logs"} == configured.named()


@pytest.mark.parametrize(
    ("entry", "name", "url"),
    [
        ("s3://archive/broker-1", "broker-1", "s3://archive/broker-1"),
        ("s3://archive/broker-1/", "broker-1", "s3://archive/broker-1"),
        ("gs://archive", "archive", "gs://archive"),
        ("old=az://container/a/b=c", "old", "az://container/a/b=c"),
        ("az://container/a=b", "a=b", "az://container/a=b"),
        ("file:///srv/bucket", "bucket", "file:///srv/bucket"),
    ],
)
def test_a_directory_can_be_in_a_bucket(entry: str, name: str, url: str) -> None:
    """By its URL, with a name or without; the name has none of what keys mean by `:`."""
    ((known, place),) = log_dirs(entry).named().items()
    assert (name, url) == (known, str(place))
    assert is_versioned(place)


@pytest.mark.parametrize(
    "entry",
    ["s3://key:secret@archive/b", "a=s3://archive/b?X-Amz-Signature=secret", "s3:", "file:x"],
)
def test_what_is_no_url_of_a_bucket_is_refused_and_not_repeated(entry: str) -> None:
    """It may have a secret."""
    with pytest.raises(PolicyError) as refused:
        log_dirs(entry).named()
    assert "secret" not in str(refused.value)


def test_a_bucket_without_logs_is_not_an_empty_one(tmp_path: Path) -> None:
    """Nobody wrote there, or it is another prefix."""
    listing = log_dirs(log_dir(tmp_path / "a", "t-0"), f"b=file://{tmp_path}/nothing").listing()
    assert ["t-0"] == list(listing.logs)
    assert isinstance(listing.unreadable["b"], NotALogDir)


def test_a_bucket_that_is_slow_does_not_hold_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked while the others are listed, and for a limited time."""
    released = Event()
    listed = of_directories.list_partitions

    def slow(place: Place) -> tuple[TopicPartition, ...]:
        if not isinstance(place, Path):
            released.wait()
        return listed(place)

    monkeypatch.setattr(of_directories, "list_partitions", slow)
    monkeypatch.setattr(of_directories, "ANSWER_SECONDS", 0.01)
    dirs = log_dirs("slow=s3://archive/b", log_dir(tmp_path / "a", "t-0"))
    listing = dirs.listing()
    released.set()
    assert ["t-0"] == list(listing.logs)
    assert isinstance(listing.unreadable["slow"], Unsettled)
    assert "/archive/b" in str(listing.unreadable["slow"])


def test_a_bucket_in_the_policies(tmp_path: Path) -> None:
    """Next to paths; what is relative is of this process's directory."""
    text = "version: 1\nlog_dirs: [old=s3://archive/b, kafka-logs]\n"
    (tmp_path / "p.yml").write_text(text)
    configured = LogDirs(policies=PolicyDirectory(directory=str(tmp_path)))
    expected = {"old": place_of("s3://archive/b"), "kafka-logs": Path.cwd() / "kafka-logs"}
    assert expected == configured.named()

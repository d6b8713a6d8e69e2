"""A topic's settings, as commands find them: given, in a policies file, or in the metadata log."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from logwright.config.policies import Policies, load_policies
from logwright.config.resolved import settings_of
from logwright.config.sources import read_sources
from logwright.config.topic import CleanerConfig, TopicConfig
from tests.metadata_builder import MetadataBuilder, config, feature, topic

_TOPIC_RESOURCE = 2


def found_settings(
    log_dir: Path, aside: Path, name: str, pairs: Mapping[str, str], choice: int
) -> tuple[TopicConfig, CleanerConfig]:
    """The settings of a topic that one of the sources says. Effects: writes that below `aside`.

    Args:
        log_dir: that has the topic's log.
        pairs: as in Kafka's files.
        choice: which source.
    """
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir()
    policies, metadata = Policies(), None
    if choice % 3 == 1:
        lines = [
            f"    {key}: {value if ',' not in value else f'[{value}]'}"
            for key, value in pairs.items()
        ]
        (aside / "topics.yml").write_text(
            "\n".join(["version: 1", "topics:", f"  - name: {name}", *lines, ""])
        )
        policies = load_policies(aside)
    elif choice % 3 == 2:
        builder = MetadataBuilder(aside)
        values = [config(_TOPIC_RESOURCE, name, key, value) for key, value in pairs.items()]
        builder.segment(0, [feature("metadata.version", 25), topic(name, 1), *values])
        metadata = builder.path
    sources = read_sources(
        log_dir,
        policies=policies,
        command_line={} if choice % 3 else pairs,
        metadata=metadata,
        find=metadata is not None,
    )
    return settings_of(sources, name)

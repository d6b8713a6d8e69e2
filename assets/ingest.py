"""The asset of ingested files: files of landing directories, appended to topics, each once."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import dagster as dg

from logwright.assets.lib.boundary import boundary
from logwright.config.policy_models import IngestSource
from logwright.errors import PolicyError
from logwright.format.codec import CODEC_NAMES
from logwright.ingest.model import AppendOptions
from logwright.place.model import Place, is_local
from logwright.resources.clock import Clock
from logwright.resources.log_dirs import LogDirs
from logwright.resources.policies import PolicyDirectory
from logwright.resources.spark import Spark
from logwright.spark.intake import Intake, Source, ingest_files, totals

INGESTED: Final = dg.AssetKey(["kafka_logs", "ingested"])
SHOWN_PARTITIONS: Final = 500


@dg.asset(key=INGESTED, group_name="kafka_logs", kinds={"kafka", "spark"})
def ingested(
    log_dirs: LogDirs, policies: PolicyDirectory, clock: Clock, spark: Spark
) -> dg.MaterializeResult[None]:
    """Files appended to their topics from each landing directory; interrupted runs are completed
    first.
    """
    intakes: list[Intake] = []
    with boundary("ingested"):
        settings = policies.settings()
        directories = log_dirs.named()
        now_ms = clock.now_ms()
        for source in settings.policies.ingest.sources:
            log_dir = log_dir_of(source, directories)
            sources = settings.sources(log_dir)
            intakes += ingest_files(spark.session, log_dir, _source(source), sources, now_ms=now_ms)
    rows = [
        dg.TableRecord(
            {
                "partition": str(appended.partition),
                "records": appended.records,
                "bytes": appended.log_bytes,
                "first offset": appended.first_offset,
                "last offset": appended.end_offset - 1,
                "done before": appended.repeated,
            }
        )
        for intake in intakes
        for appended in intake.appended
    ]
    metadata: dict[str, dg.RawMetadataValue] = dict(totals(intakes))
    metadata["dagster/row_count"] = totals(intakes)["records"]
    if rows:
        metadata["partitions"] = dg.MetadataValue.table(rows[:SHOWN_PARTITIONS])
    return dg.MaterializeResult(metadata=metadata)


def log_dir_of(source: IngestSource, directories: Mapping[str, Place]) -> Path:
    """Return the log directory of a source's topic.

    Raises:
        PolicyError: its log_dir is not configured, or is missing although there are several, or is
            in a bucket.
    """
    here = {name: log_dir for name, log_dir in directories.items() if is_local(log_dir)}
    if source.log_dir is None and len(here) == 1:
        return next(iter(here.values()))
    if source.log_dir in directories and source.log_dir not in here:
        raise PolicyError(
            f"the source of topic {source.topic} has log_dir {source.log_dir!r}, which is in a"
            " bucket: nothing can be appended there.",
            remedy="Ingest into a log directory, and archive that.",
        )
    if source.log_dir is None or source.log_dir not in here:
        raise PolicyError(
            f"the source of topic {source.topic} has log_dir {source.log_dir!r}, but the log"
            f" directories are {', '.join(sorted(here))}.",
            remedy="Set log_dir to one of them.",
        )
    return here[source.log_dir]


def _source(source: IngestSource) -> Source:
    codec = CODEC_NAMES.index(source.compression)
    return Source(
        path=source.path,
        file_format=source.format,
        topic=source.topic,
        partitions=source.partitions,
        options=source.options,
        append=AppendOptions(batch_bytes=source.batch_size, codec=codec),
    )

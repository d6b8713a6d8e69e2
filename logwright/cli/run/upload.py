"""``logwright upload``: write logs into a bucket as they are."""

from __future__ import annotations

from math import inf

from logwright.batches.runtime import Throttle
from logwright.bucket.agreement import agree
from logwright.bucket.store import Bucket
from logwright.cli.output import human_bytes
from logwright.cli.request import Request
from logwright.cli.run.replicas import say_unknown_high_watermarks
from logwright.cli.wording import counted
from logwright.config.resolved import given_configs
from logwright.reading import reading
from logwright.upload.upload import Upload, Uploaded


def run(request: Request, *, to: str, rate: int | None, bring_back_erased: bool) -> None:
    """Run the command."""
    bucket = Bucket.of(to)
    throttle = Throttle(inf if rate is None else rate)
    with reading(request.place):
        partitions = request.partitions()
        say_unknown_high_watermarks(request, partitions)
        limits = agree(bucket)
        for partition in partitions:
            with request.failures.of(partition):
                upload = Upload(
                    place=request.place,
                    partition=partition,
                    bucket=bucket,
                    limits=limits,
                    configs=given_configs(request.sources(), partition.topic),
                    now_ms=request.now_ms,
                    throttle=throttle,
                    bring_back_erased=bring_back_erased,
                )
                _show(request, upload.run())


def _show(request: Request, uploaded: Uploaded) -> None:
    sent = f"{counted(uploaded.sent_files, 'file')} sent, {human_bytes(uploaded.sent_bytes)}"
    request.output.result(
        f"{uploaded.partition}: up to offset {uploaded.end_offset}, version {uploaded.version};"
        f" {sent if uploaded.commits else 'nothing new'}",
        topicPartition=str(uploaded.partition),
        version=uploaded.version,
        logEndOffset=uploaded.end_offset,
        segments=uploaded.segments,
        bytes=uploaded.bytes,
        filesSent=uploaded.sent_files,
        bytesSent=uploaded.sent_bytes,
        commits=uploaded.commits,
        missingOffsets=uploaded.missing,
        droppedOffsets=uploaded.dropped,
    )
    if uploaded.missing is not None:
        first, last = uploaded.missing
        request.output.message(
            f"{uploaded.partition}: offsets {first} to {last} are not in the bucket: retention"
            " deleted them before this upload"
        )
    if uploaded.dropped is not None:
        first, last = uploaded.dropped
        request.output.message(
            f"{uploaded.partition}: offsets {first} to {last} of the version before are not in the"
            " new one: the log is compacted, and begins after them. If its topic is not compacted"
            " any more, give --config cleanup.policy=delete: they stay in the bucket then"
        )

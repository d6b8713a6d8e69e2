"""``logwright archive URL``: copy topics from a running broker into a bucket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from logwright.cli.request import Request
from logwright.ingest.archive import Archive
from logwright.ingest.model import Appended
from logwright.maintenance.archive import archive_to_bucket
from logwright.maintenance.scratch import own_temporary
from logwright.place.bucket import bucket_of


def archive(request: Request, wanted: Archive, scratch: Path | None) -> Iterator[Appended]:
    """Yield what was copied of each partition of a topic. Effects and errors: see
    `archive_to_bucket`.
    """
    return archive_to_bucket(
        bucket_of(request.place),
        wanted,
        request.sources,
        scratch=own_temporary() if scratch is None else scratch,
        now_ms=request.now_ms,
    )

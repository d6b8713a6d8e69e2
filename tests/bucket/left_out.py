"""The commit protocol with one of its rules left out; a simulation must find each of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from logwright.bucket.commit import (
    Collect,
    Commit,
    Conflict,
    Create,
    Delete,
    Listed,
    Requests,
    Yes,
    data_key,
    sure,
)
from logwright.bucket.manifest import Manifest, manifest_key, serialize_manifest, version_of
from logwright.bucket.stored import DATA
from logwright.units import DurationMs
from tests.bucket.simulation import LIMITS, Rules


class _BelievesNo(Commit):
    """What is not a yes is taken for another's success."""

    def made(self, base: Manifest | None) -> int | None:
        """Looked at when it begins, and not after a no."""
        if getattr(self, "_looked", False):
            return None
        self._looked = True
        return super().made(base)

    def settled(self, manifest: Manifest) -> Requests[Manifest]:
        """Nothing is read."""
        yield from self.require_time()
        answer = yield Create(manifest_key(manifest.version), serialize_manifest(manifest))
        return manifest if isinstance(answer, Yes) else replace(manifest, operation="another")


class _GivesUp(Commit):
    """What is not a yes is taken for a failure, and its objects are removed."""

    def settled(self, manifest: Manifest) -> Requests[Manifest]:
        """Delete one's own."""
        answer = yield Create(manifest_key(manifest.version), serialize_manifest(manifest))
        if isinstance(answer, Yes):
            return manifest
        own = f"{DATA}{self.operation.id}-"
        for key in sorted(manifest.state.keys()):
            if key.startswith(own):
                yield from sure(Delete(key))
        raise Conflict("gave up")


class _OtherBytes(Commit):
    """A version is left before it is settled: silence is taken for a failure, and the next is
    tried.
    """

    def settled(self, manifest: Manifest) -> Requests[Manifest]:
        """Create the next one, and the next."""
        while True:
            yield from self.require_time()
            key = manifest_key(manifest.version)
            answer = yield Create(key, serialize_manifest(manifest))
            if isinstance(answer, Yes):
                return manifest
            version = manifest.version + 1
            last = replace(manifest.operations[-1], version=version)
            manifest = replace(
                manifest, version=version, operations=(*manifest.operations[:-1], last)
            )


class _NoDeadline(Commit):
    """An attempt may take any time."""

    def require_time(self) -> Requests[None]:
        """Nothing is required."""
        yield from ()


class _RemovesYoung(Collect):
    """What no manifest names now is removed, however young."""

    def is_old(self, entry: Listed, now: int) -> bool:
        """All data is."""
        return entry.key.startswith(DATA) or super().is_old(entry, now)


class _KeepsOne(Collect):
    """Only the newest manifest is kept."""

    def versions(
        self, entries: tuple[Listed, ...], now: int
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """All others are old."""
        every = sorted(v for entry in entries if (v := version_of(entry.key)) is not None)
        return tuple(every[-1:]), tuple(every[:-1])


LEFT_OUT: Final[dict[str, Rules]] = {
    "1: a name is of one writing": Rules(
        key=lambda operation, number, suffix: data_key(
            replace(operation, attempt=0), number, suffix
        )
    ),
    "2: no is not believed": Rules(commit=_BelievesNo),
    "2: a version is settled before the next": Rules(commit=_OtherBytes),
    "3: the operation is the job's": Rules(job=lambda name, attempt: f"{name}a{attempt}"),
    "4: what is replaced must be there": Rules(requires_replaced=False),
    "5: nothing is deleted after an unclear end": Rules(commit=_GivesUp),
    "6: a deadline": Rules(commit=_NoDeadline),
    "6: the age is more than the deadline": Rules(limits=replace(LIMITS, age_ms=DurationMs(500))),
    "7: an age": Rules(collect=_RemovesYoung),
    "7: young manifests are kept": Rules(collect=_KeepsOne),
    "8: the clock is the server's": Rules(skew=LIMITS.age_ms),
    "9: a reader looks again": Rules(reads_again=False),
}
"""Rule of `logwright.bucket.commit` → the protocol without it."""

"""What the ops of the job `erase` work with: the erasures of all log directories, at the time of an
op, and the certificate in the end.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import dagster as dg

from logwright.assets.erasure.deadlines import search_settings
from logwright.assets.erasure.erase_report import TOO_LITTLE, Checked, LogRow, checked_of, row_of
from logwright.assets.lib.boundary import RETRIES, dagster_failure
from logwright.assets.lib.holds import state_of
from logwright.config.resolved import Sources
from logwright.config.sources import DirectorySettings
from logwright.config.table import tables_of
from logwright.erasure.case.certified import add_certified, certified_by
from logwright.erasure.certificate.search import replicas_elsewhere
from logwright.erasure.decoded import readers_of
from logwright.erasure.keys import KeySet
from logwright.erasure.outcome import Failed, Result
from logwright.erasure.remains import not_reached, search_remains
from logwright.erasure.run import (
    Erasure,
    erase_directories,
    erase_logs,
    plan_directories,
    plan_logs,
    silent,
)
from logwright.erasure.store import chosen, read_store
from logwright.errors import LogwrightError, PreconditionError
from logwright.extras import require
from logwright.format.names import TopicPartition
from logwright.ingest.commit import prepare_log_dir
from logwright.locks import lock_log_dir
from logwright.place.model import AnyPlace, Place, is_local
from logwright.reading import reading
from logwright.resources.erasure import certificate_path, request_places
from logwright.resources.log_dirs import LogDirs
from logwright.resources.page import cases_directory
from logwright.sweep.holds import hold_from_erasure
from logwright.sweep.model import SweepState, local_part
from logwright.sweep.recover import recover

IN_BUCKET: Final = (
    "a log in a bucket gets no tombstones: `now_and_for_good: true` erases from it. What is left"
    " there is searched"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseRun:
    """What a run is about, from op to op.

    Attributes:
        requests: their ids. topics: there were before the erasure, by logs and metadata.
        at_once, purge_unreadable: see `Erasure`.
    """

    requests: tuple[str, ...]
    topics: frozenset[str]
    at_once: bool
    purge_unreadable: bool


class ErasureWork:
    """The erasures of a run: one for each log directory, at the time of an op."""

    def __init__(self, context: dg.OpExecutionContext, run: EraseRun) -> None:
        """Read what the policies and the store say. Effects: reads.

        Raises:
            PolicyError: the policies, the store or the secret are invalid; a request is not stored.
        """
        self.context, self.run = context, run
        resources: Any = context.resources
        log_dirs: LogDirs = resources.log_dirs
        self.now_ms = resources.clock.now_ms()
        self.settings: DirectorySettings = resources.policies.settings()
        self.policies = self.settings.policies
        readers = readers_of(self.policies, resources.policies.path())
        self.keys = _keys(self.settings, run.requests).read_by(readers)
        self.listing = log_dirs.listing()
        self.erasures = {name: self._erasure(path) for name, path in log_dirs.named().items()}
        self.failures: dict[str, LogwrightError] = dict(self.listing.unreadable)

    def _erasure(self, log_dir: Place) -> Erasure[Place]:
        return Erasure(
            log_dir=log_dir,
            keys=self.keys,
            now_ms=self.now_ms,
            of_topic=partial(self.settings.of, log_dir),
            search=partial(search_settings, self.settings, log_dir, self.now_ms),
            topic_ids=partial(self.settings.topic_id, log_dir),
            at_once=self.run.at_once,
            purge_unreadable=self.run.purge_unreadable,
            replicas_of=partial(self.settings.replicas_of, log_dir),
        )

    def recovered(self) -> SweepState:
        """Return the live logs of this machine that the requests apply to and that are not held,
        after a recovery of those that need it. Effects: changes them; logs why others are skipped.
        """
        concerned = [
            log
            for log in self.listing.logs.values()
            if not self.keys.for_topic(log.partition.topic).is_empty
        ]
        for log in concerned:
            if log.in_bucket and not self.run.at_once:
                self.context.log.warning("log=%s skipped: %s", log.key, IN_BUCKET)
        here = local_part(state_of(concerned, self.now_ms))
        state = recover(self._held(here), self.settings)
        self.failures |= state.failures
        return state

    def _held(self, state: SweepState[AnyPlace]) -> SweepState[AnyPlace]:
        """Mark the logs that are held; log why. Effects: see `hold_from_erasure`."""
        state = hold_from_erasure(state, self.settings, at_once=self.run.at_once)
        for work in state.works:
            if work.held is not None:
                self.context.log.info("log=%s skipped: %s", work.key, work.held.sentence)
        return state

    def plan(self, state: SweepState) -> Iterator[tuple[str, Result]]:
        """Yield what is to be erased, by the key of a log or the name of a directory. Effects:
        reads.
        """
        for name, erasure in self.changeable():
            logs = _logs(state, erasure.log_dir)
            try:
                with reading(erasure.log_dir):
                    yield from zip(logs, plan_logs(erasure, logs.values()), strict=True)
                    for result in plan_directories(erasure):
                        yield f"{name}:{result.name}", result
            except LogwrightError as error:
                self.failures[name] = error.as_value()

    def erase(self, state: SweepState) -> Iterator[tuple[str, Result]]:
        """Erase from the live logs; yield as `plan`. Effects: changes them, under locks; makes new
        versions of those in buckets.
        """
        yield from self._erase_in_buckets()
        for name, erasure in self.changeable():
            logs = _logs(state, erasure.log_dir)
            try:
                with lock_log_dir(erasure.log_dir):
                    if logs and not erasure.at_once:
                        prepare_log_dir(erasure.log_dir)
                    yield from zip(logs, erase_logs(erasure, logs.values()), strict=True)
            except LogwrightError as error:
                self.failures[name] = error.as_value()

    def _erase_in_buckets(self) -> Iterator[tuple[str, Result]]:
        """Erase from the live logs in buckets, if it is at once. Effects: changes them."""
        logs = [log for log in self.listing.logs.values() if log.in_bucket]
        if not logs or not self.run.at_once:
            return
        state = self._held(state_of(logs, self.now_ms))
        self.failures |= state.failures
        from logwright.erasure.in_bucket import (  # noqa: PLC0415 -- of an extra
            concerned_logs,
            count_erasure,
            erase_version,
            seen_now,
        )

        for name, erasure in self.readable():
            keys = {
                work.partition: work.key
                for work in state.going_on
                if work.log_dir == erasure.log_dir
            }
            if not keys:
                continue
            try:
                seen, counted = seen_now(erasure), set(keys)
                for partition in concerned_logs(seen, [*keys]):
                    result = erase_version(seen, partition)
                    if isinstance(result, Failed):
                        counted.discard(partition)
                    yield keys[partition], result
                for failed in count_erasure(seen, sorted(counted)):
                    yield keys.get(cast("TopicPartition", failed.partition), failed.name), failed
            except LogwrightError as error:
                self.failures[name] = error.as_value()

    def purge(self) -> Iterator[tuple[str, Result]]:
        """Erase from deleted, stray and future logs; yield as `plan`. Effects: changes them."""
        for name, erasure in self.changeable():
            try:
                with lock_log_dir(erasure.log_dir):
                    for result in erase_directories(erasure):
                        yield f"{name}:{result.name}", result
            except LogwrightError as error:
                self.failures[name] = error.as_value()

    def changeable(self) -> Iterator[tuple[str, Erasure]]:
        """Yield the log directories of this machine that can be listed."""
        for name, erasure in self.readable():
            if is_local(erasure.log_dir):
                yield name, cast("Erasure", erasure)

    def readable(self) -> Iterator[tuple[str, Erasure[Place]]]:
        """Yield the log directories that can be listed."""
        for name, erasure in self.erasures.items():
            if name not in self.listing.unreadable:
                yield name, erasure

    def noted(self, results: Iterator[tuple[str, Result]]) -> list[LogRow]:
        """Return what is shown of the results, which are let go; failures are noted."""
        rows = [row_of(key, result) for key, result in results]
        self.failures |= {row.key: row.error for row in rows if row.error is not None}
        return rows

    def check(self) -> Checked:
        """Search what is left. Effects: reads all files.

        Raises:
            LogwrightError: the sources of a directory's settings cannot be read, or a directory
                cannot be listed.
        """
        erasures = list(self.erasures.values())
        remains = [
            *search_remains(erasures, tables_of(self.policies)),
            *not_reached(self.sources(), self.keys, self.run.topics),
        ]
        return checked_of(remains, self.context.run_id)

    def sources(self) -> list[tuple[Place, Sources]]:
        """Return the log directories, each with the sources of its settings. Effects: reads."""
        return [
            (erasure.log_dir, self.settings.sources(erasure.log_dir))
            for erasure in self.erasures.values()
        ]

    def raise_failures(self) -> None:
        """Fail if a log or a directory has.

        Raises:
            Failure: one has.
        """
        for key, error in self.failures.items():
            self.context.log.error("%s: %s", key, error)
        if self.failures:
            raise dagster_failure(self.failures, logs=0, retry_number=RETRIES)


def _keys(settings: DirectorySettings, ids: tuple[str, ...]) -> KeySet:
    """Return the stored requests of these ids; without any all of them."""
    places = request_places(settings.policies.erasure)
    stored = read_store(places.store, places.secret)
    return KeySet.of(places.secret, requests=chosen(stored, ids) if ids else stored)


def _logs(state: SweepState, log_dir: Path) -> dict[str, TopicPartition]:
    return {
        work.key: work.partition
        for work in state.going_on
        if work.held is None and work.log_dir == log_dir
    }


def certify(work: ErasureWork, status: int) -> tuple[int, dict[str, Any]]:
    """Make the certificate of a run; return the exit status with it, and its metadata. Effects:
    reads all files; writes the certificate.
    """
    settings = work.policies.erasure
    path = certificate_path(settings, f"erase-{work.context.run_id}")
    if path is None or settings.signing_key is None:
        return status, {"certificate": "none: the policies do not say where"}
    require("erasure", by="a certificate")
    from logwright.erasure.certificate.hide import without_keys  # noqa: PLC0415 -- of an extra
    from logwright.erasure.certificate.issue import (  # noqa: PLC0415 -- of an extra
        issue_of,
        names_of,
        proves_too_little,
        requested_of,
        search_live,
        write_certificate,
    )
    from logwright.erasure.certificate.keys import load_private  # noqa: PLC0415
    from logwright.erasure.certificate.make import make_certificate  # noqa: PLC0415

    _refuse_inside(path, work)
    key, sources = load_private(Path(settings.signing_key)), work.sources()
    requested = requested_of(work.keys)
    replicas = replicas_elsewhere(sources, work.keys)
    searched = [
        search_live(log_dir, work.keys, erasure.search(), read, silent)
        for erasure, (log_dir, read) in zip(work.erasures.values(), sources, strict=True)
    ]
    made = make_certificate(
        requested,
        searched,
        issue_of(key, settings.issuer, work.now_ms),
        secret=work.keys.secret.id,
        replicas=replicas,
    )
    made = without_keys(made, names_of(work.keys))
    path.parent.mkdir(parents=True, exist_ok=True)
    written = write_certificate(made, key, path)
    directory = cases_directory(work.context.instance.storage_directory())
    try:
        add_certified(directory, certified_by(written.shown, written.certificate))
    except (LogwrightError, OSError) as error:
        work.context.log.warning("pages of cases will not name this certificate: %s", error)
    status = status or (TOO_LITTLE if proves_too_little(made) else 0)
    return status, {
        "certificate": dg.MetadataValue.path(str(written.certificate)),
        "certificate page": dg.MetadataValue.path(str(written.page)),
        "certificate sha256": written.sha256,
        "next step": written.next_step,
    }


def _refuse_inside(path: Path, work: ErasureWork) -> None:
    """Refuse to write into a directory that the certificate is about. Effects: resolves links."""
    for _, erasure in work.changeable():
        if path.resolve().is_relative_to(erasure.log_dir.resolve()):
            raise PreconditionError(
                "the certificates would be in a log directory.",
                path=path,
                remedy="Correct `certificates` in the policies.",
            )

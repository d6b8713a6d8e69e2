"""What must hold after each step, and of each tick and run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import dagster as dg
from dagster._serdes import serialize_value

from logwright.assets.fleet.inventory import fleet_inventory
from logwright.assets.lib.verdict import CHECKS, VALUE_CONTRACT
from logwright.errors import LogwrightError
from logwright.resources.catalogue import platform_resources
from tests.e2e.harness import tree
from tests.plain_consumer import plain_batches
from tests.platform_sequences.events import (
    logs_of,
    materializations,
    passed,
    quarantine_in,
    require,
)
from tests.platform_sequences.platform import Platform, Requested
from tests.platform_sequences.rules import (
    DAY_MS,
    Due,
    due_of,
    may_go,
    segments_of,
    settings_of,
)
from tests.platform_sequences.world import (
    HOUR_MS,
    KEY,
    MINUTE_MS,
    VALUE,
    Cleaning,
    Quarantine,
    Record,
    World,
    checkpoint,
)

RETRY_MS: Final = 15 * MINUTE_MS
"""A log that is as it was when it was requested is requested again after this time."""
FIRST_RETRY_MS: Final = 15 * MINUTE_MS
LAST_RETRY_MS: Final = 24 * HOUR_MS


@dataclass(frozen=True, slots=True)
class Before:
    """A log before a run.

    Attributes:
        held: it is paused or in quarantine.
        due: what is due of it; None if that is not known.
        goes: how many segments retention deletes.
        bytes, records: how many there are.
    """

    held: bool
    paused: bool
    due: Due | None
    goes: int
    files: dict[str, str]
    clean: int | None
    bytes: int
    records: int
    corrupt: bool


@dataclass(slots=True)
class Retired:
    """A retired file: when it may go by the settings that it was retired with."""

    at_ms: int
    not_before_ms: int


@dataclass(slots=True)
class Judge:
    """Compares what happens with the rules.

    Attributes:
        requested: log → when it was requested, and how it was, as far as the cursor has it.
        retired: (log, file, inode) → the retired file.
        unmaintained: log → since when it is due, and when that was reported, as far as the cursor
            of `pauses` has it.
    """

    platform: Platform
    requested: dict[str, tuple[int, object]] = field(default_factory=dict)
    retired: dict[tuple[str, str, int], Retired] = field(default_factory=dict)
    unmaintained: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def world(self) -> World:
        """What is on disk."""
        return self.platform.world

    # Ticks

    def due_tick(self) -> list[dg.RunRequest]:
        """A tick of `due_logs` requests exactly what is due, and what can go now."""
        world, platform = self.world, self.platform
        in_flight = platform.in_flight()
        if in_flight & world.logs.keys() and not world.is_clean:
            in_flight |= world.logs.keys()  # a directory is recovered as a whole
        waiting = {name for name in world.logs if self._waits(name)}
        free = {n for n in world.logs if not world.is_held(n)} - in_flight - waiting
        known = (
            free if not world.is_clean else {n for n in free - world.doubtful if _is_due(world, n)}
        )
        data = platform.tick("due_logs")
        requests = list(data.run_requests or ())
        logs = [log for request in requests for log in logs_of(request)]
        self._silent(str(data.skip_message))
        require(len(logs) == len(set(logs)), f"requested twice: {logs}")
        require(set(logs) <= free, f"requested {set(logs) - free}, free are {free}")
        wrong = set(logs) - known - world.doubtful
        require(not wrong, f"requested without need: {wrong}: {data.skip_message}")
        most = int(world.limits.get("max_logs", 200))
        runs = int(world.limits.get("max_runs", 200))
        if platform.running("sweep") >= runs:
            most = 0
        wanted = min(most, len(known))
        require(
            len(logs) >= wanted and len(logs) <= most,
            f"due are {sorted(known)}, requested {logs} of at most {most}: {data.skip_message}",
        )
        self._in_order(logs, known)
        more = world.logs if logs and not world.is_clean else logs
        self.requested |= {log: (world.now, self._look(log)) for log in more}
        for request in requests:
            platform.request(request, "sweep", logs_of(request))
        return requests

    def _in_order(self, logs: list[str], known: set[str]) -> None:
        """A log that has missed its deadline goes before others."""
        world = self.world
        if not world.is_clean:
            return
        late = {n for n in known if _is_late(world, n)}
        others = set(logs) - late - world.doubtful
        require(not (late - set(logs) and others), f"{late} are late, requested are {logs}")

    def _waits(self, name: str) -> bool:
        at_ms, how = self.requested.get(name, (0, None))
        return self.world.now < at_ms + RETRY_MS and how == self._look(name)

    def _look(self, name: str) -> object:
        """What decides about a log, but for the time."""
        world, topic = self.world, name.rpartition("-")[0]
        files = [
            (path.name, path.stat().st_size, path.stat().st_mtime_ns)
            for path in sorted(world.directory(name).iterdir())
            if path.is_file()
        ]
        given = [one.pairs for one in world.entries if one.of == topic or one.kind == "pattern"]
        return (files, checkpoint(world).get(name), settings_of(world, name), given, world.is_clean)

    def forget(self, sensor: str) -> None:
        """The cursor of a sensor is lost."""
        self.platform.cursors[sensor] = None
        if sensor == "due_logs":
            self.requested.clear()
        if sensor == "pauses":
            self.unmaintained.clear()

    def purge_tick(self) -> list[dg.RunRequest]:
        """A tick of `purge_due` requests the logs with retired files whose delay is over."""
        world, platform = self.world, self.platform
        due = {
            name
            for name, *_ in self._purged_now()
            if name in world.logs and not world.is_paused(name)
        }
        data = platform.tick("purge_due")
        requests = list(data.run_requests or ())
        logs = {log for request in requests for log in logs_of(request)}
        if platform.running("purge"):
            require(not requests, "a second purge is requested while one is running")
            return []
        require(
            due - world.doubtful <= logs <= due | self._littered(),
            f"purges are due of {due}, requested {logs}: {data.skip_message}",
        )
        for request in requests:
            platform.request(request, "purge", logs_of(request))
        return requests

    def _littered(self) -> set[str]:
        """Logs that runs which did not end well may have left files of."""
        return {one.partition(" ")[0] for one in self.staged()} | self.world.doubtful

    def _purged_now(self) -> Iterable[tuple[str, str, int]]:
        for key, retired in self.retired.items():
            if self._due_ms(key[0], retired) <= self.world.now:
                yield key

    def _due_ms(self, name: str, retired: Retired) -> int:
        delay_ms = int(settings_of(self.world, name)["file.delete.delay.ms"])
        return max(retired.at_ms + delay_ms, retired.not_before_ms)

    def pauses_tick(self) -> None:
        """A tick of `pauses` lifts what has expired, and says so."""
        world = self.world
        over = {name for name, until_ms in world.paused.items() if until_ms <= world.now}
        data = self.platform.tick("pauses")
        lifted, reported = (
            {
                str(event.partition)
                for event in data.asset_events
                if str(event.description).startswith(beginning)
            }
            for beginning in ("Removed expired pauses", "Unmaintained")
        )
        wanted = self._unmaintained()
        require(
            reported - world.doubtful == wanted - world.doubtful,
            f"{wanted} are unmaintained, reported are {reported}",
        )
        require(lifted == over & world.logs.keys(), f"expired are {over}, lifted {lifted}")
        for name in over:
            del world.paused[name]
        states = self._states()
        left = {name for name, state in states.items() if state["pauses"]}
        require(left == set(world.paused), f"paused are {set(world.paused)}, by the file {left}")

    def _unmaintained(self) -> set[str]:
        """Logs that are due for longer than their `max.compaction.lag.ms`, and than a day, by what
        earlier ticks saw; each once a day.
        """
        world, now = self.world, self.world.now
        reported: set[str] = set()
        waiting: dict[str, tuple[int, int]] = {}
        for name in world.logs:
            due = None if not world.is_clean or name in world.doubtful else due_of(world, name)
            if due is not None and not due.due:
                continue
            since_ms, flagged_ms = self.unmaintained.get(name, (now, -DAY_MS))
            if due is not None and due.deadline_ms is not None:
                since_ms = min(since_ms, due.deadline_ms)
            limit_ms = min(int(settings_of(world, name)["max.compaction.lag.ms"]), DAY_MS)
            if now - since_ms > limit_ms and now - flagged_ms >= DAY_MS:
                reported.add(name)
                flagged_ms = now
            waiting[name] = since_ms, flagged_ms
        self.unmaintained = waiting
        return reported

    def inventory(self) -> None:
        """The inventory of all logs has what is on disk."""
        world = self.world
        made = dg.materialize(
            [fleet_inventory],
            instance=self.platform.instance,
            resources=platform_resources(),
            raise_on_error=False,
        )
        require(made.success, "the inventory fails")
        rows = {row["log"]: row for row in made.output_for_node("kafka_logs__fleet_inventory")}
        require(rows.keys() == world.logs.keys(), f"the inventory has {rows.keys()}")
        self.events_of(made.run_id)
        for name in world.logs.keys() - world.doubtful:
            log, row, due = world.logs[name], rows[name], due_of(world, name)
            if not world.is_clean:
                require(row["state"] == "due", f"{name} needs recovery: {row}")
                continue
            segments = segments_of(world.directory(name), log.end)
            wanted = {
                "state": "due" if due.due else "in order",
                "segments": len(segments),
                "bytes": sum(one.bytes for one in segments),
                "log_start_offset": log.start,
                "log_end_offset": log.end,
                "dirty_ratio": round(due.ratio, 4),
                "due_at_ms": -1 if due.deadline_ms is None else due.deadline_ms,
                "policy": settings_of(world, name)["cleanup.policy"],
                "paused": world.is_paused(name),
                "quarantined": world.is_held(name) and not world.is_paused(name),
            }
            shown = row | {one: bool(row[one]) for one in ("paused", "quarantined")}
            listed = {one: shown[one] for one in wanted}
            require(listed == wanted, f"the inventory says of {name} {listed}, not {wanted}")

    def discovery_tick(self) -> None:
        """The partitions are the logs of the directory; none is forgotten while it is away."""
        before = set(self._partitions())
        self.platform.tick("discovery")
        wanted = before if self.world.away else set(self.world.logs)
        require(set(self._partitions()) == wanted, f"{self._partitions()}, there are {wanted}")

    def _partitions(self) -> list[str]:
        return list(self.platform.instance.get_dynamic_partitions("kafka_logs"))

    def retention_tick(self) -> bool:
        """The schedule requests a retention at multiples of the broker's interval."""
        data = self.platform.scheduled()
        minute_ms = self.world.now // MINUTE_MS * MINUTE_MS
        due = minute_ms % (5 * MINUTE_MS) == 0 and not self.platform.running("retention")
        requests = list(data.run_requests or ())
        require(len(requests) == int(due), f"{len(requests)} requests at {minute_ms}")
        for request in requests:
            self.platform.keys.discard(str(request.run_key))
            self.platform.request(request, "retention", ())
        return due

    def nothing_tick(self) -> None:
        """Without policies or a log directory no sensor requests anything."""
        before = set(self._partitions())
        for sensor in ("due_logs", "purge_due"):
            try:
                data = self.platform.tick(sensor)
            except (dg.DagsterError, LogwrightError):
                require(self.world.broken, f"{sensor} fails without a log directory")
                continue
            require(not data.run_requests, f"{sensor} requests {data.run_requests}")
        if not self.world.broken:
            self.discovery_tick()
        require(set(self._partitions()) == before, "partitions are forgotten")

    # Runs

    def before(self) -> dict[str, Before]:
        """The logs as they are."""
        world = self.world
        known: dict[str, Before] = {}
        for name, log in world.logs.items():
            directory = world.directory(name)
            doubtful = name in world.doubtful or not world.is_clean
            segments = [] if doubtful else segments_of(directory, log.end)
            known[name] = Before(
                held=world.is_held(name),
                paused=world.is_paused(name),
                due=None if doubtful else due_of(world, name),
                goes=may_go(segments, settings_of(world, name), world.now) if segments else 0,
                files=tree(directory),
                clean=checkpoint(world).get(name),
                bytes=sum(one.bytes for one in segments),
                records=0 if doubtful or log.corruption else len(self._visible(name)),
                corrupt=log.corruption is not None,
            )
        return known

    def after_sweep(
        self, run: Requested, status: dg.DagsterRunStatus, before: dict[str, Before]
    ) -> None:
        """What a sweep that has ended by itself did."""
        world = self.world
        was_clean = all(was.due is not None for was in before.values())
        there = [name for name in run.logs if name in world.logs]
        free = [name for name in there if not before[name].held]
        bad = [name for name in free if before[name].corrupt]
        gone = [name for name in run.logs if name not in world.logs]
        if world.broken or world.away:
            require(status.value == "FAILURE", f"a run without policies: {status}")
            return
        events = self.platform.instance.all_logs(run.run_id)
        made = materializations(events)
        checked = passed(events)
        for name in sorted(before):
            self._untouched_if_not_of(run, name, before[name])
        for name in sorted(set(free) - set(bad)):
            was = before[name]
            due = due_of(world, name)
            require(not due.due, f"{name} was swept, and is due: {due}, {was.due}, run {status}")
            if was.due is not None and was_clean:
                self._as_said(name, was, made.get(name))
                missed = CHECKS.keys() - {VALUE_CONTRACT} - checked.get(name, set())
                require(not (was.due.cleans and missed), f"{name} was not checked by {missed}")
            self._nothing_to_delete(run, name)
        require("" not in checked or bool(bad), f"failed checks: {checked.get('')}")
        self._quarantines(run, before, made, bad)
        unsafe = bad or gone or not was_clean
        require(status.value == "SUCCESS" or bool(unsafe), f"a sweep of {free}: {status}")
        world.doubtful -= set(free) - set(bad)

    def _untouched_if_not_of(self, run: Requested, name: str, was: Before) -> None:
        """A log that is held, or not of the run, is as it was."""
        if was.due is None:
            return  # a directory without the marker is recovered as a whole, whatever is paused
        if was.held or name not in run.logs:
            self._same(name, was, "held" if was.held else "not of the run")

    def _same(self, name: str, was: Before, why: str) -> None:
        now = tree(self.world.directory(name))
        require(now == was.files, f"{name} is {why}, and changed")
        clean = checkpoint(self.world).get(name)
        require(clean == was.clean, f"{name} is {why}, and its checkpoint moved to {clean}")

    def _as_said(self, name: str, was: Before, shown: dict[str, Any] | None) -> None:
        """The materialization of a log says what was found and what is on disk."""
        world, due = self.world, was.due
        assert due is not None
        if not due.due:
            return
        require(shown is not None, f"{name} was due, and has no materialization: {due}")
        assert shown is not None
        compacts = "compact" in settings_of(world, name)["cleanup.policy"]
        wanted: dict[str, object] = {"log end offset": world.logs[name].end}
        if compacts:
            wanted["first dirty offset"] = due.first_dirty
            wanted["first uncleanable offset"] = due.bound
            wanted["dirty ratio"] = round(due.ratio, 4)
        if due.cleans:
            wanted["cleaned up to offset"] = checkpoint(world).get(name)
            require(checkpoint(world).get(name) == due.bound, f"{name}: checkpoint {due}")
        segments = segments_of(world.directory(name), world.logs[name].end)
        if due.cleans and segments[0].base == 0 and not was.corrupt:
            freed = was.bytes - sum(each.bytes for each in segments)
            removed = was.records - len(self._visible(name))
            require(
                (freed, removed)
                == (
                    shown["bytes before"] - shown["bytes after"],
                    shown["records before"] - shown["records after"],
                ),
                f"{name} freed {freed} bytes and {removed} records, said {shown}",
            )
        recorded = {key: shown.get(key) for key in wanted}
        require(recorded == wanted, f"{name}: {recorded} is said, {wanted} is on disk")

    def _nothing_to_delete(self, run: Requested, name: str) -> None:
        """The job deletes old segments of a compacted log, too."""
        settings = settings_of(self.world, name)
        if run.job == "sweep" and settings["cleanup.policy"] == "compact,delete":
            segments = segments_of(self.world.directory(name), self.world.logs[name].end)
            left = may_go(segments, settings, self.world.now)
            require(not left, f"{name}: {left} segments are past their retention")

    def _quarantines(
        self,
        run: Requested,
        before: dict[str, Before],
        made: dict[str, dict[str, Any]],
        bad: list[str],
    ) -> None:
        """A log that fails is in quarantine, for twice as long each time; one that is cleaned is
        in none.
        """
        world, states = self.world, self._states()
        for name in set(run.logs) & world.logs.keys():
            now = quarantine_in(states.get(name, {}))
            known, was = world.quarantined.get(name), before[name]
            failures = 0 if known is None else known.failures
            delay_ms = min(FIRST_RETRY_MS << failures, LAST_RETRY_MS)
            failed = Quarantine(failures + 1, world.now + delay_ms)
            if was.due is None or (name in bad and not was.due.cleans):
                require(now in (known, failed, None), f"{name} has {now}, it had {known}")
            elif was.held:
                require(now == known, f"{name} is held, and has {now} after {known}")
            elif name in bad:
                require(now == failed, f"{name} failed, and has {now} after {known}")
            elif was.due.cleans or (made.get(name) and not _compacts(world, name)):
                require(now is None, f"{name} was swept, and has {now}")
            else:
                require(now == known, f"{name} has {now}, it had {known}")
            self._adopt(name, now)

    def _adopt(self, name: str, now: Quarantine | None) -> None:
        self.world.quarantined.pop(name, None)
        if now is not None:
            self.world.quarantined[name] = now

    def _states(self) -> dict[str, Any]:
        path = self.world.log_dir / ".logwright-state.json"
        states: dict[str, Any] = json.loads(path.read_text())["partitions"] if path.exists() else {}
        return states

    def after_interrupted(
        self, run: Requested, status: dg.DagsterRunStatus, staged: set[str]
    ) -> None:
        """A run that was canceled has nothing staged; what it, or a killed one, has done of its
        logs is not known. `staged`: before the run.
        """
        world = self.world
        some = world.logs.keys() if run.job not in ("sweep", "sweep_range") else run.logs
        world.doubtful |= set(some) & world.logs.keys()
        for name in set(some) & world.logs.keys():
            log, settings = world.logs[name], settings_of(world, name)
            horizon_ms = world.now + int(settings["delete.retention.ms"])
            log.cleanings.append(Cleaning(world.now, log.end, horizon_ms))
        if not world.is_clean:
            world.doubtful |= world.logs.keys()
        states = self._states()
        for name in states.keys() | world.quarantined.keys():
            self._adopt(name, quarantine_in(states.get(name, {})))
        if status.value == "CANCELED":
            more = self.staged() - staged
            require(not more, f"canceled, and staged are {more}")

    def staged(self) -> set[str]:
        """The logs with something staged, and by which plan."""
        work = self.world.log_dir.glob("*/.logwright/staging/*")
        return {f"{path.parents[2].name} {path.name}" for path in work}

    def after_retention(self, status: dg.DagsterRunStatus, before: dict[str, Before]) -> None:
        """Exactly the segments that are due are deleted."""
        world = self.world
        if world.broken or world.away:
            require(status.value == "FAILURE", f"a retention without policies: {status}")
            return
        for name, was in before.items():
            log, settings = world.logs[name], settings_of(world, name)
            compacts = "compact" in settings["cleanup.policy"]
            if was.paused or (was.held and compacts):
                if was.due is not None:
                    self._same(name, was, "held")
            elif was.due is not None:
                segments = segments_of(world.directory(name), log.end)
                first = segments[0].base
                require(first == self._first_left(was, log.end), f"{name} begins at {first}")
        safe = all(was.due is not None and not was.corrupt for was in before.values())
        require(status.value == "SUCCESS" or not safe, f"a retention: {status}")

    def after_purge(self, run: Requested, status: dg.DagsterRunStatus) -> None:
        """All files of its logs are gone whose delay is over."""
        world = self.world
        if world.broken or world.away:
            require(status.value == "FAILURE", f"a purge without policies: {status}")
            return
        free = {n for n in run.logs if n in world.logs and not world.is_paused(n)} - world.doubtful
        for name, file, _ in self._purged_now():
            left = name in free and (world.directory(name) / file).exists()
            require(not left, f"{file} of {name} is left by a purge: {status}")
        unsafe = world.doubtful or set(run.logs) - world.logs.keys()
        require(status.value == "SUCCESS" or bool(unsafe), f"a purge: {status}")

    def _first_left(self, was: Before, end: int) -> int:
        bases = sorted(int(name[:20]) for name in was.files if name.endswith(".log"))
        return [*bases, end][was.goes]

    # Always

    def always(self, *, purges: bool = False, deletes: bool = False) -> None:
        """What holds after every step. Effects: takes over what the model cannot know.

        Args:
            purges: files may go whose delay is over.
            deletes: old segments may go.
        """
        if self.world.away:
            return
        self._ledger(purges=purges)
        for name in sorted(self.world.logs):
            self._consumed(name, deletes=deletes)

    def _ledger(self, *, purges: bool) -> None:
        """Retired files go only in a purge, and after their delay."""
        world, there = self.world, set()
        for name in world.logs:
            for path in world.directory(name).glob("*.deleted"):
                key = (name, path.name, path.stat().st_ino)
                there.add(key)
                delay_ms = int(settings_of(world, name)["file.delete.delay.ms"])
                self.retired.setdefault(key, Retired(world.now, world.now + delay_ms))
        for key in self.retired.keys() - there:
            retired = self.retired.pop(key)
            if key[0] in world.logs:
                due_ms = self._due_ms(key[0], retired)
                require(purges, f"{key[1]} of {key[0]} went without a purge")
                early_ms = due_ms - world.now
                require(early_ms <= 0, f"{key[1]} of {key[0]} went {early_ms} ms early")
                require(not world.is_paused(key[0]), f"{key[0]} is paused, and was purged")

    def _visible(self, name: str) -> list[Record]:
        """What a consumer gets of a log."""
        start = self.world.logs[name].start
        return [
            Record(
                record.offset,
                (record.key or b"").decode(),
                None if record.value is None else record.value.decode(),
                record.timestamp_ms,
            )
            for batch in plain_batches(self.world.directory(name))
            if not batch.header.is_control
            for record in batch.records
            if record.offset >= start
        ]

    def _consumed(self, name: str, *, deletes: bool) -> None:
        """Consumers get what was appended, but for what a rule has removed."""
        world, log = self.world, self.world.logs[name]
        if log.corruption is not None:
            return
        directory = world.directory(name)
        settings = settings_of(world, name)
        end = checkpoint(world).get(name, 0)
        if end != log.clean:
            log.clean = end
            horizon_ms = world.now + int(settings["delete.retention.ms"])
            log.cleanings.append(Cleaning(world.now, end, horizon_ms))
        if name in world.doubtful:
            return  # a recovery may be needed before a consumer gets anything
        first = min(int(path.stem) for path in directory.glob("*.log"))
        if first > log.start:
            require(deletes, f"{name} begins at {first}, without a retention")
            gone = [record for record in log.records if record.offset < first]
            limit_ms = world.now - int(settings["retention.ms"])
            aged = all(record.time_ms < limit_ms for record in gone)
            sized = int(settings["retention.bytes"]) >= 0
            require("delete" in settings["cleanup.policy"] and (aged or sized), f"{name}: {first}")
            log.start = first
            log.records = [record for record in log.records if record.offset >= first]
        rows = {record.offset: record for record in self._visible(name)}
        known = {record.offset: record for record in log.records}
        wrong = [offset for offset, row in rows.items() if known.get(offset) != row]
        require(not wrong, f"{name} has other records at {wrong}")
        for record in log.records:
            if record.offset not in rows:
                may = _may_be_gone(record, log.records, log.cleanings)
                require(may, f"{name} lost {record.offset}")

    def _silent(self, text: str) -> None:
        """No record's key or value is in a text."""
        require(KEY not in text and VALUE not in text, "a key or a value is shown")

    def events_of(self, run_id: str) -> None:
        """No event of a run has a key or a value."""
        for entry in self.platform.instance.all_logs(run_id):
            self._silent(serialize_value(entry))


def _may_be_gone(record: Record, records: list[Record], cleanings: list[Cleaning]) -> bool:
    """A cleaning has read a later record of the key; or one was done after the horizon that an
    earlier one has given a tombstone.
    """
    alike = [each.offset for each in records if each.key == record.key]
    later = [offset for offset in alike if offset > record.offset]
    if later and any(cleaning.end > later[0] for cleaning in cleanings):
        return True
    return record.value is None and any(
        first.end > record.offset and first.horizon_ms <= second.at_ms
        for number, first in enumerate(cleanings)
        for second in cleanings[number + 1 :]
    )


def _is_due(world: World, name: str) -> bool:
    return due_of(world, name).due


def _compacts(world: World, name: str) -> bool:
    return "compact" in settings_of(world, name)["cleanup.policy"]


def _is_late(world: World, name: str) -> bool:
    deadline_ms = due_of(world, name).deadline_ms
    return deadline_ms is not None and deadline_ms <= world.now

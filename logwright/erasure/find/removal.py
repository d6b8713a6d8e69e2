"""Which rule removes the records that were found, and by when.

Records of a live log are removed by cleanings and by retention (`logwright.erasure.forecast`). Any
other file is removed as a whole, or nothing removes it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from logwright.erasure.find.kinds import ABORTED, SUPERSEDED, Judged
from logwright.erasure.find.result import LiveHits, Settings
from logwright.erasure.forecast import NO_TIME, RULES, Records, Upkeep, removals
from logwright.format.batch import DELETE_HORIZON
from logwright.live_plans import plan_is_alive
from logwright.log.inventory import DELETE_DELAY, DELETED_LOG_DELAY, PURGE, UPKEEP, WRITE
from logwright.log.record_files import RecordFile
from logwright.place.model import Place
from logwright.state.model import Hold


def upkeep_of(settings: Settings, topic: str, hold: Hold | None) -> Upkeep:
    """Return how a log is maintained: without a cleaner compacted ones are skipped; one that is
    paused is not touched, and one in quarantine is not cleaned.
    """
    config, cleaner = settings.of_topic(topic)
    works = hold is None and (cleaner.off is None or not config.compact or settings.forced)
    quarantined = hold is not None and hold.kind == "quarantined"
    return Upkeep(
        run_interval_ms=settings.run_interval_ms,
        forced=settings.forced,
        cleans=works,
        retains=works or (quarantined and not config.compact),
        appends_continue=settings.appends_continue,
    )


def records_of(hits: NDArray[np.void], batches: NDArray[np.void], judged: Judged) -> Records:
    """Return records that were found as a forecast takes them."""
    rows = batches[hits["row"]]
    has_horizon = (rows["attributes"] & DELETE_HORIZON) != 0
    return Records(
        offsets=hits["offset"],
        superseded=judged.kinds == SUPERSEDED,
        aborted=judged.kinds == ABORTED,
        tombstones=hits["is_tombstone"] & (hits["request"] >= 0) & (judged.kinds != ABORTED),
        horizons=np.where(has_horizon, rows["base_timestamp"], NO_TIME),
        superseded_within=judged.superseded_within,
    )


def removal_of_records(
    live: LiveHits, judged: Judged, settings: Settings
) -> tuple[list[str], list[int | None]]:
    """Return rule and time of each record of a live log."""
    topic = live.log.partition.topic
    config, _ = settings.of_topic(topic)
    records = records_of(live.hits, live.batches, judged)
    upkeep = upkeep_of(settings, topic, live.hold)
    found = removals(records, live.log, config, now_ms=settings.now_ms, upkeep=upkeep)
    rules = [RULES[number] for number in found.rules.tolist()]
    return rules, [None if time == NO_TIME else time for time in found.times.tolist()]


def removal_of_file(
    file: RecordFile, settings: Settings | None, log_dir: Place
) -> tuple[str, int | None]:
    """Return what removes a file that is not part of a live log, and by when. Effects: looks
    whether the plan of a staged file is alive.

    Raises:
        LogwrightError: the settings of its topic cannot be read.
    """
    rule = file.place.rule
    if settings is None or rule == UPKEEP or file.is_kept:
        return "", None
    if file.place.kind == "staged" and plan_is_alive(log_dir, file.plan):
        return "", None
    due_ms = settings.now_ms if rule == PURGE else file.since_ms
    if due_ms is None:
        return rule if rule == WRITE else "", None
    if rule == DELETE_DELAY:
        due_ms += settings.of_topic(file.partition.topic)[0].file_delete_delay_ms
    elif rule == DELETED_LOG_DELAY:
        due_ms += settings.broker.file_delete_delay_ms
    return rule, max(due_ms, settings.now_ms) + settings.run_interval_ms

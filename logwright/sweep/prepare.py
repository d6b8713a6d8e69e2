"""The beginning of a sweep: what is held, what is recovered, what is due."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from logwright.compaction.model import CleaningOptions
from logwright.sweep.holds import hold
from logwright.sweep.model import local_part
from logwright.sweep.recover import recover
from logwright.sweep.stages import plan_all

if TYPE_CHECKING:
    from logwright.config.sources import DirectorySettings
    from logwright.place.model import AnyPlace, Place
    from logwright.sweep.model import SweepState


def prepare(
    state: SweepState[Place], settings: DirectorySettings, options: CleaningOptions
) -> SweepState[Place]:
    """Recover the unclean logs that are not held, then plan; a version in a bucket is whole, and
    needs no recovery. Effects: as `recover` and `plan_by_policies`.
    """
    state = hold(state, settings, force=options.force)
    state = state.with_works(recover(local_part(state), settings).works)
    return plan_by_policies(state, settings, options)


def plan_by_policies(
    state: SweepState[AnyPlace],
    settings: DirectorySettings,
    options: CleaningOptions | None = None,
) -> SweepState[AnyPlace]:
    """Decide about each log that is not held, with the checks and the high watermark of the
    policies. Effects: reads the log directories.
    """
    policies = settings.policies
    return plan_all(
        state,
        settings,
        options=replace(
            options or CleaningOptions(),
            checks=policies.checks,
            keep_failed_output_ms=policies.sweep.keep_failed_output_ms,
        ),
        high_watermark=policies.high_watermark,
    )

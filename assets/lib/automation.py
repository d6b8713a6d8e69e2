"""When assets are made by themselves (docs/adr/0022)."""

from typing import Any

import dagster as dg


def after_changes() -> dg.AutomationCondition[Any]:
    """Return when the inventory is made by itself: a log was materialized, and no run of the assets
    is in progress.

    `AutomationCondition.eager` would wait until every log has a materialization; a log that is
    never due has none.
    """
    condition = dg.AutomationCondition
    return (
        condition.any_deps_updated().since_last_handled()
        & ~condition.any_deps_in_progress()
        & ~condition.in_progress()
    ).with_label("after_changes")

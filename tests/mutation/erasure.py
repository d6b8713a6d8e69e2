"""Faults in the search for requested keys, and in the forecast of when they are gone."""

from __future__ import annotations

from tests.mutation.fault import Fault

_MATCH = ("tests/unit/erasure/test_match.py",)
_SCAN = ("tests/unit/erasure/find/test_scan.py",)
_SEARCH = ("tests/unit/erasure/find/test_search.py",)
_KINDS = ("tests/unit/erasure/find/test_kinds.py",)
_FORECAST = ("tests/unit/erasure/outlook/test_removals.py",)
_REQUESTS = ("tests/unit/erasure/test_landing.py", "tests/unit/erasure/test_secret.py")
_COMMAND = ("tests/unit/cli/test_find.py",)

_FORMS = ("tests/unit/erasure/test_forms.py",)

ERASURE = (
    Fault(
        family="forms: the payload after an id is not read",
        file="erasure/forms.py",
        right="        yield _parsed(payload) if text is None else text\n",
        wrong="        yield key\n",
        tests=_FORMS,
    ),
    Fault(
        family="forms: keys with another form are gone",
        file="erasure/outlook/verdict.py",
        right="    if (look.others and state in _CLEAN) or (look.unformed and state in CLOSED):\n",
        wrong="    if look.unformed and state in CLOSED:\n",
        tests=("tests/unit/erasure/outlook/test_verdict.py",),
    ),
    Fault(
        family="match: keys with one filter are taken for one",
        file="erasure/match.py",
        right="                if at == length:\n",
        wrong="                if at >= 0:\n",
        tests=_MATCH,
    ),
    Fault(
        family="match: only the first key of a filter is compared",
        file="erasure/match.py",
        right="                if code == NO_MATCH:\n",
        wrong="                if code != NO_MATCH:\n",
        tests=_MATCH,
    ),
    Fault(
        family="find: a wrong CRC is not noticed",
        file="erasure/find/walk.py",
        right="        if not has_right_crc(data, batch):\n",
        wrong="        if not has_right_crc(data, batch) and batch.count < 0:\n",
        tests=_SCAN,
    ),
    Fault(
        family="find: what follows a damaged batch is skipped",
        file="erasure/find/scan.py",
        right="                following = position + LOG_OVERHEAD_BYTES + length\n",
        wrong="                following = end\n",
        tests=_SCAN,
    ),
    Fault(
        family="find: a torn end is not named",
        file="erasure/find/scan.py",
        right="        if following < end or first_nonzero(data, position) < end:\n",
        wrong="        if following < end:\n",
        tests=_SCAN,
    ),
    Fault(
        family="find: a header's value is not searched",
        file="erasure/find/walk.py",
        right="    for _ in range(2 * headers):\n",
        wrong="    for _ in range(headers):\n",
        tests=_SCAN,
    ),
    Fault(
        family="find: an unknown file is not named",
        file="erasure/find/search.py",
        right="            scanned.unread = (whole_file(_FOREIGN),)\n",
        wrong="            scanned.unread = ()\n",
        tests=_COMMAND,
    ),
    Fault(
        family="find: a file that is renamed meanwhile is missed",
        file="erasure/find/search.py",
        right="            if list_tree(log_dir) == inventory.tree:\n",
        wrong="            if list_tree(log_dir):\n",
        tests=_SEARCH,
    ),
    Fault(
        family="find: records that are looked up later are overwritten",
        file="erasure/find/walk.py",
        right="_RING: Final = 2 * AHEAD\n",
        wrong="_RING: Final = AHEAD\n",
        tests=_SCAN,
    ),
    Fault(
        family="kinds: data of an open transaction supersedes",
        file="erasure/find/kinds.py",
        right="    counts = (requests >= 0) & ~gone & ~pending",
        wrong="    counts = (requests >= 0) & ~gone",
        tests=_KINDS,
    ),
    Fault(
        family="kinds: aborted data supersedes",
        file="erasure/find/kinds.py",
        right="    counts = (requests >= 0) & ~gone & ~pending",
        wrong="    counts = (requests >= 0) & ~pending",
        tests=_KINDS,
    ),
    Fault(
        family="forecast: retention one millisecond early",
        file="erasure/outlook/removals.py",
        right="end + config.retention_ms + 1 for end in ends",
        wrong="end + config.retention_ms for end in ends",
        tests=_FORECAST,
    ),
    Fault(
        family="forecast: the lag one millisecond late",
        file="erasure/outlook/cleanings.py",
        right="max(lag_ms, 0) + 1 for start in starts",
        wrong="max(lag_ms, 0) + 2 for start in starts",
        tests=_FORECAST,
    ),
    Fault(
        family="forecast: a horizon is reached one millisecond late",
        file="erasure/outlook/removals.py",
        right="(horizons <= cleaning.sees_ms)",
        wrong="(horizons < cleaning.sees_ms)",
        tests=_FORECAST,
    ),
    Fault(
        family="forecast: the purge's delay is forgotten",
        file="erasure/outlook/removals.py",
        right="at_ms + config.file_delete_delay_ms + 2",
        wrong="at_ms + 2",
        tests=_FORECAST,
    ),
    Fault(
        family="requests: a refusal has the value",
        file="erasure/landing.py",
        right='    return f"{column} is not valid ({kind})"\n',
        wrong='    return f"{column} is not valid ({error})"\n',
        tests=_REQUESTS,
    ),
    Fault(
        family="secret: others may read it",
        file="erasure/secret.py",
        right="_OTHERS: Final = 0o077\n",
        wrong="_OTHERS: Final = 0o007\n",
        tests=_REQUESTS,
    ),
)

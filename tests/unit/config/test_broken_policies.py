"""Broken policies: every problem has its line, column, setting, rule, value and nearest key."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.config.patterns import NOT_LINEAR
from logwright.config.policies import check_policies, load_policies
from logwright.errors import PolicyError

VERSION = "version: 1\n"
DEFAULTS = VERSION + "defaults:\n"
TOPICS = VERSION + "topics:\n"

BROKEN: dict[str, tuple[str | bytes, list[str]]] = {
    "wrong type": (
        DEFAULTS + "  segment.ms: a day\n",
        ["3:15: defaults.segment.ms: not a whole number (got 'a day')"],
    ),
    "out of range": (
        DEFAULTS + "  min.cleanable.dirty.ratio: 1.3\n",
        [("3:30: defaults.min.cleanable.dirty.ratio: must be less than or equal to 1 (got '1.3')")],
    ),
    "unknown key": (
        DEFAULTS + "  cleanup.polcy: compact\n",
        [
            (
                "3:3: defaults.cleanup.polcy: unknown key (got 'compact'); did you mean "
                "'cleanup.policy'?"
            )
        ],
    ),
    "unknown key of an entry": (
        TOPICS + "  - name: t\n    ownr: me\n",
        ["4:5: topics[t].ownr: unknown key (got 'me'); did you mean 'owner'?"],
    ),
    "unknown key of a section": (
        VERSION + "sweep:\n  max_log: 1\n",
        ["3:3: sweep.max_log: unknown key (got '1'); did you mean 'max_logs'?"],
    ),
    "unknown key of a landing directory": (
        VERSION + "ingest:\n  sources:\n    - {topic: t, path: p, pat: x}\n",
        ["4:27: ingest.sources[t].pat: unknown key (got 'x'); did you mean 'path'?"],
    ),
    "removed name": (
        DEFAULTS + "  message.format.version: 2.8\n",
        [
            (
                "3:3: defaults.message.format.version: unknown config, removed in Kafka 4.0; each"
                " batch is read by its own magic (got '2.8')"
            )
        ],
    ),
    "broker config in an entry": (
        TOPICS + "  - name: t\n    log.roll.hours: 5\n",
        [
            (
                "4:5: topics[t].log.roll.hours: is a broker config, the topic config is "
                "'segment.ms' (got '5')"
            )
        ],
    ),
    "duplicate key": (
        DEFAULTS + "  segment.ms: 1\n  segment.ms: 2\n",
        ["4:3: defaults.segment.ms: duplicate key, first at p.yml:3:3"],
    ),
    "tab": (DEFAULTS + "\tsegment.ms: 1\n", ["3:1: a tab cannot indent: use spaces"]),
    "unclosed quote": (
        TOPICS + "  - name: 't\n    segment.ms: 5\n",
        ["3:11: the quote is not closed"],
    ),
    "unclosed bracket": (TOPICS + "  - name: t\n    tags: [a, b\n", ["4:11: '[' is not closed"]),
    "unclosed brace": (VERSION + "defaults: {segment.ms: 1\n", ["2:11: '{' is not closed"]),
    "bracket closed too late": (
        VERSION + "log_dirs: [a, b\nsweep: {max_logs: 1}\n",
        [
            (
                "3:6: is not valid YAML: expected ',' or ']', but got ':', while parsing a flow "
                "sequence at 2:11"
            )
        ],
    ),
    "colon in a value": (
        DEFAULTS + "  segment.ms: 1: 2\n",
        ["3:16: is not valid YAML: mapping values are not allowed here"],
    ),
    "bad regular expression": (
        TOPICS + "  - pattern: 'cdc[.*'\n",
        [f"3:14: topics[cdc[.*].pattern: {NOT_LINEAR} (got 'cdc[.*')"],
    ),
    "regular expression that takes more than linear time": (
        TOPICS + "  - pattern: '(a)\\1'\n",
        [f"3:14: topics[(a)\\1].pattern: {NOT_LINEAR} (got '(a)\\\\1')"],
    ),
    "name and pattern": (
        TOPICS + "  - name: t\n    segment.ms: 5\n    pattern: t\n",
        ["5:14: topics[t].pattern: exactly one of name and pattern is required"],
    ),
    "neither name nor pattern": (
        TOPICS + "  - owner: me\n",
        ["3:5: topics[0]: exactly one of name and pattern is required"],
    ),
    "unknown section": (
        VERSION + "sweeps: {}\n",
        ["2:1: sweeps: unknown section; did you mean 'sweep'?"],
    ),
    "section of a list": (TOPICS + "  name: t\n", ["3:3: topics: must be a list (got a mapping)"]),
    "entry that is text": (
        TOPICS + "  - orders\n",
        ["3:5: topics[0]: must be a mapping (got 'orders')"],
    ),
    "not a mapping": ("- version: 1\n", ["1:1: must be a mapping at the top level (got a list)"]),
    "empty file": ("", ["1:1: is empty: 'version: 1' is required"]),
    "empty section": (VERSION + "defaults:\n", ["2:10: defaults: must be a mapping (got nothing)"]),
    "wrong version": (
        "version: 2\nanything: 1\n",
        ["1:10: version: must be 1, the only version (got '2')"],
    ),
    "missing version": ("defaults: {}\n", ["1:1: version: 'version: 1' is required"]),
    "two documents": (
        VERSION + "---\nversion: 1\n",
        [
            (
                "2:1: is not valid YAML: expected a single document in the stream at 1:1, but "
                "found another document"
            )
        ],
    ),
    "binary file": (b"\x89PNG\r\n\x1a\n\x00\x00", ["1:1: is not UTF-8: byte 0x89"]),
    "NUL": (VERSION + "log_dirs: [a\0b]\n", ["2:13: is not YAML: it has the character '\\x00'"]),
    "not UTF-8": (VERSION.encode() + b"log_dirs: [/gr\xfcn]\n", ["2:15: is not UTF-8: byte 0xfc"]),
    "UTF-16": (("\ufeff" + VERSION).encode("utf-16-le"), ["1:1: is not UTF-8: byte 0xff"]),
    "BOM": ("\ufeffversion: 2\n", ["1:10: version: must be 1, the only version (got '2')"]),
    "alias": (
        VERSION + "defaults: &all {segment.ms: 5}\ntopics: [{name: t, tags: *all}]\n",
        ["3:26: topics[t].tags: aliases are not supported: repeat the value of '&all'"],
    ),
    "alias bomb": (
        VERSION + "a: &a [x, x]\nb: &b [*a, *a]\nlog_dirs: [*b, *b]\n",
        [
            "2:1: a: unknown section",
            "3:1: b: unknown section",
            "3:8: b[0]: aliases are not supported: repeat the value of '&a'",
            "3:12: b[1]: aliases are not supported: repeat the value of '&a'",
            "4:12: log_dirs[0]: aliases are not supported: repeat the value of '&b'",
            "4:16: log_dirs[1]: aliases are not supported: repeat the value of '&b'",
        ],
    ),
    "anchor twice": (
        VERSION + "log_dirs: [&a x, &a y]\n",
        [
            (
                "2:18: is not valid YAML: found duplicate anchor 'a'; first occurrence at 2:12, "
                "second occurrence"
            )
        ],
    ),
    "merge key": (
        TOPICS + "  - name: t\n    <<: {segment.ms: 1}\n",
        ["4:5: topics[t].<<: merge keys are not supported: repeat the settings"],
    ),
    "tag": (
        VERSION + "log_dirs: [!!python/name:os.system x]\n",
        [("2:12: log_dirs[0]: the tag 'tag:yaml.org,2002:python/name:os.system' is not supported")],
    ),
    "unknown cleanup.policy": (
        DEFAULTS + "  cleanup.policy: [compact, deleted]\n",
        [
            (
                "3:29: defaults.cleanup.policy: must be compact, delete, both separated by a "
                "comma, or empty (got 'deleted')"
            )
        ],
    ),
    "old cleanup.policy": (
        DEFAULTS + "  cleanup.policy: dedupe\n",
        [
            (
                "3:19: defaults.cleanup.policy: dedupe is an old name, Kafka 4.3 calls it compact"
                " (got 'dedupe')"
            )
        ],
    ),
    "list for a number": (
        DEFAULTS + "  segment.ms: [5]\n",
        ["3:15: defaults.segment.ms: must be a single value (got ['5'])"],
    ),
    "mapping in a list": (
        DEFAULTS + "  cleanup.policy:\n    - compact\n    - {a: 1}\n",
        ["5:7: defaults.cleanup.policy[1]: must be a single value (got a mapping)"],
    ),
    "negative": (
        DEFAULTS + "  delete.retention.ms: -1\n",
        ["3:24: defaults.delete.retention.ms: must be greater than or equal to 0 (got '-1')"],
    ),
    "int32 overflow": (
        DEFAULTS + "  segment.index.bytes: 2147483648\n",
        [
            (
                "3:24: defaults.segment.index.bytes: must be less than or equal to 2147483647 "
                "(got '2147483648')"
            )
        ],
    ),
    "int64 overflow": (
        DEFAULTS + "  segment.ms: 9223372036854775808\n",
        [
            (
                "3:15: defaults.segment.ms: must be less than or equal to 9223372036854775807 "
                "(got '9223372036854775808')"
            )
        ],
    ),
    "float for a whole number": (
        DEFAULTS + "  segment.ms: 1.5\n",
        ["3:15: defaults.segment.ms: not a whole number (got '1.5')"],
    ),
    "yes": (
        DEFAULTS + "  preallocate: yes\n",
        ["3:16: defaults.preallocate: not true or false (got 'yes')"],
    ),
    "no value": (
        DEFAULTS + "  segment.ms:\n",
        ["3:14: defaults.segment.ms: needs a value (got nothing)"],
    ),
    "null": (
        TOPICS + "  - name: t\n    segment.ms: ~\n",
        ["4:17: topics[t].segment.ms: needs a value (got nothing)"],
    ),
    "null name": (
        TOPICS + "  - name:\n    segment.ms: 5\n",
        ["3:10: topics[0].name: needs a value (got nothing)"],
    ),
    "list for a name": (
        TOPICS + "  - name: [t]\n",
        ["3:11: topics[0].name: must be text (got ['t'])"],
    ),
    "bad topic name": (
        TOPICS + "  - name: orders/eu\n",
        [
            (
                "3:11: topics[orders/eu].name: must be 1 to 249 letters, digits, '.', '_' and "
                "'-', but not '.' or '..' (got 'orders/eu')"
            )
        ],
    ),
    "long topic name": (
        TOPICS + "  - name: " + "t" * 250,
        [
            (
                "3:11: topics[0].name: must be 1 to 249 letters, digits, '.', '_' and '-', but "
                "not '.' or '..' (got 'tttttttttttttttttttttttttttttttttttttttttttttttttttttttttt"
                "ttttttttttttttttttttttttttttttttttttttttt…)"
            )
        ],
    ),
    "text for a list": (
        TOPICS + "  - name: t\n    tags: cdc\n",
        ["4:11: topics[t].tags: must be a list (got 'cdc')"],
    ),
    "severity": (
        TOPICS + "  - name: t\n    severity: FATAL\n",
        ["4:15: topics[t].severity: must be 'WARN' or 'ERROR' (got 'FATAL')"],
    ),
    "entry twice": (
        TOPICS + "  - name: t\n  - name: t\n",
        ["4:11: topics[t].name: already has an entry at p.yml:3:11 (got 't')"],
    ),
    "min lag above max lag": (
        TOPICS + "  - name: t\n    max.compaction.lag.ms: 8\n" + "    min.compaction.lag.ms: 9\n",
        [
            (
                "5:28: topics[t].min.compaction.lag.ms: min.compaction.lag.ms=9 is above "
                "max.compaction.lag.ms=8; topics[t].max.compaction.lag.ms is set at p.yml:4:28"
            )
        ],
    ),
    "min lag above the default max lag": (
        DEFAULTS
        + "  max.compaction.lag.ms: 8\ntopics:\n"
        + "  - name: t\n    min.compaction.lag.ms: 9\n",
        [
            (
                "6:28: topics[t].min.compaction.lag.ms: min.compaction.lag.ms=9 is above "
                "max.compaction.lag.ms=8; defaults.max.compaction.lag.ms is set at p.yml:3:26"
            )
        ],
    ),
    "entry against a pattern": (
        TOPICS
        + "  - pattern: t.*\n    min.compaction.lag.ms: 9\n"
        + "  - name: t1\n    max.compaction.lag.ms: 8\n",
        [
            (
                "6:28: topics[t1].max.compaction.lag.ms: min.compaction.lag.ms=9 is above "
                "max.compaction.lag.ms=8; topics[t.*].min.compaction.lag.ms is set at p.yml:4:28"
            )
        ],
    ),
    "two rules": (
        DEFAULTS
        + "  min.compaction.lag.ms: 9\n  max.compaction.lag.ms: 8\n"
        + "  compression.gzip.level: 0\n  log.retention.ms: 0\n",
        [
            (
                "3:26: defaults.min.compaction.lag.ms: min.compaction.lag.ms=9 is above "
                "max.compaction.lag.ms=8; defaults.max.compaction.lag.ms is set at p.yml:4:26"
            ),
            (
                "5:27: defaults.compression.gzip.level: compression.gzip.level=0 is invalid: must"
                " be 1 to 9, or -1"
            ),
            (
                "6:21: defaults.log.retention.ms: log.retention.ms=0 is invalid: must be -1 or at"
                " least 1"
            ),
        ],
    ),
    "tiered": (
        TOPICS + "  - name: t\n    remote.storage.enable: true\n",
        [
            (
                "4:28: topics[t].remote.storage.enable: remote.storage.enable=true: a topic with "
                "tiered storage is not maintained offline"
            )
        ],
    ),
    "little memory": (
        DEFAULTS + "  log.cleaner.threads: 4\n  log.cleaner.dedupe.buffer.size: 4194304\n",
        [
            (
                "4:35: defaults.log.cleaner.dedupe.buffer.size: "
                "log.cleaner.dedupe.buffer.size=4194304 is invalid: must be more than 1048576 "
                "bytes for each of 4 threads; defaults.log.cleaner.threads is set at p.yml:3:24"
            )
        ],
    ),
    "log directory twice": (
        VERSION + "log_dirs: [/a, /b, /a]\n",
        ["2:20: log_dirs[2]: is already listed at p.yml:2:12 (got '/a')"],
    ),
    "log directory in a bucket twice": (
        VERSION + "log_dirs: [s3://a/b, s3://a/b/]\n",
        ["2:22: log_dirs[1]: is already listed at p.yml:2:12 (got 's3://a/b/')"],
    ),
    "log directory with credentials": (
        VERSION + "log_dirs: [a=s3://key:secret@a/b]\n",
        ["2:12: log_dirs[0]: must have no credentials and no query: they are of the environment"],
    ),
    "log directories as text": (
        VERSION + "log_dirs: /a\n",
        ["2:11: log_dirs: must be a list (got '/a')"],
    ),
    "landing directory without topic": (
        VERSION + "ingest:\n  sources:\n    - path: x\n",
        ["4:7: ingest.sources[0].topic: is required"],
    ),
    "options that are text": (
        VERSION + "ingest:\n  sources:\n    - {topic: t, path: p, options: 'password=x'}\n",
        ["4:36: ingest.sources[t].options: must be a mapping (got a value)"],
    ),
    "deep nesting": (
        VERSION + "sweep: {max_logs: [[[[[[[[[[1]]]]]]]]]]}\n",
        ["2:28: is nested more than 10 deep"],
    ),
    "very deep nesting": ("[" * 5000, ["1:12: is nested more than 10 deep"]),
    "huge file": ("#" * 1_048_577, ["1:1: is larger than 1048576 bytes"]),
}
"""Name → content of a file, and the problems without the name of the file."""


@pytest.mark.parametrize(("content", "expected"), BROKEN.values(), ids=BROKEN)
def test_broken(tmp_path: Path, content: str | bytes, expected: list[str]) -> None:
    """The check and the loading of policies say the same."""
    raw = content if isinstance(content, bytes) else content.encode()
    (tmp_path / "p.yml").write_bytes(raw)
    checked = check_policies(tmp_path)
    assert checked.policies is None
    sentences = [str(one) for one in checked.problems]
    assert expected == [one.replace(f"{tmp_path}/", "").removeprefix("p.yml:") for one in sentences]
    with pytest.raises(PolicyError) as caught:
        load_policies(tmp_path)
    assert "\n".join(sentences) == str(caught.value)
    assert 2 == caught.value.exit_status

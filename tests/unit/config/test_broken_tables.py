"""Broken `table:` sections: every problem has its line, column, setting, rule, value and nearest
key.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.config.policies import check_policies
from logwright.config.table import TopicTable, references, tables_of
from logwright.errors import PolicyError
from logwright.resources.secrets import with_secrets

TOPICS = "version: 1\ntopics:\n"

BROKEN: dict[str, tuple[str, list[str]]] = {
    "unknown key of a table": (
        TOPICS + "  - name: t\n    table: {format: delta, path: p, bucket: 4}\n",
        ["4:37: topics[t].table.bucket: unknown key (got '4'); did you mean 'buckets'?"],
    ),
    "unknown decoder of a table": (
        TOPICS + "  - name: t\n    table: {format: delta, path: p, vaule: string}\n",
        ["4:37: topics[t].table.vaule: unknown key (got 'string'); did you mean 'value'?"],
    ),
    "unknown format of a table": (
        TOPICS + "  - name: t\n    table: {format: csv, path: p}\n",
        ["4:21: topics[t].table.format: must be 'parquet', 'delta' or 'iceberg' (got 'csv')"],
    ),
    "table without a format": (
        TOPICS + "  - name: t\n    table: {path: p}\n",
        ["4:12: topics[t].table.format: is required"],
    ),
    "table without a path": (
        TOPICS + "  - name: t\n    table: {format: parquet}\n",
        ["4:21: topics[t].table.format: path is required"],
    ),
    "a whole topic without a path": (
        TOPICS
        + "  - name: t\n    table: {format: iceberg, catalog: {type: rest}, unique: topic}\n",
        ["4:61: topics[t].table.unique: topic needs a path"],
    ),
    "decoded keys without a path": (
        TOPICS
        + "  - name: t\n    table: {format: iceberg, catalog: {type: rest}, unique_by: decoded}\n",
        ["4:64: topics[t].table.unique_by: decoded needs a path"],
    ),
    "decoded keys that are not decoded": (
        TOPICS + "  - name: t\n    table: {format: delta, path: p, unique_by: decoded}\n",
        ["4:48: topics[t].table.unique_by: decoded needs a key that is decoded, such as key: json"],
    ),
    "unique elsewhere": (
        TOPICS + "  - name: t\n    table: {format: delta, path: p, unique: table}\n",
        ["4:45: topics[t].table.unique: must be 'partition' or 'topic' (got 'table')"],
    ),
    "table of a pattern": (
        TOPICS + "  - pattern: t.*\n    table: {format: parquet, path: p}\n",
        ["4:5: topics[t.*].table: needs an entry with a name, not a pattern"],
    ),
    "table as text": (
        TOPICS + "  - name: t\n    table: parquet\n",
        ["4:12: topics[t].table: must be a mapping (got 'parquet')"],
    ),
    "catalog of another format": (
        TOPICS + "  - name: t\n    table: {format: delta, path: p, catalog: {type: rest}}\n",
        ["4:46: topics[t].table.catalog: catalog is for the format iceberg"],
    ),
    "identifier without a namespace": (
        TOPICS + "  - name: t\n    table: {format: iceberg, path: p, identifier: t}\n",
        [
            (
                "4:51: topics[t].table.identifier: must be NAMESPACE.NAME of letters, digits, '_'"
                " and '-' (got 't')"
            )
        ],
    ),
    "secret of a catalog": (
        TOPICS + "  - name: t\n    table: {format: iceberg, catalog: {token: s3cret}}\n",
        [
            (
                "4:47: topics[t].table.catalog.token: a secret must be a reference to the"
                " environment: ${NAME}"
            )
        ],
    ),
    "password in a catalog's address": (
        TOPICS + "  - name: t\n    table: {format: iceberg, catalog: {uri: 'http://a:b@c'}}\n",
        [
            (
                "4:45: topics[t].table.catalog.uri: has a password: make it a reference to the"
                " environment, ${NAME}"
            )
        ],
    ),
    "catalog as text": (
        TOPICS + "  - name: t\n    table: {format: iceberg, path: p, catalog: rest}\n",
        ["4:48: topics[t].table.catalog: must be a mapping (got a value)"],
    ),
    "too many buckets": (
        TOPICS + "  - name: t\n    table: {format: delta, path: p, buckets: 5000}\n",
        ["4:46: topics[t].table.buckets: must be less than or equal to 4096 (got '5000')"],
    ),
    "one path of two tables": (
        TOPICS
        + "  - {name: t, table: {format: delta, path: /a/b}}\n"
        + "  - {name: u, table: {format: parquet, path: /a//b}}\n",
        [("4:46: topics[u].table.path: is the path of another table, at p.yml:3:44 (got '/a//b')")],
    ),
}


@pytest.mark.parametrize(("content", "expected"), BROKEN.values(), ids=BROKEN)
def test_broken(tmp_path: Path, content: str, expected: list[str]) -> None:
    """One line for each problem, and no value of a catalog in it."""
    (tmp_path / "p.yml").write_text(content)
    checked = check_policies(tmp_path)
    assert checked.policies is None
    sentences = [str(one).replace(f"{tmp_path}/", "") for one in checked.problems]
    assert expected == [one.removeprefix("p.yml:") for one in sentences]
    assert "s3cret" not in str(sentences)


def test_a_good_one(tmp_path: Path) -> None:
    """With all settings; relative schema files are next to the policies."""
    (tmp_path / "p.yml").write_text(
        TOPICS
        + "  - name: a.b\n"
        + "    table:\n"
        + "      format: iceberg\n"
        + "      identifier: shop.customers\n"
        + "      catalog: {type: rest, uri: 'https://c', token: '${TOKEN}'}\n"
        + "      buckets: 8\n"
        + "      log_dir: broker1\n"
        + "      preview: true\n"
        + "      keep_versions_ms: 0\n"
        + "      key: long\n"
        + "      value: {format: json, schema: {id: long}}\n"
    )
    checked = check_policies(tmp_path)
    assert () == checked.problems
    assert checked.policies is not None
    ((topic, table),) = tables_of(checked.policies).items()
    assert ("a.b", "iceberg", 8, 0) == (topic, table.format, table.buckets, table.keep_versions_ms)
    assert {"token": "TOKEN"} == references(table.catalog)
    assert ("long", "json") == (table.decoding.key.format, table.decoding.value.format)


def test_secrets_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that is not set is named."""
    catalog = {"type": "rest", "token": "${CATALOG_TOKEN}"}
    monkeypatch.setenv("CATALOG_TOKEN", "s3cret")
    assert {"type": "rest", "token": "s3cret"} == with_secrets(catalog, topic="t")
    monkeypatch.delenv("CATALOG_TOKEN")
    with pytest.raises(PolicyError, match="topic t needs the environment variables CATALOG_TOKEN"):
        with_secrets(catalog, topic="t")


@pytest.mark.parametrize("known", ["meta.properties", "log-start-offset-checkpoint", None])
def test_a_table_in_a_log_directory(tmp_path: Path, known: str | None) -> None:
    """No broker would start there: by a broker's files, through a link, or by `log_dirs`."""
    log_dir = tmp_path / "logs"
    log_dir.mkdir()
    (tmp_path / "link").symlink_to(log_dir)
    if known is not None:
        (log_dir / known).touch()
    policies = tmp_path / "policies"
    policies.mkdir()
    tables = f"{TOPICS}  - {{name: t, table: {{format: delta, path: {tmp_path}/link/x}}}}\n"
    named = f"log_dirs: [{log_dir}]\n"
    (policies / "p.yml").write_text(tables + (named if known is None else ""))
    (problem,) = check_policies(policies).problems
    assert f"is in the log directory {log_dir}: no broker would start on it" == problem.rule
    (policies / "p.yml").write_text(tables.replace("link/x", "elsewhere") + named)
    assert () == check_policies(policies).problems


@pytest.mark.parametrize(
    ("settings", "at_once", "until"),
    [
        ({}, False, 1_020),
        ({}, True, 1_000),
        ({"update_mode": "copy-on-write"}, False, 1_010),
        ({"format": "parquet"}, False, 1_000),
        ({"format": "parquet", "unique": "topic"}, False, 1_020),
        ({"format": "parquet", "unique": "topic"}, True, 1_000),
        ({"format": "parquet", "unique_by": "decoded"}, False, 1_020),
        ({"format": "iceberg", "path": None, "catalog": {"type": "rest"}}, True, None),
    ],
)
def test_until_when_rows_are_held(
    settings: dict[str, object], until: int | None, *, at_once: bool
) -> None:
    """Marked in a current file, then in one of an earlier version; erased ones go at once."""
    given = {"format": "delta", "path": "p", "keep_versions_ms": 10, **settings}
    table = TopicTable.model_validate(given)
    assert until == table.held_until_ms(1_000, at_once=at_once)

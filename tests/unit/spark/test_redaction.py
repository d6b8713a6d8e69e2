"""Which settings Spark must not show."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from logwright.spark.redaction import REDACTION, at_launch, is_secret, redaction_regex
from logwright.spark.session import prepare_environment, session_settings

SECRET = (
    "spark.executorEnv.AZURE_STORAGE_ACCOUNT_KEY",
    "spark.executorEnv.AZURE_STORAGE_SAS_TOKEN",
    "spark.executorEnv.AZURE_STORAGE_SAS_KEY",
    "spark.executorEnv.AZURE_STORAGE_CONNECTION_STRING",
    "spark.executorEnv.AZURE_CLIENT_SECRET",
    "spark.executorEnv.AWS_ACCESS_KEY_ID",
    "spark.executorEnv.AWS_SECRET_ACCESS_KEY",
    "spark.executorEnv.AWS_SESSION_TOKEN",
    "spark.executorEnv.GOOGLE_SERVICE_ACCOUNT_KEY",
    "spark.executorEnv.GOOGLE_APPLICATION_CREDENTIALS",
    "spark.executorEnv.LOGWRIGHT_ERASURE_SECRET",
    "spark.executorEnv.LOGWRIGHT_PG_PASSWORD",
    "spark.hadoop.fs.azure.account.key.a.blob.core.windows.net",
    "spark.hadoop.fs.azure.sas.c.a.blob.core.windows.net",
    "spark.hadoop.fs.s3a.access.key",
    "spark.hadoop.fs.s3a.secret.key",
    "spark.hadoop.google.cloud.auth.service.account.private.key",
)
VALUES = (
    "https://a.blob.core.windows.net/c?sv=1&sig=planted",
    "https://b.s3.amazonaws.com/x?X-Amz-Signature=planted",
    "postgresql://user:planted@host/db",
)
PUBLIC = {
    "spark.executorEnv.AWS_REGION": "eu-central-1",
    "spark.executorEnv.AWS_ENDPOINT_URL": "http://127.0.0.1:9000",
    "spark.executorEnv.NUMBA_CACHE_DIR": "/var/cache/logwright",
    "spark.sql.warehouse.dir": "abfss://container@account.dfs.core.windows.net/lake",
    "spark.hadoop.fs.azure.saslike": "x",
}


@pytest.mark.parametrize("name", SECRET)
def test_a_credential_is_known_by_its_name(name: str) -> None:
    """Whatever its value is."""
    assert is_secret(name, "x")
    assert {} == at_launch({name: "x"})


@pytest.mark.parametrize("value", VALUES)
def test_a_credential_is_known_by_its_value(value: str) -> None:
    """A signed URL, and one with a password."""
    assert {} == at_launch({"spark.x": value})


def test_other_settings_are_shown() -> None:
    """Else nobody could read an event log; those of our own sessions, too."""
    ours = session_settings(event_log_directory=Path("/events"))
    assert PUBLIC | ours == at_launch(PUBLIC | ours)


def test_settings_of_the_driver_are_given_at_its_start() -> None:
    """Spark takes them from nowhere else."""
    settings = {"spark.driver.extraJavaOptions": "-Djavax.net.ssl.trustStorePassword=x"}
    assert settings == at_launch(settings)


@pytest.mark.parametrize("line", [r"NAME  (?i)mine|\\d{7}", r"NAME = mine|\\d{7}"])
def test_what_the_operator_redacts_is_redacted_too(tmp_path: Path, line: str) -> None:
    """By the file of settings, which a session's own setting would override."""
    conf = tmp_path / "conf"
    conf.mkdir()
    text = f"spark.master local\n{line.replace('NAME', REDACTION)}\n"
    (conf / "spark-defaults.conf").write_text(text)
    for environ in ({"SPARK_HOME": str(tmp_path)}, {"SPARK_CONF_DIR": str(conf)}):
        regex = redaction_regex(environ)
        assert regex.endswith(r"mine|\d{7}")
        assert re.search(regex.replace("(?i)", ""), "AZURE_STORAGE_ACCOUNT_KEY")


def test_sessions_of_others_redact_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that this process starts, unless the operator has arguments of their own."""
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "")
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS")
    prepare_environment()
    words = shlex.split(os.environ["PYSPARK_SUBMIT_ARGS"])
    assert ["--conf", f"{REDACTION}={redaction_regex()}", "pyspark-shell"] == words
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--name mine pyspark-shell")
    prepare_environment()
    assert "--name mine pyspark-shell" == os.environ["PYSPARK_SUBMIT_ARGS"]

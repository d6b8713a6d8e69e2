"""Where erasure requests come from and are kept, as the section ``erasure`` of the policies has it.

::

    erasure:
      landing: /var/lib/logwright/erasure/landing   # CSV, JSON lines, Parquet
      store: /var/lib/logwright/erasure/requests    # what is kept: HMACs
      secret_file: /etc/logwright/erasure.secret    # mode 0600
      certificates: /var/lib/logwright/erasure/certificates
      signing_key: /etc/logwright/signing.pem       # mode 0600
      issuer: Example Ltd, Data Protection          # as certificates name it
"""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from logwright.config.values import Boolean, Int64, contradiction

_HOUR_MS: Final = 3_600_000
_LONGEST_ISSUER: Final = 200


def issuer_problem(issuer: str) -> str | None:
    """Return what is wrong with the name of who issues certificates, None if nothing is."""
    if not issuer.strip():
        return "is empty"
    if len(issuer) > _LONGEST_ISSUER:
        return f"is longer than {_LONGEST_ISSUER} characters"
    return None if issuer.isprintable() else "has a character that cannot be printed"


class ErasureSettings(BaseModel):
    """The section ``erasure``; without a store there are no erasure requests.

    Attributes:
        landing: directory with files of requests, absolute or relative to the platform's working
            directory.
        store: directory in which requests are kept, as HMACs.
        secret_file: the deployment's secret; without it, LOGWRIGHT_ERASURE_SECRET.
        certificates: directory in which the job `erase` writes its certificates.
        signing_key: the private key that signs them.
        issuer: who issues certificates: an organisation, an office or a person. It is signed.
        look_every_ms: how often the logs are searched for what remains.
        margin_ms: how long before the last moment a log is swept for a deadline.
        appends_continue: forecast as if records of other keys were appended all the time, which a
            tombstone needs to be removed.
        deadline_sweeps: the sensor `erasure_deadlines` runs: dates count on its sweeps.
        owner: the team or e-mail address to ask about requests.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    landing: str | None = Field(None, min_length=1, max_length=4096)
    store: str | None = Field(None, min_length=1, max_length=4096)
    secret_file: str | None = Field(None, min_length=1, max_length=4096)
    certificates: str | None = Field(None, min_length=1, max_length=4096)
    signing_key: str | None = Field(None, min_length=1, max_length=4096)
    issuer: str | None = None
    look_every_ms: Annotated[Int64, Field(ge=60_000)] = _HOUR_MS
    margin_ms: Annotated[Int64, Field(ge=0)] = _HOUR_MS
    appends_continue: Boolean = False
    deadline_sweeps: Boolean = False
    owner: str | None = Field(None, min_length=1, max_length=200)

    @field_validator("issuer")
    @classmethod
    def _is_a_name(cls, issuer: str | None) -> str | None:
        if issuer is not None and (problem := issuer_problem(issuer)) is not None:
            raise ValueError(problem)
        return issuer

    @model_validator(mode="after")
    def _has_a_store(self) -> Self:
        for given in ("landing", "secret_file", "certificates", "signing_key"):
            if self.store is None and getattr(self, given) is not None:
                raise contradiction("store is required", given)
        if (self.certificates is None) != (self.signing_key is None):
            given = "signing_key" if self.certificates is None else "certificates"
            raise contradiction("certificates and signing_key belong together", given)
        return self

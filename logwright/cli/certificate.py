"""``logwright certificate``: search log directories for requested keys and sign what was found."""

from __future__ import annotations

import hashlib
import os
import platform
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypedDict, Unpack

import click

from logwright.cli.log_lines import LogFormat, log_format_option, log_to_stderr
from logwright.cli.output import Format, Output
from logwright.errors import LogwrightError, PolicyError, QualityError
from logwright.extras import require
from logwright.units import INT64_MAX, TimestampMs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from logwright.config.sources import DirectorySettings
    from logwright.erasure.certificate.make import Requested
    from logwright.erasure.certificate.model import Certificate
    from logwright.erasure.keys import KeySet

_PATH: Final = click.Path(path_type=Path)
_NS_PER_MS: Final = 1_000_000
PAGE: Final = ".html"
_BAD: Final = ("missed", "not proved")
"""States in which a certificate is made and the exit status says that it does not prove enough."""


class _Time(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """ISO 8601 with a time zone, or ms since the epoch."""

    name = "TIME"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        from logwright.erasure.landing import time_ms  # noqa: PLC0415 -- pydantic: not for --help

        found = time_ms(value if isinstance(value, int) else str(value))
        if found is None:
            self.fail(f"{value!r} is neither ISO 8601 with a time zone nor ms", param, ctx)
        return found


class _Given(TypedDict):
    """Values of the options about keys and settings, as click passes them."""

    keys: Path | None
    keys_format: Literal["text", "base64"]
    topics: str
    deadline_ms: int | None
    requests: Path | None
    secret: Path | None
    table: tuple[Path, ...]
    policies: Path | None
    metadata: Path | None
    no_metadata: bool
    server_properties: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """What is searched for, where, and when."""

    log_dirs: tuple[Path, ...]
    keys: KeySet
    settings: DirectorySettings
    tables: tuple[Path, ...]
    now_ms: TimestampMs


@click.command(name="certificate")
@click.argument("log_dirs", metavar="[LOG_DIR ...]", nargs=-1, type=_PATH)
@click.option("--new-key", metavar="FILE", type=_PATH, help="Make a key pair and do nothing else.")
@click.option("--keys", metavar="FILE", type=_PATH, help="Keys to search for, one in each line.")
@click.option(
    "--keys-format",
    type=click.Choice(["text", "base64"]),
    default="text",
    show_default=True,
    help="Form of the lines of --keys.",
)
@click.option(
    "--topics",
    metavar="TOPIC|regex:PATTERN",
    default="regex:.*",
    show_default=True,
    help="Topics of the keys of --keys.",
)
@click.option(
    "--deadline",
    "deadline_ms",
    metavar="TIME",
    type=_Time(),
    help="Deadline of the keys of --keys.",
)
@click.option("--requests", metavar="DIR", type=_PATH, help="The store of erasure requests.")
@click.option(
    "--secret",
    metavar="FILE",
    type=_PATH,
    help="The deployment's secret [default: LOGWRIGHT_ERASURE_SECRET].",
)
@click.option(
    "--table", metavar="PATH", type=_PATH, multiple=True, help="A table to search; repeatable."
)
@click.option("--signing-key", metavar="FILE", type=_PATH, help="The private key of --new-key.")
@click.option(
    "--out", metavar="FILE", type=_PATH, help="The certificate; a page is written next to it."
)
@click.option(
    "--policies", metavar="DIR", type=_PATH, help="Directory of YAML files with settings per topic."
)
@click.option("--metadata", metavar="DIR", type=_PATH, help="The cluster's __cluster_metadata-0.")
@click.option("--no-metadata", is_flag=True, help="Do not read cluster metadata.")
@click.option(
    "--server-properties", metavar="FILE", type=_PATH, help="The broker's server.properties."
)
@click.option(
    "--now",
    "now_ms",
    metavar="MS",
    type=click.IntRange(0, INT64_MAX),
    help="Fix the clock, in ms since the epoch.",
)
@click.option(
    "--output",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Output format; json prints one object per line.",
)
@log_format_option
def command(
    log_dirs: tuple[Path, ...],
    *,
    new_key: Path | None,
    signing_key: Path | None,
    out: Path | None,
    now_ms: int | None,
    form: Format,
    log_format: LogFormat,
    **given: Unpack[_Given],
) -> None:
    """Search all files of log directories for the keys of requests; sign what was found and a
    manifest of every file. Nothing is changed in the directories.

    Exit status: 0 the certificate was made; 6 it was made, but a deadline was missed, or a file
    could not be read.
    """
    log_to_stderr(verbose=False, form=log_format)
    output = Output(form=form)
    try:
        require("erasure", by="certificate")
        if new_key is not None:
            _make_key(output, new_key)
            return
        if not log_dirs or signing_key is None or out is None:
            raise click.UsageError("LOG_DIR, --signing-key and --out are required")
        if out.suffix == PAGE:
            raise click.UsageError(f"--out {out}: that is the name of the page")
        from logwright.erasure.certificate.keys import load_private  # noqa: PLC0415 -- of an extra

        key = load_private(signing_key)
        clock_ms = time.time_ns() // _NS_PER_MS if now_ms is None else now_ms
        work = _work(log_dirs, TimestampMs(clock_ms), **given)
        certificate = _certificate(output, work, key)
        _write(output, certificate, key, out)
    except LogwrightError as error:
        output.error_object(error)
        raise
    if any(one.state in _BAD for one in certificate.requests):
        click.get_current_context().exit(QualityError.exit_status)


def _make_key(output: Output, path: Path) -> None:
    """Make a key pair and print its fingerprint. Effects: two files; output."""
    from logwright.erasure.certificate.keys import fingerprint, load_public, new_key  # noqa: PLC0415

    public = new_key(path)
    printed = fingerprint(load_public(public))
    output.text(f"{path}: the private key. Keep it.")
    output.text(f"{public}: the public key. Publish it, and its SHA-256: {printed}")
    output.json_object({"private": str(path), "public": str(public), "sha256": printed})


def _work(log_dirs: tuple[Path, ...], now_ms: TimestampMs, **given: Unpack[_Given]) -> _Work:
    """Return what the options ask for. Effects: reads keys, requests, secret and policies.

    Raises:
        LogwrightError: one of them is invalid.
    """
    from logwright.config.policies import Policies, load_policies  # noqa: PLC0415 -- not for --help
    from logwright.config.sources import DirectorySettings, Places  # noqa: PLC0415
    from logwright.erasure.keys import KeySet, read_keys  # noqa: PLC0415
    from logwright.erasure.secret import ENVIRONMENT, load_secret  # noqa: PLC0415
    from logwright.erasure.store import read_store  # noqa: PLC0415

    if given["metadata"] is not None and given["no_metadata"]:
        raise click.UsageError("--metadata and --no-metadata contradict each other")
    if given["keys"] is None and given["requests"] is None:
        raise click.UsageError("--keys or --requests is required")
    secret = load_secret(given["secret"], os.environ.get(ENVIRONMENT))
    keys = given["keys"]
    policies = given["policies"]
    places = Places(
        metadata=given["metadata"],
        find=not given["no_metadata"],
        properties=given["server_properties"],
    )
    deadline_ms = given["deadline_ms"]
    return _Work(
        log_dirs=log_dirs,
        keys=KeySet.of(
            secret,
            requests=() if given["requests"] is None else read_store(given["requests"], secret),
            clear=() if keys is None else read_keys(keys, given["keys_format"]),
            topics=given["topics"],
            deadline_ms=INT64_MAX if deadline_ms is None else deadline_ms,
        ),
        settings=DirectorySettings(
            Policies(high_watermark="end") if policies is None else load_policies(policies),
            lambda _: places,
        ),
        tables=given["table"],
        now_ms=now_ms,
    )


def _certificate(output: Output, work: _Work, key: Ed25519PrivateKey) -> Certificate:
    """Search and return what is signed. Effects: reads all files.

    Raises:
        LogwrightError: a directory cannot be read, or changes meanwhile.
    """
    from logwright.erasure.certificate.keys import fingerprint  # noqa: PLC0415 -- of an extra
    from logwright.erasure.certificate.make import make_certificate  # noqa: PLC0415
    from logwright.erasure.certificate.model import Versions  # noqa: PLC0415
    from logwright.erasure.certificate.search import replicas_elsewhere, search  # noqa: PLC0415

    if not len(work.keys):
        raise PolicyError("there are no requests.", remedy="Give keys or a store with requests.")
    with output.progress("certificate") as progress:
        searched = [
            search(log_dir, work.keys, work.settings, now_ms=work.now_ms, report=progress)
            for log_dir in work.log_dirs
        ]
    return make_certificate(
        _requested(work.keys),
        searched,
        now_ms=work.now_ms,
        signing_key_sha256=fingerprint(key.public_key()),
        versions=Versions(
            logwright=version("logwright"),
            python=platform.python_version(),
            cryptography=version("cryptography"),
        ),
        replicas=replicas_elsewhere(work.log_dirs, work.keys, work.settings),
    )


def _requested(keys: KeySet) -> Sequence[Requested]:
    """Return what the certificate says of each request; a time that was not given is None."""
    from logwright.erasure.certificate.make import Requested  # noqa: PLC0415 -- not for --help

    requests = (keys.request(index) for index in range(len(keys)))
    stored = len(keys.requests)
    return [
        Requested(
            hmac=one.hmac.hex(),
            topics=one.topics,
            received_at_ms=one.received_at_ms if index < stored else None,
            deadline_ms=None if one.deadline_ms == INT64_MAX else one.deadline_ms,
        )
        for index, one in enumerate(requests)
    ]


def _write(output: Output, certificate: Certificate, key: Ed25519PrivateKey, path: Path) -> None:
    """Write the certificate and its page, and say what it says. Effects: two files; output."""
    from logwright.erasure.certificate.files import replace  # noqa: PLC0415 -- not for --help
    from logwright.erasure.certificate.page import certificate_html  # noqa: PLC0415
    from logwright.erasure.certificate.signed import signed_file  # noqa: PLC0415

    content = signed_file(certificate, key)
    digest = hashlib.sha256(content).hexdigest()
    page = path.with_suffix(PAGE)
    replace(path, content)
    replace(page, certificate_html(certificate, file_name=path.name, file_sha256=digest).encode())
    states = {
        state: count
        for state in ("missed", "will be late", "remains", "not proved", "in time", "gone")
        if (count := certificate.count(state))  # type: ignore[arg-type]  # of State
    }
    output.table(["requests", "state"], [(count, state) for state, count in states.items()])
    output.text(
        f"{path}: {len(certificate.manifest):,} files, {len(certificate.remains):,} records found;"
        f" page: {page}"
    )
    output.json_object(
        {
            "certificate": str(path),
            "page": str(page),
            "sha256": digest,
            "requests": states,
            "files": len(certificate.manifest),
            "found": len(certificate.remains),
            "notRead": len(certificate.not_read),
        }
    )

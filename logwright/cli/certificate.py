"""``logwright certificate``: search directories for requested keys and sign what was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack, get_args

import click

from logwright.cli.keys import (
    SearchOptions,
    key_options,
    read_wanted,
    search_options,
    search_settings,
)
from logwright.cli.output import Output
from logwright.cli.request import Request, directory_options
from logwright.errors import PolicyError, QualityError
from logwright.extras import require

if TYPE_CHECKING:
    from logwright.cli.keys import Wanted
    from logwright.erasure.certificate.keys import PrivateKey
    from logwright.erasure.certificate.make import Searched
    from logwright.erasure.certificate.model import Certificate
    from logwright.erasure.certificate.search import Report

_PATH: Final = click.Path(path_type=Path)


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


class _Given(SearchOptions):
    """Values of the options below, as click passes them."""

    more_dirs: tuple[Path, ...]
    tables: tuple[Path, ...]
    deadline_ms: int | None
    earlier: tuple[Path, ...]
    signing_key: Path
    out: Path


def _make_key(ctx: click.Context, _: click.Parameter, path: Path | None) -> None:
    """Make a key pair, print its fingerprint and exit. Effects: two files; output."""
    if path is None or ctx.resilient_parsing:
        return
    require("erasure", by="certificate")
    from logwright.erasure.certificate.keys import fingerprint, load_public, new_key  # noqa: PLC0415 -- of an extra

    public = new_key(path)
    output = Output(form="text")
    output.text(f"{path}: the private key. Keep it.")
    output.text(f"{public}: the public key. Publish it, and its SHA-256:")
    output.text(fingerprint(load_public(public)))
    ctx.exit()


@click.command(name="certificate")
@click.option(
    "--new-key",
    metavar="FILE",
    type=_PATH,
    is_eager=True,
    expose_value=False,
    callback=_make_key,
    help="Make a key pair, FILE and FILE.pub, and exit.",
)
@key_options
@search_options
@click.option(
    "--deadline",
    "deadline_ms",
    metavar="TIME",
    type=_Time(),
    help="Deadline of the keys of --keys: ms since the epoch, or ISO 8601 with a time zone.",
)
@click.option(
    "--table",
    "tables",
    metavar="DIR",
    type=_PATH,
    multiple=True,
    help="A table as Parquet, Delta or Iceberg, such as one of `logwright latest`; repeatable.",
)
@click.option(
    "--earlier",
    metavar="FILE",
    type=_PATH,
    multiple=True,
    help="An earlier certificate with the same key and secret: records that it lists and that are"
    " not there any more are on record; repeatable.",
)
@click.option(
    "--signing-key", metavar="FILE", type=_PATH, required=True, help="The private key of --new-key."
)
@click.option(
    "--out",
    metavar="FILE",
    type=_PATH,
    required=True,
    help="The certificate; a page for reading is written next to it, as .html.",
)
@directory_options
def command(request: Request, **given: Unpack[_Given]) -> None:
    """Search all files of LOG_DIRs for the keys of requests; sign what was found and a manifest of
    every file. Nothing is changed in the directories.

    Exit status: 0 the certificate was made, and all that could hold records of the requests was
    searched; 6 it was made, but a deadline was missed, something that could hold records was not
    searched, or no log of a request's topics was found.
    """
    require("erasure", by="certificate")
    from logwright.erasure.certificate.issue import PAGE, proves_too_little  # noqa: PLC0415 -- of an extra
    from logwright.erasure.certificate.keys import load_private  # noqa: PLC0415

    if given["keys"] is None and given["requests"] is None:
        raise click.UsageError("give --keys or --requests")
    if given["out"].suffix == PAGE:
        raise click.UsageError(f"--out {given['out']}: that is the name of the page")
    _refuse_inside(request, given)
    key = load_private(given["signing_key"])
    wanted = read_wanted(request, given, given["pattern"])
    if not len(wanted.keys):
        raise PolicyError("there are no requests.", remedy="Give keys or a store with requests.")
    certificate = _certificate(request, given, wanted, key)
    if request.dry_run:
        _show(request.output, certificate)
        return
    _write(request.output, certificate, key, given["out"])
    if proves_too_little(certificate):
        click.get_current_context().exit(QualityError.exit_status)


def _refuse_inside(request: Request, given: _Given) -> None:
    """Refuse to write into a directory that the certificate is about: it would change it. Effects:
    resolves links.
    """
    into = given["out"].resolve().parent
    for one in (request.log_dir, *given["more_dirs"], *given["archives"], *given["tables"]):
        if into.is_relative_to(one.resolve()):
            raise click.UsageError(f"--out {given['out']}: that is inside of {one}")


def _certificate(request: Request, given: _Given, wanted: Wanted, key: PrivateKey) -> Certificate:
    """Search and return what is signed. Effects: reads all files.

    Raises:
        LogwrightError: a directory cannot be read, or changes meanwhile.
    """
    from logwright.erasure.certificate.issue import requested_of, versions  # noqa: PLC0415
    from logwright.erasure.certificate.keys import fingerprint  # noqa: PLC0415 -- of an extra
    from logwright.erasure.certificate.make import make_certificate  # noqa: PLC0415
    from logwright.erasure.certificate.search import replicas_elsewhere  # noqa: PLC0415
    from logwright.erasure.certificate.signed import read_certificate  # noqa: PLC0415

    live = [request.of(one) for one in (request.log_dir, *given["more_dirs"])]
    with request.output.progress("certificate") as progress:
        searched = list(_searched(live, given, wanted, progress))
    return make_certificate(
        requested_of(wanted.keys, given["deadline_ms"]),
        searched,
        now_ms=request.now_ms,
        signing_key_sha256=fingerprint(key.public_key()),
        secret=wanted.keys.secret.id,
        versions=versions(),
        earlier=[read_certificate(one, key.public_key()) for one in given["earlier"]],
        replicas=replicas_elsewhere(
            [(one.log_dir, one.sources()) for one in live],
            wanted.keys,
            every_topic=bool(wanted.patterns),
        ),
    )


def _searched(
    live: Sequence[Request], given: _Given, wanted: Wanted, report: Report
) -> Iterator[Searched]:
    """Search each directory. Effects: reads them."""
    from logwright.erasure.certificate.issue import search_live  # noqa: PLC0415 -- kernels: not for --help
    from logwright.erasure.certificate.search import search  # noqa: PLC0415
    from logwright.erasure.find.search import search_log_dir  # noqa: PLC0415
    from logwright.erasure.find.tables import search_table_files  # noqa: PLC0415

    count = len(wanted.keys)
    for one in live:
        settings = search_settings(one, given)
        yield search_live(
            one.log_dir, wanted.keys, settings, one.sources(), report, patterns=wanted.patterns
        )
    for archive in given["archives"]:
        yield search(
            archive,
            partial(
                search_log_dir,
                keys=wanted.keys,
                settings=None,
                patterns=wanted.patterns,
                progress=report,
            ),
            requests=count,
            sources=None,
            report=report,
        )
    for table in given["tables"]:
        yield search(
            table,
            partial(search_table_files, keys=wanted.keys, patterns=wanted.patterns),
            requests=count,
            sources=None,
            report=report,
        )


def _write(output: Output, certificate: Certificate, key: PrivateKey, path: Path) -> None:
    """Write the certificate and its page, and say what it says. Effects: two files; output."""
    from logwright.erasure.certificate.issue import write_certificate  # noqa: PLC0415 -- not for --help

    written = write_certificate(certificate, key, path)
    page, sha256 = str(written.page), written.sha256
    _show(output, certificate, certificate=str(path), page=page, sha256=sha256)
    output.text(f"{path}: signed; {page}: for reading.")


def _show(output: Output, made: Certificate, **more: object) -> None:
    """Print how many requests are in which state, the worst first. Effects: output."""
    from logwright.erasure.certificate.model import State  # noqa: PLC0415 -- pydantic: not for --help

    states = {state: count for state in get_args(State) if (count := made.count(state))}
    output.table(["requests", "state"], [(count, state) for state, count in states.items()])
    output.text(
        f"{len(made.manifest):,} files seen, {len(made.remains):,} records found,"
        f" {len(made.not_read):,} paths not searched."
    )
    for one in made.not_read[:10]:
        output.message(f"not searched: {one.path.text or one.path.hex or '(elsewhere)'}: {one.why}")
    for replicas in made.replicas_not_searched[:10]:
        brokers = ", ".join(map(str, replicas.brokers))
        output.message(f"not searched: {replicas.topic}: its replicas on brokers {brokers}")
    for why, count in Counter(one.why for one in made.requests if one.why).items():
        output.message(f"{count:,} requests: {why}")
    output.json_object(
        {
            **more,
            "requests": states,
            "files": len(made.manifest),
            "found": len(made.remains),
            "notRead": len(made.not_read),
            "replicasNotSearched": len(made.replicas_not_searched),
        }
    )

"""``logwright certificate``: search directories for requested keys and sign what was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Unpack, get_args

import click

from logwright.cli.options.certificate import Given
from logwright.cli.output import Output
from logwright.cli.request import Request
from logwright.cli.run.keys import Wanted, read_wanted, search_settings
from logwright.config.erasure import issuer_problem
from logwright.erasure.certificate.hide import without_keys
from logwright.erasure.certificate.issue import (
    PAGE,
    issue_of,
    names_of,
    proves_too_little,
    requested_of,
    search_live,
    write_certificate,
)
from logwright.erasure.certificate.keys import (
    PrivateKey,
    load_private,
)
from logwright.erasure.certificate.make import Searched, make_certificate
from logwright.erasure.certificate.model import Certificate, Running, State
from logwright.erasure.certificate.search import Report, replicas_elsewhere, search
from logwright.erasure.certificate.signed import read_certificate
from logwright.erasure.find.search import search_log_dir
from logwright.erasure.find.table_paths import Paths
from logwright.erasure.find.tables import search_table_files
from logwright.errors import NotALogDir, PolicyError, QualityError, UnreadableFile
from logwright.place.model import is_local, is_running
from logwright.times import instant


def run(request: Request, **given: Unpack[Given]) -> int:
    """Run the command."""
    if given["keys"] is None and given["requests"] is None:
        raise click.UsageError("give --keys or --requests")
    if given["out"].suffix == PAGE:
        raise click.UsageError(f"--out {given['out']}: that is the name of the page")
    issuer = given["issuer"]
    if issuer is not None and (problem := issuer_problem(issuer)) is not None:
        raise click.UsageError(f"--issuer {problem}")
    _refuse_inside(request, given)
    key = load_private(given["signing_key"])
    wanted = read_wanted(request, given, given["pattern"])
    if not len(wanted.keys):
        raise PolicyError("there are no requests.", remedy="Give keys or a store with requests.")
    certificate = _certificate(request, given, wanted, key)
    if request.dry_run:
        _show(request.output, certificate)
        return 0
    written = write_certificate(certificate, key, given["out"])
    page, sha256 = str(written.page), written.sha256
    _show(request.output, certificate, certificate=str(given["out"]), page=page, sha256=sha256)
    request.output.text(f"{given['out']}: signed; {page}: for reading.")
    request.output.text(f"Next step: {written.next_step}")
    return QualityError.exit_status if proves_too_little(certificate) else 0


def _refuse_inside(request: Request, given: Given) -> None:
    """Refuse to write into a directory that the certificate is about: it would change it. Effects:
    resolves links.
    """
    into, tier = given["out"].resolve().parent, given["tier"]
    remote = () if tier is None else (Path(tier.tier.options.text),)
    given_roots = (*given["more_dirs"], *given["archives"], *given["tables"])
    for root in (request.place, *remote, *given_roots):
        if (is_local(root) or is_running(root)) and into.is_relative_to(Path(str(root)).resolve()):
            raise click.UsageError(f"--out {given['out']}: that is inside of {root}")


def _certificate(request: Request, given: Given, wanted: Wanted, key: PrivateKey) -> Certificate:
    """Search and return what is signed. Effects: reads all files.

    Raises:
        LogwrightError: a directory cannot be read, or changes meanwhile.
    """
    requested = requested_of(wanted.keys, given["deadline_ms"])
    live = [request.of(log_dir) for log_dir in (request.place, *given["more_dirs"])]
    with request.output.progress("certificate") as progress:
        searched = list(_searched(live, given, wanted, progress))
    earlier = [read_certificate(path, key.public_key()) for path in given["earlier"]]
    replicas = replicas_elsewhere(
        [(each.place, each.sources()) for each in live],
        wanted.keys,
        every_topic=bool(wanted.patterns),
    )
    made = make_certificate(
        requested,
        searched,
        issue_of(key, _issuer(request, given), request.now_ms),
        secret=wanted.keys.secret.id,
        earlier=earlier,
        replicas=replicas,
        patterns=len(wanted.patterns),
    )
    return without_keys(made, names_of(wanted.keys))


def _issuer(request: Request, given: Given) -> str | None:
    """Return who issues the certificate: as the option says, else the policies."""
    policies = request.policies
    return given["issuer"] or (policies.erasure.issuer if policies else None)


def _searched(
    live: Sequence[Request], given: Given, wanted: Wanted, report: Report
) -> Iterator[Searched]:
    """Search each directory. Effects: reads them."""
    count = len(wanted.keys)
    for request in live:
        settings = search_settings(request, given)
        yield search_live(
            request.place,
            wanted.keys,
            settings,
            request.sources(),
            report,
            patterns=wanted.patterns,
            tier=given["tier"],
        )
    remote = () if given["tier"] is None else (given["tier"].place,)
    for archive in (*remote, *given["archives"]):
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
        find = partial(search_table_files, keys=wanted.keys, patterns=wanted.patterns)
        try:
            with Paths(wanted.keys, wanted.patterns).in_errors():
                searched = search(table, find, requests=count, sources=None, report=report)
        except NotALogDir as error:
            raise UnreadableFile("there is no directory of a table.", path=table) from error
        yield searched


def _as_it_ran(directory: str, running: Running) -> str:
    """Return how a directory was searched that a broker had open."""
    known = [log for log in running.logs if log.bound >= 0]
    beyond = sum(max(log.end_offset - log.bound, 0) for log in known)
    times = [log.recorded_at_ms for log in known]
    marks = f", high watermarks of {instant(min(times))} and later" if times else ""
    again = f"; {len(running.passed)} files were waited for" if running.snapshots > 1 else ""
    return (
        f"{directory}: a broker had it open; as it was at {instant(running.taken_at_ms)}{marks},"
        f" {beyond:,} offsets beyond them searched too{again}."
    )


def _show(output: Output, made: Certificate, **more: object) -> None:
    """Print how many requests are in which state, the worst first. Effects: output."""
    states = {state: count for state in get_args(State) if (count := made.count(state))}
    output.table(["requests", "state"], [(count, state) for state, count in states.items()])
    output.text(
        f"{len(made.manifest):,} files seen, {len(made.remains):,} records found,"
        f" {len(made.not_read):,} paths not searched."
    )
    if made.hidden:
        output.text(
            f"{made.hidden:,} names have a key, which is signed as the beginning of its HMAC."
        )
    if not made.issuer:
        output.message("the certificate does not say who issues it: give --issuer")
    for directory in made.directories:
        if directory.running is not None:
            output.text(_as_it_ran(directory.name.text, directory.running))
    for unread in made.not_read[:10]:
        path = unread.path.text or unread.path.hex or "(elsewhere)"
        output.message(f"not searched: {path}: {unread.why}")
    for replicas in made.replicas_not_searched[:10]:
        brokers = ", ".join(map(str, replicas.brokers))
        output.message(f"not searched: {replicas.topic}: its replicas on brokers {brokers}")
    for why, count in Counter(each.why for each in made.requests if each.why).items():
        output.message(f"{count:,} requests: {why}")
    output.result(
        None,
        **more,
        issuer=made.issuer,
        requests=states,
        files=len(made.manifest),
        found=len(made.remains),
        notRead=len(made.not_read),
        replicasNotSearched=len(made.replicas_not_searched),
    )

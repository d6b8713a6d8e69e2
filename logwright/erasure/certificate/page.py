"""A certificate as a page for people: one static HTML file without scripts. Pure.

All texts are escaped. The page is not signed: it names the signed file and its SHA-256.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final, get_args

from logwright.erasure.certificate.model import (
    Asked,
    Certificate,
    NotRead,
    PathName,
    Remains,
    State,
)

SHOWN: Final = 1_000
"""Maximum rows of each table; the signed file has all."""

_CSS: Final = """\
:root { --ink: #1f2933; --soft: #5d6b7a; --line: #dde3ea; --bad: #b42318; --good: #1e6b3a; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1100px; padding: 28px 32px 56px; color: var(--ink);
  font: 14px/1.5 system-ui, sans-serif; }
h1 { font-size: 22px; margin: 0 0 2px; }
h2 { font-size: 15px; margin: 28px 0 8px; }
p { max-width: 75ch; }
.soft { color: var(--soft); }
.result { border: 1px solid var(--line); border-left: 5px solid var(--bad); padding: 10px 16px;
  margin: 18px 0; font-size: 16px; }
.result.good { border-left-color: var(--good); }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: 4px 12px 4px 0;
  border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
th { color: var(--soft); font-size: 12px; white-space: nowrap; }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
code { font: 12px/1.5 ui-monospace, monospace; }
.bad { color: var(--bad); font-weight: 600; }
.good { color: var(--good); }
@media print { body { padding: 0; } }
"""
_SAID: Final[dict[State, str]] = {
    "gone": "gone",
    "not proved": "not proved",
    "in time": "goes in time",
    "not found": "not found, and no erasure on record",
    "remains": "remains",
    "will be late": "will be late",
    "missed": "deadline missed",
}
_WORST_FIRST: Final[tuple[State, ...]] = get_args(State)
_NEVER: Final = '<span class="bad">never</span>'
_GOOD: Final = frozenset(("gone", "in time", "not found"))


def certificate_html(certificate: Certificate, *, file_name: str, file_sha256: str) -> str:
    """Return the page.

    Args:
        certificate: what is signed.
        file_name: of the signed file, without its directory.
        file_sha256: its digest in hex.
    """
    parts = (
        _head(certificate, file_name, file_sha256),
        _requests(certificate),
        _remaining(certificate),
        _directories(certificate),
        _limits(certificate),
        _files(certificate),
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy"'
        " content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>Erasure certificate, {_time(certificate.issued_at_ms)}</title>\n"
        f"<style>\n{_CSS}</style>\n</head>\n<body>\n" + "\n".join(parts) + "\n</body>\n</html>\n"
    )


def _head(certificate: Certificate, file_name: str, file_sha256: str) -> str:
    requests = len(certificate.requests)
    good = certificate.count("gone") == requests and not certificate.remains
    counts = ", ".join(
        f"{number:,} {_SAID[state]}"
        for state in _WORST_FIRST
        if (number := certificate.count(state))
    )
    searched = sum(one.files for one in certificate.directories)
    sentence = (
        f"No record of the {requests:,} requests was found in the {searched:,} files of"
        f" {_number(len(certificate.directories), 'directory', 'directories')}."
        if good
        else f"{requests:,} requests: {counts}."
    )
    return (
        "<h1>Erasure certificate</h1>\n"
        f'<div class="soft">{_time(certificate.issued_at_ms)}, logwright'
        f" {escape(certificate.versions.logwright)}</div>\n"
        f'<div class="result{" good" if good else ""}">{sentence}</div>\n'
        f"<p>This page is for reading. What is signed is the file <code>{escape(file_name)}</code>"
        f" with SHA-256 <code>{escape(file_sha256)}</code>, by the Ed25519 key whose public half"
        f" has the SHA-256 <code>{escape(certificate.signing_key_sha256)}</code>. Keys are"
        " shown as HMAC-SHA-256 with a secret of the issuer.</p>"
    )


def _requests(certificate: Certificate) -> str:
    def order(request: Asked) -> tuple[int, int]:
        return _WORST_FIRST.index(request.state), request.deadline_ms or 0

    rows = [
        (
            f"<code>{request.hmac}</code>",
            escape(request.topics),
            _time(request.received_at_ms),
            _time(request.deadline_ms),
            _mark(request.state)
            + (f'<div class="soft">{escape(request.why)}</div>' if request.why else ""),
            f"{request.found:,}",
            _time(request.gone_by_ms) or (_NEVER if request.found else ""),
        )
        for request in sorted(certificate.requests, key=order)[:SHOWN]
    ]
    header = ("key", "topics", "received", "deadline", "state", "*records", "gone by")
    return "<h2>Requests</h2>\n" + _table(header, rows, len(certificate.requests))


def _remaining(certificate: Certificate) -> str:
    if not certificate.remains:
        return "<h2>What remains</h2>\n<p>Nothing was found.</p>"
    rows = [_remains_row(certificate, one) for one in certificate.remains[:SHOWN]]
    header = ("key", "record", "file", "kind", "removed by", "gone by")
    return "<h2>What remains</h2>\n" + _table(header, rows, len(certificate.remains))


def _remains_row(certificate: Certificate, record: Remains) -> tuple[str, ...]:
    place = "" if record.place == "segment" else f", {escape(record.place)}"
    offset = "" if record.offset < 0 else f" offset {record.offset}"
    hmac = (
        ""
        if record.request < 0
        else f"<code>{certificate.requests[record.request].hmac[:16]}…</code>"
    )
    return (
        hmac or "a byte pattern",
        f"{escape(record.topic)}-{record.partition}{offset}",
        f"{record.directory + 1}: <code>{_path(record.path)}</code>{place}",
        escape(record.kind),
        escape(record.rule) or '<span class="bad">nothing</span>',
        _time(record.gone_by_ms) or _NEVER,
    )


def _directories(certificate: Certificate) -> str:
    rows = []
    for number, directory in enumerate(certificate.directories, 1):
        cluster = directory.cluster
        known = "" if cluster is None else f"up to metadata offset {cluster.end_offset}"
        rows.append(
            (
                str(number),
                f"<code>{_path(directory.name)}</code>",
                f"{directory.files:,}",
                f"{directory.bytes:,}",
                "unknown" if cluster is None else escape(cluster.cluster_id or "unknown"),
                known,
                "" if directory.node_id is None else str(directory.node_id),
            )
        )
    header = ("no.", "directory", "*files", "*bytes", "cluster", "known", "broker")
    return "<h2>Directories searched</h2>\n" + _table(header, rows, len(rows))


def _limits(certificate: Certificate) -> str:
    sentences = "\n".join(f"<li>{escape(one)}</li>" for one in certificate.not_seen)
    parts = [f"<h2>What this search cannot see</h2>\n<ul>\n{sentences}\n</ul>"]
    for title, entries in (
        ("Not searched", certificate.not_read),
        ("Files with other names", certificate.hard_linked),
    ):
        if entries:
            rows = [
                (
                    f"{entry.directory + 1}: <code>{_path(entry.path)}</code>{_range(entry)}",
                    escape(entry.topic) or "any",
                    escape(entry.why),
                )
                for entry in entries[:SHOWN]
            ]
            header = ("path", "of topic", "why")
            parts.append(f"<h2>{title}</h2>\n" + _table(header, rows, len(entries)))
    if certificate.replicas_not_searched:
        brokers = [
            (escape(replicas.topic), ", ".join(map(str, replicas.brokers)))
            for replicas in certificate.replicas_not_searched[:SHOWN]
        ]
        total = len(certificate.replicas_not_searched)
        parts.append(
            "<h2>Replicas that were not searched</h2>\n"
            + _table(("topic", "brokers with replicas"), brokers, total)
        )
    return "\n".join(parts)


def _range(entry: NotRead) -> str:
    """Return which bytes of a file were not searched; empty if none of it was."""
    return (
        "" if entry.bytes < 0 else f", bytes {entry.position:,} to {entry.position + entry.bytes:,}"
    )


def _files(certificate: Certificate) -> str:
    rows = [
        (
            f"{file.directory + 1}: <code>{_path(file.path)}</code>",
            escape(file.looked or ""),
            f"{file.bytes:,}",
            f"<code>{file.sha256}</code>",
        )
        for file in certificate.manifest[:SHOWN]
    ]
    header = ("file", "looked at", "*bytes", "SHA-256")
    return "<h2>Files</h2>\n" + _table(header, rows, len(certificate.manifest))


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], total: int) -> str:
    """Return a table of cells in HTML; a column whose title begins with ``*`` has numbers."""
    numbers = [title.startswith("*") for title in header]

    def line(tag: str, cells: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=n' if number else ''}>{cell}</{tag}>"
            for number, cell in zip(numbers, cells, strict=True)
        )

    rows = list(rows)
    more = f'<p class="soft">And {total - len(rows):,} more.</p>' if total > len(rows) else ""
    body = "\n".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    head = line("th", [title.lstrip("*") for title in header])
    return f"<table>\n<tr>{head}</tr>\n{body}\n</table>{more}"


def _mark(state: State) -> str:
    return f'<span class="{"good" if state in _GOOD else "bad"}">{_SAID[state]}</span>'


def _number(count: int, singular: str, plural: str) -> str:
    return f"{count:,} {singular if count == 1 else plural}"


def _path(path: PathName) -> str:
    r"""Return a path's text; bytes that are not UTF-8 as ``\xNN``."""
    text = path.text if not path.hex else bytes.fromhex(path.hex).decode(errors="backslashreplace")
    return escape(text)


def _time(time_ms: int | None) -> str:
    """Return a time, UTC; empty for None."""
    if time_ms is None:
        return ""
    try:
        return f"{datetime.fromtimestamp(time_ms / 1000, tz=UTC):%F %T}Z"
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"

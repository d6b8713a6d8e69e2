"""The store of erasure requests: one file of JSON lines, with HMACs and filters only.

1. The first line has the id of the secret, so that requests are not compared under another one.
2. A request is known by its id. A landing file may be read again, and may change the deadline of a
   request that is stored; another key or other topics under the same id are refused.
3. The file is replaced as a whole, with mode 0600.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from logwright import durable
from logwright.erasure.request import Request, topics_problem
from logwright.erasure.secret import HMAC_BYTES, Secret
from logwright.errors import PolicyError
from logwright.place.mapped import map_file

STORE: Final = "erasure-requests.jsonl"
_VERSION: Final = 1
_MOST_NAMED: Final = 20
_HEX: Final = rf"^[0-9a-f]{{{2 * HMAC_BYTES}}}$"


class _Header(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    version: int
    secret_id: str


class _Stored(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    id: str
    topics: str
    hmac: str
    filter: int | None
    received_at_ms: int
    deadline_ms: int
    decoded: bool = False
    forms: list[str] = []
    form_filters: list[int] = []


def read_store(directory: Path, secret: Secret) -> tuple[Request, ...]:
    """Return the stored requests, sorted by id; none if there is not a store yet. Effects: reads.

    Raises:
        PolicyError: it was written under another secret, is damaged, or has a request whose topics
            cannot be matched.
        UnreadableFile: it cannot be read.
    """
    path = directory / STORE
    if not path.exists():
        return ()
    first, *lines = map_file(path).tobytes().splitlines() or [b""]
    try:
        header = _Header.model_validate_json(first)
        stored = [_Stored.model_validate_json(line) for line in lines]
        requests = tuple(map(_request, stored))
    except (ValidationError, ValueError):
        raise PolicyError(
            "the store of erasure requests is damaged.",
            path=path,
            remedy="Remove it: it is made again from the landing directory.",
        ) from None
    if header.version != _VERSION or header.secret_id != secret.id:
        raise PolicyError(
            "the requests were stored under another secret.",
            path=path,
            remedy="Use that secret; or remove the store: it is made again from the landing"
            " directory.",
        )
    _require_topics(requests, path)
    return requests


def _request(entry: _Stored) -> Request:
    """Return a stored request.

    Raises:
        ValueError: an HMAC is malformed.
    """
    hmacs = {
        "hmac": bytes.fromhex(entry.hmac),
        "forms": tuple(map(bytes.fromhex, entry.forms)),
        "form_filters": tuple(entry.form_filters),
    }
    return Request(**{**entry.model_dump(), **hmacs})


def _line(request: Request) -> str:
    hmacs = {"hmac": request.hmac.hex(), "forms": [one.hex() for one in request.forms]}
    return json.dumps({**asdict(request), **hmacs})


def _require_topics(requests: Iterable[Request], path: Path) -> None:
    """Refuse requests that an earlier version has stored and that this one could not match."""
    bad = [one for one in requests if topics_problem(one.topics) is not None]
    if not bad:
        return
    named = "; ".join(f"{one.id} {topics_problem(one.topics)}" for one in bad[:_MOST_NAMED])
    more = len(bad) - _MOST_NAMED
    raise PolicyError(
        f"the topics of {len(bad)} stored requests cannot be matched: {named}"
        + (f"; and {more} more." if more > 0 else "."),
        path=path,
        remedy="Correct `topics` in their lines of this file, and in the landing directory.",
    )


def merge(stored: Iterable[Request], new: Iterable[Request]) -> tuple[Request, ...]:
    """Return stored and new requests together, sorted by id; of one that is in both the new one.

    Raises:
        PolicyError: an id has another key or other topics.
    """
    merged = {one.id: one for one in stored}
    for request in new:
        known = merged.setdefault(request.id, request)
        if (known.topics, known.hmac) != (request.topics, request.hmac):
            raise PolicyError(
                f"the erasure request {request.id} has another key or other topics than before.",
                remedy="Give the request another id.",
            )
        merged[request.id] = request
    return tuple(merged[name] for name in sorted(merged))


def chosen(requests: Iterable[Request], ids: Sequence[str]) -> tuple[Request, ...]:
    """Return the requests of these ids, in this order.

    Raises:
        PolicyError: there is none of an id.
    """
    known = {request.id: request for request in requests}
    unknown = sorted({*ids} - {*known})
    if unknown:
        more = f" and {len(unknown) - _MOST_NAMED} more" if len(unknown) > _MOST_NAMED else ""
        raise PolicyError(
            f"there are no stored requests with the ids {', '.join(unknown[:_MOST_NAMED])}{more}.",
            remedy="Give the id of one that has landed; the job `erasure` stores what has.",
        )
    return tuple(known[name] for name in dict.fromkeys(ids))


def write_store(directory: Path, requests: Iterable[Request], secret: Secret) -> Path:
    """Replace the store, durably; return its path. Effects: writes; makes the directory.

    Raises:
        OSError: it cannot be written.
    """
    durable.make_directory(directory)
    path = directory / STORE
    lines = [json.dumps({"version": _VERSION, "secret_id": secret.id})]
    lines += map(_line, requests)
    durable.replace(path, "".join(f"{line}\n" for line in lines).encode(), mode=0o600)
    return path

"""Take the persons out of what is to be signed: names of topics, files and directories may have a
key. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from logwright.erasure.certificate.model import Certificate, PathName
from logwright.erasure.names import Names, is_hidden

_KEPT: Final = frozenset(("hmac", "sha256", "signing_key_sha256", "versions", "not_seen", "issuer"))
"""Fields that have no names of the searched places."""
_PATH: Final = frozenset(("text", "hex"))


def without_keys(certificate: Certificate, names: Names) -> Certificate:
    """Return a certificate with each key in a name replaced, and the number of such names; as it is
    if there is none.
    """
    different = {name for name in _names(certificate) if is_hidden(name) or names.has_key(name)}
    if not different:
        return certificate
    value = _rewritten(certificate.model_dump(), names)
    return Certificate.model_validate(value | {"hidden": len(different)})


def _names(certificate: Certificate) -> Iterator[str]:
    """Yield the name of every path and topic."""
    yield from (each.name.path for each in certificate.directories)
    yield from (each.topics for each in certificate.requests)
    yield from (file.path.path for file in certificate.manifest)
    for unread in (*certificate.not_read, *certificate.hard_linked):
        yield from (unread.path.path, unread.topic, unread.why)
    for record in certificate.remains:
        yield from (record.path.path, record.topic)
    yield from (each.topic for each in certificate.replicas_not_searched)
    yield from (*certificate.topics, *certificate.erased)
    for directory in certificate.directories:
        if directory.running is not None:
            yield from (log.topic for log in directory.running.logs)
            yield from (path.path for path in (*directory.running.passed, *directory.running.gone))


def _rewritten(value: Any, names: Names) -> Any:  # noqa: ANN401 -- of a model's fields
    if isinstance(value, str):
        return names.shown(value)
    if isinstance(value, tuple):
        return tuple(_rewritten(each, names) for each in value)
    if not isinstance(value, dict):
        return value
    if value.keys() == _PATH:
        return PathName.of(names.shown(PathName(**value).path)).model_dump()
    changed = {
        name: field if name in _KEPT else _rewritten(field, names) for name, field in value.items()
    }
    if value.get("path_hex"):
        path = PathName.of(names.shown(PathName(hex=value["path_hex"]).path))
        changed |= {"path": path.text, "path_hex": path.hex}
    return changed

"""Keys and patterns in the paths of a table's files, and how such a path is shown: without them.

A person can be in a path only: the value of a partition is (``customer=ann%40example.com``), and so
can be a name that somebody gave to a file. Whoever has the operator's secret can say of a name
whether it is what is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from logwright.erasure.find.sentences import decoded, forms_of, is_written_by_machines
from logwright.erasure.find.texts import RowHit, scan_parts, scan_texts
from logwright.erasure.keys import KeySet
from logwright.erasure.names import hidden_as
from logwright.errors import LogwrightError


class Paths:
    """Searches paths for the keys of some requests, and for patterns."""

    def __init__(self, keys: KeySet, patterns: Sequence[bytes]) -> None:
        self._keys = keys
        self._patterns = patterns
        self._known: dict[str, list[RowHit]] = {}

    def hits(self, path: str) -> list[RowHit]:
        """Return the requests and patterns that are in a path, decoded or not."""
        if path not in self._known:
            self._known[path] = self._hits(path)
        return self._known[path]

    def _hits(self, path: str) -> list[RowHit]:
        text = path.encode(errors="surrogateescape")
        segments = path.split("/")
        if all(map(is_written_by_machines, segments)):
            scanned = scan_texts([*map(_bytes, segments), text], self._keys, self._patterns)
        else:
            forms = forms_of(text)
            whole = [*forms, *(word for form in forms for word in decoded(form))]
            scanned = scan_texts([*whole, *map(_bytes, segments)], self._keys, self._patterns)
        hits = {(int(hit["request"]), int(hit["pattern"]), -1, False) for hit in scanned.hits}
        requests, _ = scan_parts(forms_of(text), self._keys)
        return sorted(hits | {(request, -1, -1, False) for request in requests})

    def shown(self, path: str) -> str:
        """Return a path with an HMAC in place of each name that a request or a pattern is in; of
        each name if it is in several together.
        """
        if not path or not self.hits(path):
            return path
        names = path.split("/")
        named = [bool(name) and bool(self.hits(name)) for name in names]
        every = not any(named)
        secret = self._keys.secret
        return "/".join(
            hidden_as(secret.hmac(_bytes(name))) if name and (every or is_named) else name
            for name, is_named in zip(names, named, strict=True)
        )

    @contextmanager
    def in_errors(self) -> Iterator[None]:
        """Show the paths of errors so, too."""
        try:
            yield
        except LogwrightError as error:
            path = str(error.path or "")
            if (shown := self.shown(path)) == path:
                raise
            raise type(error)(error.problem, path=shown, remedy=error.remedy) from None


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")

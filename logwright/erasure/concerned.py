"""Which requests a record is of. A search names one request for a key; another request may be for
the same key, with other topics or another deadline. A record whose topic is not known is of each.
"""

from __future__ import annotations

from collections.abc import Sequence

from logwright.erasure.request import applies_to


class Concerned:
    """The requests of a record: those of its key whose topics the record's topic is one of.

    `requests`: HMAC and topics of each, in the order in which findings number them.
    """

    def __init__(self, requests: Sequence[tuple[bytes | str, str]]) -> None:
        self._requests = requests
        self._same: dict[bytes | str, list[int]] = {}
        for number, (hmac, _) in enumerate(requests):
            self._same.setdefault(hmac, []).append(number)
        self._by: dict[tuple[int, str], tuple[int, ...]] = {}

    def by(self, request: int, topic: str) -> tuple[int, ...]:
        """Return the requests of a record of this topic, empty if it is not known, whose finding
        names `request`: always that one, and the others for the same key.
        """
        if (request, topic) not in self._by:
            alike = self._same[self._requests[request][0]]
            self._by[request, topic] = tuple(
                number
                for number in alike
                if number == request or not topic or applies_to(self._requests[number][1], topic)
            )
        return self._by[request, topic]

"""What an operator may name, for the error of a name that there is not. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from logwright.errors import PolicyError

_MOST_NAMED: Final = 20


def there_are(names: Iterable[str]) -> str:
    """Return a sentence of what there is."""
    known = sorted(set(names))
    more = len(known) - _MOST_NAMED
    if not known:
        return "There are none."
    ending = f" and {more} more" if more > 0 else ""
    return f"There are: {', '.join(known[:_MOST_NAMED])}{ending}."


def require_known(what: str, named: Iterable[str], known: Collection[str]) -> None:
    """Refuse a name that matches nothing.

    Args:
        what: such as ``stray log``.

    Raises:
        PolicyError: one or more are not among those that are known.
    """
    wrong = sorted(set(named) - set(known))
    if wrong:
        raise PolicyError(
            f"there is no {what} {' or '.join(wrong)}.",
            remedy=f"{there_are(known)} Nothing was changed.",
        )

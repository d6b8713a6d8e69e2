"""The exit statuses of what was found, for `find` and `erase`; a run of the job `erase` fails by
the same.
"""

from __future__ import annotations

from typing import Final

FOUND: Final = 8
"""Records were found, and all was searched."""
INCOMPLETE: Final = 9
"""Not all that could hold records was searched, whatever was found."""
LATE: Final = 10
"""All was searched, and records were found that are not gone by the deadline."""

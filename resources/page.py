"""Where the fleet page and the pages of erasure cases are."""

import hashlib
import os
from pathlib import Path
from typing import Final
from urllib.parse import quote

PAGE_VARIABLE: Final = "LOGWRIGHT_FLEET_PAGE"
CASES: Final = "erasure_cases"
"""The directory of the pages of cases, next to the fleet page."""
_LONGEST_ID: Final = 60
"""Of a request in the name of its page; a longer one is a digest."""


def page_path(storage: str | Path) -> Path:
    """Return the file: LOGWRIGHT_FLEET_PAGE, else ``fleet_page/index.html`` below the instance's
    storage directory. Effects: reads the environment.
    """
    given = os.environ.get(PAGE_VARIABLE)
    return Path(given).absolute() if given else Path(storage) / "fleet_page" / "index.html"


def cases_directory(storage: str | Path) -> Path:
    """Return the directory of the pages of cases. Effects: reads the environment."""
    return page_path(storage).parent / CASES


def case_name(request: str) -> str:
    """Return the name of the page of a case by the request's id, which can have any characters."""
    name = quote(request, safe="")
    if len(name) > _LONGEST_ID:
        name = hashlib.sha256(request.encode(errors="surrogateescape")).hexdigest()
    return f"case-{name}.html"

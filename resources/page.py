"""Where the fleet page is."""

import os
from pathlib import Path
from typing import Final

PAGE_VARIABLE: Final = "LOGWRIGHT_FLEET_PAGE"


def page_path(storage: str | Path) -> Path:
    """Return the file: LOGWRIGHT_FLEET_PAGE, else ``fleet_page/index.html`` below the instance's
    storage directory. Effects: reads the environment.
    """
    given = os.environ.get(PAGE_VARIABLE)
    return Path(given).absolute() if given else Path(storage) / "fleet_page" / "index.html"

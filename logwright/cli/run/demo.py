"""``logwright demo``: a sample log directory, and the Dagster platform that maintains it."""

from __future__ import annotations

from pathlib import Path

from logwright.cli.output import Output
from logwright.demo.run import run_demo
from logwright.extras import require


def run(output: Output, *, ui: bool, port: int, home: Path, bucket: str | None) -> None:
    """Run the command."""
    del output  # the demo prints what it does
    if bucket is not None:
        require("bucket", by="demo --bucket")
    run_demo(home=home, ui=ui, port=port, bucket=bucket)

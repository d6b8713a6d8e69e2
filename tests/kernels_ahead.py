"""``python -m tests.kernels_ahead`` writes the list of the kernels that a second process compiles
while the first cleaning on a machine runs (`logwright.kernel_compiler.AHEAD`).
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from logwright.cli.main import main
from logwright.format.codec import LZ4
from logwright.kernel import Kernel, Signature
from logwright.kernel_compiler import AHEAD
from logwright.spark.warmup import clean_small_logs
from tests.log_builder import LogBuilder

Called = list[tuple[str, Signature]]


def kernels_of_a_cleaning() -> list[Called]:
    """The kernels that a cleaning of an uncompressed log loads, in their order, and those that one
    of a compressed log loads besides. Effects: temporary directories; the cache of kernels.

    To be called once in a process: a kernel that is loaded already is not counted.
    """
    loaded: Called = []
    load = Kernel.load

    def noted(kernel: Kernel, signature: Signature) -> object:
        loaded.append((kernel.name, signature))
        return load(kernel, signature)

    Kernel.load = noted  # type: ignore[assignment, method-assign]
    groups = []
    for codec in (0, LZ4):
        with tempfile.TemporaryDirectory() as directory:
            _clean(Path(directory) / "logs", codec)
        if codec == LZ4:
            clean_small_logs()
        groups.append(list(dict.fromkeys(loaded)))  # two threads may load one at once
        loaded.clear()
    Kernel.load = load  # type: ignore[method-assign]
    return groups


def _clean(log_dir: Path, codec: int) -> None:
    log = LogBuilder(log_dir)
    for base in (0, 40):
        segment = log.segment(base)
        for at in range(base, base + 40, 4):
            pairs = [(f"k{(at + number) % 7}", "v") for number in range(4)]
            segment.batch(at, pairs, codec=codec)
    log.segment(80)
    log.write(cleaner_checkpoint=None, producers=True)
    arguments = ["--yes", "--force", "--no-metadata", "--config", "cleanup.policy=compact"]
    main(["clean", str(log_dir), *arguments], standalone_mode=False)


if __name__ == "__main__":
    kernels = kernels_of_a_cleaning()
    lines = [",\n".join(json.dumps(each) for each in group) for group in kernels]
    AHEAD.write_text("[[\n" + "\n],[\n".join(lines) + "\n]]\n")

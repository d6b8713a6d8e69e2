"""The process that Spark's Python workers are forked from, with the engine loaded once for all.

Spark starts it by ``spark.python.daemon.module``. Its own daemon has nothing loaded, so that each
worker would import the engine and load the compiled kernels for itself: two seconds of each core;
and if they were never compiled before, each would compile them all.

IMPORTANT: a process that forks must have one thread. Of what the engine imports, Arrow's allocator
and BLAS would start some, which variables of the environment forbid them.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import Final

ONE_THREAD: Final = {
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}


def load_engine() -> None:
    """Load what Spark's workers need, before they are forked. Effects: sets the environment;
    imports the engine, loads the kernels of a cleaning.
    """
    os.environ.update(ONE_THREAD)
    import pyspark.worker  # noqa: F401, PLC0415 -- after the line above, as what follows

    from logwright.spark import sweep  # noqa: F401, PLC0415
    from logwright.spark.warmup import clean_small_logs  # noqa: PLC0415

    # Numba would load SciPy for its BLAS, which no kernel uses: a third of the time.
    sys.modules["scipy"] = None  # type: ignore[assignment]
    clean_small_logs()
    del sys.modules["scipy"]
    # What is loaded stays: the collector, which runs after every task, need not visit it.
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    load_engine()
    from pyspark.daemon import manager

    manager()

"""Deliberate faults of the quick checks, and of what the build sums for them."""

from __future__ import annotations

from typing import Final

from tests.mutation.fault import Fault

_QUICK: Final = ("tests/unit/checks/test_quick.py",)

CHECKING: Final = (
    Fault(
        family="quick check: CRCs are not computed",
        file="checks/quick_kernels.py",
        right="        if not has_right_crc(data, batch):\n",
        wrong="        if batch.size < 0:\n",
        tests=_QUICK,
    ),
    Fault(
        family="quick check: the records of rebuilt batches are not compared",
        file="checks/quick.py",
        right="        task.require(int(sums.content) == rebuilt.content, base, check)\n",
        wrong="        task.require(int(sums.content) >= 0, base, check)\n",
        tests=_QUICK,
    ),
    Fault(
        family="quick check: the headers of rebuilt batches are not compared",
        file="checks/quick_kernels.py",
        right="    if not same_codec or not _headers_agree(",
        wrong="    if not same_codec or _headers_agree(",
        tests=_QUICK,
    ),
    Fault(
        family="quick check: the leader epoch of a rebuilt batch is not compared",
        file="checks/quick_kernels.py",
        right="        (_EPOCH, _EPOCH + 4),\n",
        wrong="",
        tests=_QUICK,
    ),
    Fault(
        family="receipt: the timestamp of a record is left out",
        file="rewrite/batch_receipt.py",
        right="    word = (np.uint64(offset) * _GOLDEN) ^ np.uint64(timestamp)\n",
        wrong="    word = np.uint64(offset) * _GOLDEN\n",
        tests=_QUICK,
    ),
    Fault(
        family="receipt: words of a record are left out",
        file="rewrite/batch_receipt.py",
        right="    for index in range(words):\n",
        wrong="    for index in range(words >> 1):\n",
        tests=_QUICK,
    ),
    Fault(
        family="receipt: the order of the words of a record is left out",
        file="rewrite/batch_receipt.py",
        right="        part += np.uint64(index + 1) * _GOLDEN\n",
        wrong="        part += _GOLDEN\n",
        tests=_QUICK,
    ),
    Fault(
        family="receipt: records that go are added to the sum of a batch that keeps most",
        file="rewrite/batch_receipt.py",
        right="            sums.digest += -word if is_summed else word\n",
        wrong="            sums.digest += word\n",
        tests=_QUICK,
    ),
)

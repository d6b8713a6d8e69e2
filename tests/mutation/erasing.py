"""Deliberate faults in erasures: records that are lost, keys and files that stay."""

from __future__ import annotations

from tests.mutation.fault import Fault

_ERASE = ("tests/unit/erasure/erase/test_erase.py",)
_CHECK = ("tests/unit/erasure/erase/test_check.py",)
_COMMAND = ("tests/unit/cli/test_erase.py",)
_CRASH = ("tests/crash/test_erase.py",)

ERASING = (
    Fault(
        family="erase: compressed batches are not scanned",
        file="erasure/erase/scan.py",
        right="in enumerate(buffers):",
        wrong="in enumerate(buffers[:1]):",
        tests=_ERASE,
    ),
    Fault(
        family="erase: the last record of a batch is not scanned",
        file="erasure/erase/scan_kernels.py",
        right="for index in range(np.int64(batch.count)):",
        wrong="for index in range(np.int64(batch.count) - 1):",
        tests=_ERASE,
    ),
    Fault(
        family="erase: a tombstone gets a delete horizon",
        file="compaction/rewrite/batch.py",
        right="horizon_ms != NO_HORIZON and sets_delete_horizon",
        wrong="sets_delete_horizon",
        tests=_ERASE,
    ),
    Fault(
        family="erase: the last batch of a producer goes",
        file="erasure/erase/build.py",
        right="        keep_ends(clean, source.batches, clean.log.producers)\n",
        wrong="",
        tests=_ERASE,
    ),
    Fault(
        family="erase: the first batch of an open transaction goes",
        file="erasure/erase/build.py",
        right="        _keep_open(source.batches, clean.log.producers)\n",
        wrong="",
        tests=(*_ERASE, *_CHECK),
    ),
    Fault(
        family="erase: the transaction index is dropped",
        file="erasure/erase/build.py",
        right="    if segment.txnindex_bytes:\n",
        wrong="    if segment.txnindex_bytes is None:\n",
        tests=_ERASE,
    ),
    Fault(
        family="erase check: a batch that is gone is not missed",
        file="erasure/erase/check.py",
        right="            self._blame_rows(window.batches[~has & ~emptied])\n",
        wrong="",
        tests=_CHECK,
    ),
    Fault(
        family="erase check: an added batch is not noticed",
        file="erasure/erase/check.py",
        right="        self._blame_rows(output.batches[~found])\n",
        wrong="",
        tests=_CHECK,
    ),
    Fault(
        family="erase check: the output is not searched",
        file="erasure/erase/check.py",
        right="            self._search(output)\n",
        wrong="",
        tests=_CHECK,
    ),
    Fault(
        family="erase check: values are not compared",
        file="erasure/erase/check_kernels.py",
        right="                or not same_bytes(left, new_rest, right, rest, length)\n",
        wrong="",
        tests=_CHECK,
    ),
    Fault(
        family="erase check: headers are not compared",
        file="erasure/erase/check_kernels.py",
        right="        if not same_end or not header:\n",
        wrong="        if not same_end:\n",
        tests=_CHECK,
    ),
    Fault(
        family="erase: the replaced files stay",
        file="erasure/erase/steps.py",
        right="    gone = set(replaced_files(listing))\n",
        wrong="    gone: set[str] = set()\n",
        tests=_CRASH,
    ),
    Fault(
        family="erase: retired files of a cleaning stay",
        file="erasure/erase/commit.py",
        right="            copies = (*plan.copies, *work_copies(log.directory, keys))\n",
        wrong="            copies = (*work_copies(log.directory, keys),)\n",
        tests=_CRASH,
    ),
    Fault(
        family="erase: kept outputs and cut pieces stay",
        file="erasure/erase/commit.py",
        right="            copies = (*plan.copies, *work_copies(log.directory, keys))\n",
        wrong="            copies = plan.copies\n",
        tests=_CRASH,
    ),
    Fault(
        family="erase: staged files of dead plans stay",
        file="erasure/erase/steps.py",
        right="        *staging_steps(listing),\n",
        wrong="",
        tests=_CRASH,
    ),
    Fault(
        family="erase: an undo takes it for a swap",
        file="erasure/erase/commit.py",
        right='                operation="erase",\n',
        wrong="",
        tests=_ERASE,
    ),
    Fault(
        family="erase: staged output of others is ignored",
        file="erasure/erase/commit.py",
        right="        if one.held and one.path.name != plan_id:\n",
        wrong="        if False:\n",
        tests=_COMMAND,
    ),
    Fault(
        family="erase: readers do not notice",
        file="erasure/erase/commit.py",
        right="                execute(mark_steps(log.directory,",
        wrong="                (mark_steps(log.directory,",
        tests=("tests/unit/erasure/test_mark.py",),
    ),
    Fault(
        family="erase: tombstones are appended again",
        file="erasure/erase/by_tombstones.py",
        right="                    decided = tombstone and offset < log.last_stable_offset\n",
        wrong="                    decided = False\n",
        tests=_COMMAND,
    ),
    Fault(
        family="erase: tombstones past their horizon stay",
        file="erasure/erase/by_tombstones.py",
        right="        plan = _from_the_start(plan)\n",
        wrong="        pass\n",
        tests=_COMMAND,
    ),
    Fault(
        family="erase: what could not be searched does not count",
        file="erasure/remains.py",
        right="        return bool(self.left.unsearched)\n",
        wrong="        return False\n",
        tests=_COMMAND,
    ),
    Fault(
        family="erase: what remains does not count",
        file="erasure/remains.py",
        right="        return bool(self.left.files)\n",
        wrong="        return False\n",
        tests=_COMMAND,
    ),
    Fault(
        family="erase: a table that is not there counts as searched",
        file="erasure/remains.py",
        right="    problem: str\n\n    remains, incomplete = False, True\n",
        wrong="    problem: str\n\n    remains, incomplete = False, False\n",
        tests=_COMMAND,
    ),
    Fault(
        family="keys: a byte order mark is part of the key",
        file="erasure/key_text.py",
        right="    if text.startswith(MARK):\n",
        wrong="    if False:\n",
        tests=("tests/unit/erasure/test_keys_file.py",),
    ),
    Fault(
        family="move: the mark of an erasure is not carried",
        file="move/observe.py",
        right="(INGEST_BATCHES, INGEST_JOURNAL, ERASURE_MARK)",
        wrong="(INGEST_BATCHES, INGEST_JOURNAL)",
        tests=("tests/crash/test_move.py",),
    ),
    Fault(
        family="tables: the CRCs of batches are not compared",
        file="tables/batches.py",
        right=" ^ last) ^ crc)",
        wrong=" ^ last))",
        tests=("tests/unit/tables/test_batches.py",),
    ),
)

"""Deliberate faults in what an account of copies rests on: listings, types, texts, forms of a key,
erasures in manifests, what killed processes left.
"""

from __future__ import annotations

from typing import Final

from tests.mutation.fault import Fault

_IN_BUCKETS: Final = ("tests/unit/erasure/find/test_hidden.py",)
_IN_TABLES: Final = ("tests/unit/erasure/find/test_hidden_in_tables.py",)
_FIND: Final = ("tests/unit/cli/test_find.py",)
_FORMS: Final = ("tests/unit/erasure/test_forms.py",)
_COPIES: Final = ("tests/unit/maintenance/test_copies.py",)
_SCRATCH: Final = ("tests/unit/maintenance/test_scratch.py",)
_REDACTION: Final = ("tests/unit/spark/test_redaction.py",)
_NAMES: Final = ("tests/unit/erasure/test_names.py",)
_SIDES: Final = ("tests/unit/maintenance/test_both_sides.py",)

COPIES: Final[tuple[Fault, ...]] = tuple(
    Fault(family=f"copies: {family}", file=file, right=right, wrong=wrong, tests=tests)
    for family, file, right, wrong, tests in (
        (
            "an object that is named like kept facts is believed",
            "place/whole.py",
            "part + _TAKEN if part in _BELIEVED or not part else part",
            "part",
            _COPIES,
        ),
        (
            "an object of another version is searched, and not counted",
            "place/whole.py",
            "        contents.others[name] = len(data) or len(rest)\n",
            "        del data\n",
            _IN_BUCKETS,
        ),
        (
            "an earlier manifest holds no more than the newest",
            "place/whole.py",
            "    return files_are and (state.partition, state.configs) == (\n",
            "    return files_are or (state.partition, state.configs) == (\n",
            _COPIES,
        ),
        (
            "what came while all was read is not named",
            "place/whole.py",
            "            if known or not stored.bytes or stored.key in self.shown:\n",
            "            if known or stored.bytes or stored.key in self.shown:\n",
            _IN_BUCKETS,
        ),
        (
            "what the client cannot read is not there",
            "place/whole.py",
            "            contents.unread[stored.key] = _NOT_READ\n",
            "",
            _IN_BUCKETS,
        ),
        (
            "a link in a bucket of files is not there",
            "bucket/everything.py",
            '                seen.unread[f"{prefix}{name}"] = kind\n',
            "                del kind\n",
            _IN_BUCKETS,
        ),
        (
            "values of a dictionary count as none",
            "erasure/find/leaves.py",
            "    yield from leaves(values, firsts)\n",
            "",
            _IN_TABLES,
        ),
        (
            "a type that is not known has no values",
            "erasure/find/value_forms.py",
            "        raise UnknownType(type_name(kind))\n",
            "        return\n",
            _IN_TABLES,
        ),
        (
            "a whole number is not a key of a serializer",
            "erasure/find/value_forms.py",
            "        yield from _serialized(leaf)\n",
            "        return\n",
            _IN_TABLES,
        ),
        (
            "a part of a condition is not compared",
            "erasure/find/sentences.py",
            "    return np.concatenate([[0], inner, [len(text)]]).astype(np.int64)\n",
            "    return np.array([0, len(text)], dtype=np.int64)\n",
            _IN_TABLES,
        ),
        (
            "a path is not unescaped",
            "erasure/find/sentences.py",
            "        forms.add(unquoted)\n",
            "",
            _IN_TABLES,
        ),
        (
            "a bound of a date is a number only",
            "erasure/find/bounds.py",
            '        if kind == "date":\n',
            '        if kind == "day":\n',
            _IN_TABLES,
        ),
        (
            "keys that are requested anyway are listed with a pattern's",
            "erasure/find/scan.py",
            "    only_pattern = noted[is_chosen][~requested & ~twice]\n",
            "    only_pattern = noted[is_chosen]\n",
            _FIND,
        ),
        (
            "the key of a record with a pattern is not noted",
            "erasure/find/walk.py",
            "    if (code < 0 or code >= PATTERN) and key_length >= 0:\n",
            "    if code < 0 and key_length >= 0:\n",
            _FIND,
        ),
        (
            "a window of Streams is a part of the key",
            "erasure/forms.py",
            "        yield key[:-WINDOW_BYTES]\n",
            "",
            _FORMS,
        ),
        (
            "the id of a schema is a part of the key",
            "erasure/forms.py",
            "        yield _parsed(payload) if text is None else text\n",
            "        yield key if text is None else key\n",
            _FORMS,
        ),
        (
            "numbers of JSON are rounded",
            "erasure/forms.py",
            "parse_float=str",
            "parse_float=lambda text: str(float(text))",
            _FORMS,
        ),
        (
            "a key that nobody can decode is none that was asked for",
            "erasure/keys.py",
            "            if request < 0 and is_refused:\n",
            "            if request < -1 and is_refused:\n",
            ("tests/unit/cli/test_other_forms.py",),
        ),
        (
            "who could not decode has erased all forms",
            "erasure/erase/scan.py",
            "            undecoded |= hits.undecoded\n",
            "",
            _COPIES,
        ),
        (
            "what a cleaning kept was decoded",
            "erasure/erase/copies.py",
            "            is_whole &= not hits.undecoded\n",
            "",
            _COPIES,
        ),
        (
            "who erased bytes has erased all forms",
            "erasure/keys.py",
            "            if forms and self.is_decoded(index):\n",
            "            if forms and self.is_decoded(index) and index < 0:\n",
            _COPIES,
        ),
        (
            "an upload from before an erasure is taken",
            "upload/plan.py",
            "max(absent.get(key, 0), first_offset) < below\n",
            "max(absent.get(key, below), first_offset) < below\n",
            _COPIES,
        ),
        (
            "the log start falls",
            "upload/plan.py",
            "        else max(before.log_start_offset, state.log_start_offset),\n",
            "        else state.log_start_offset,\n",
            (*_COPIES, *_SIDES),
        ),
        (
            "a stale entry of the cleaner says that a log is compacted",
            "upload/plan.py",
            "    if policy is None:\n        return cleaner_checkpoint is not None\n",
            "    if policy is None or cleaner_checkpoint is not None:\n        return True\n",
            (*_COPIES, "tests/unit/upload/test_upload.py"),
        ),
        (
            "a log of which the bucket needs nothing is not looked at",
            "upload/upload.py",
            "            require_continues(before, facts)\n",
            "            (require_continues(before, facts) if segments else None)\n",
            ("tests/unit/upload/test_upload.py",),
        ),
        (
            "what a killed process left elsewhere stays",
            "maintenance/scratch.py",
            "_remove_noted(directory.path / name / _NOTE) or ",
            "",
            _SCRATCH,
        ),
        (
            "a working copy in use is removed",
            "maintenance/scratch.py",
            '        return ""\n    with held(file, remove=(directory, lock)):\n',
            "        return _remove_tree(directory, name)\n    with held(file):\n",
            _SCRATCH,
        ),
        (
            "others may rename a working copy",
            "maintenance/scratch.py",
            "        others_write and not status.st_mode & stat.S_ISVTX\n",
            "        others_write and not status.st_mode\n",
            ("tests/unit/maintenance/test_maintenance.py",),
        ),
        (
            "the secret of a store is in the list of processes",
            "spark/redaction.py",
            "        if name.startswith(_AT_LAUNCH) or not is_secret(name, value)\n",
            "        if name.startswith(_AT_LAUNCH) or not is_secret(name, name)\n",
            _REDACTION,
        ),
        (
            "a key in base64 is signed as a name",
            "erasure/names.py",
            "    if _BASE64.fullmatch(text):\n",
            "    if _BASE64.fullmatch(text) and not text:\n",
            _NAMES,
        ),
        (
            "a key in a longer name is signed",
            "erasure/names.py",
            "        for start, end in _spans(part):\n",
            "        for start, end in [(0, len(part))]:\n",
            _NAMES,
        ),
    )
)

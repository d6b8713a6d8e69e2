"""The commands that search for keys: what they find, and of which keys they claim that nothing is
left.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from logwright.erasure.secret import load_secret
from tests.e2e.command import call
from tests.live.calls import lines_of, require_named
from tests.live.commands import Attempt, Refused
from tests.live.load import KEYS
from tests.live.rows import NONE, Call, Findings, Isolation, Rows, general, key_of, rows_of

SEARCHED_KEYS = 10
SEARCHED = (0, 8, 9)
"""Exit statuses of a search that ended."""
CERTIFIED = (0, 6)
"""Of a certificate that was made."""
VERIFIED = (0, 6)
"""Of one that is as it was signed: files of a running log change."""
CLEAN = ("gone", "not found")
"""States of a request of whose key nothing is left, or ever was."""


class Search:
    """Searches for random keys. Effects: a file in a directory of its own."""

    def __init__(self, log_dirs: Sequence[Path], scratch: Path) -> None:
        self._file = scratch / "keys"
        self._draw = random.Random(os.getpid())
        self._is_whole = len(log_dirs) == 1

    def find(self, log_dir: Path, log: str, _: Isolation) -> Findings | Call:
        """As ``find`` does.

        Raises:
            Refused: it refused.
        """
        attempt = _attempt("find", log_dir, log)
        keys = self._draw.sample(range(KEYS), SEARCHED_KEYS)
        write_keys(self._file, keys)
        options = ("--keys", self._file, "--topic", attempt.partition.topic, "--output", "json")
        answer = call("find", log_dir, *options, "--threads", "1")
        lines = lines_of(answer)
        require_named(lines)
        if answer.status not in SEARCHED or not lines:
            wrong = {f"status {answer.status}: {general(answer.out + answer.err)}": 1}
            return Call(reader="find", log=log, seconds=0.0, wrong=wrong)
        hits = [
            (line["offset"], keys[int(line["request"].removeprefix("line ")) - 1], line)
            for line in lines
            if "kind" in line and line["path"].startswith(f"{log}/")
        ]
        notes = {
            f"not searched: {general(str(line.get('problem', line.get('why'))))}": 1
            for line in lines
            if answer.status == SEARCHED[-1] and "kind" not in line and "path" in line
        }
        is_alone = self._is_whole
        return _found(attempt, keys, hits, notes=notes, is_alone=is_alone, is_whole=is_alone)


class Certifier:
    """Certifies some keys of each log, again and again: each certificate is given the one before,
    so that a key that is not there any more is said to be gone. Effects: files in a directory of
    its own.
    """

    def __init__(self, log_dirs: Sequence[Path], scratch: Path) -> None:
        self._log_dirs, self._root = log_dirs, scratch
        self._draw = random.Random(os.getpid())
        self._keys: dict[str, list[int]] = {}
        self._key, self._secret = self._root / "sign.pem", self._root / "secret"

    def certificate(self, log_dir: Path, log: str, _: Isolation) -> Findings | Call:
        """As ``certificate`` does, of all directories that there are.

        Raises:
            Refused: it refused.
        """
        attempt = _attempt("certificate", log_dir, log)
        out, keys = self._root / f"{log}.json", self._keys_of(log)
        earlier = ("--earlier", out) if out.exists() else ()
        options = (
            *("--keys", self._root / f"{log}.keys", "--topic", attempt.partition.topic),
            *("--secret", self._secret, "--signing-key", self._key, "--out", out, *earlier),
            *("--output", "json"),
        )
        answer = call("certificate", *self._log_dirs, *options)
        require_named(lines_of(answer))
        if answer.status not in CERTIFIED:
            wrong = {f"status {answer.status}: {general(answer.out + answer.err)}": 1}
            return Call(reader="certificate", log=log, seconds=0.0, wrong=wrong)
        made: dict[str, Any] = json.loads(out.read_text())["certificate"]
        secret = load_secret(self._secret)
        numbers = {secret.hmac(key_of(key)).hex(): key for key in keys}
        in_order = [numbers[request["hmac"]] for request in made["requests"]]
        states = [request["state"] for request in made["requests"]]
        hits = [
            (each["offset"], in_order[each["request"]], each)
            for each in made["remains"]
            if each["path"]["text"].startswith(f"{log}/")
        ]
        notes = {f"keys that are {state}": states.count(state) for state in set(states)}
        for why in {each["why"] for each in made["not_read"]}:
            notes[f"not searched: {general(why)}"] = 1
        denied = [key for key, state in zip(in_order, states, strict=True) if state in CLEAN]
        is_alone = len(self._log_dirs) == 1
        return _found(attempt, in_order, hits, notes=notes, denied=denied, is_alone=is_alone)

    def verify(self, log_dir: Path, log: str, isolation: Isolation) -> Call:
        """As ``verify-certificate`` does, of the last certificate and the directories of now.

        Raises:
            Refused: it refused, or there is no certificate yet.
        """
        out = self._root / f"{log}.json"
        if not out.exists():
            made = self.certificate(log_dir, log, isolation)
            if isinstance(made, Call):
                raise Refused("there is no certificate")
        attempt = _attempt("verify-certificate", log_dir, log)
        words = ("--public-key", f"{self._key}.pub", "--output", "json")
        answer = call("verify-certificate", out, *self._log_dirs, *words)
        lines = lines_of(answer)
        require_named(lines)
        wrong: dict[str, int] = {}
        is_right = any(line.get("signature") == "right" for line in lines)
        if answer.status not in VERIFIED or not is_right:
            wrong[f"status {answer.status}: {general(answer.out + answer.err)}"] = 1
        seconds = attempt.ended(None, 0, 0, is_state=False).ended - attempt.began
        return Call(reader="verify-certificate", log=log, seconds=seconds, wrong=wrong)

    def _keys_of(self, log: str) -> list[int]:
        """The keys of a log. Effects: makes what a certificate needs, once."""
        if not self._key.exists():
            self._secret.write_text(self._draw.randbytes(32).hex())
            self._secret.chmod(0o600)
            assert 0 == call("certificate", "--new-key", self._key).status
        if log not in self._keys:
            self._keys[log] = self._draw.sample(range(KEYS), SEARCHED_KEYS)
            write_keys(self._root / f"{log}.keys", self._keys[log])
        return self._keys[log]


def stays(hit: dict[str, Any], *, is_alone: bool) -> bool:
    """Whether consumers must have got a hit: of a log with other replicas, one that is said to be
    committed. What is not is found too, and another leader may not have it: then it is cut off.
    """
    return is_alone or hit.get("committed") is True


def write_keys(file: Path, keys: Sequence[int]) -> None:
    """Write a file of keys, one in each line. Effects: the file."""
    file.write_bytes(b"".join(key_of(key) + b"\n" for key in keys))


def _attempt(reader: str, log_dir: Path, log: str) -> Attempt:
    return Attempt(reader=reader, log_dir=log_dir, log=log, isolation="read_committed")


def _found(
    attempt: Attempt,
    keys: Sequence[int],
    hits: Sequence[tuple[int, int, dict[str, Any]]],
    *,
    notes: dict[str, int],
    is_alone: bool,
    denied: Sequence[int] = (),
    is_whole: bool = True,
) -> Findings:
    ended = attempt.ended(None, 0, 0, is_state=False)
    return Findings(
        reader=attempt.reader,
        log=attempt.log,
        topic_ids=ended.topic_ids,
        keys=tuple(keys),
        hits=_rows((offset, key) for offset, key, _ in hits),
        committed=_rows(
            (offset, key) for offset, key, hit in hits if stays(hit, is_alone=is_alone)
        ),
        began=ended.began,
        ended=ended.ended,
        denied=tuple(denied),
        is_whole=is_whole,
        notes=notes,
    )


def _rows(hits: Iterable[tuple[int, int]]) -> Rows:
    return rows_of([(*hit, NONE, NONE) for hit in sorted(set(hits))])

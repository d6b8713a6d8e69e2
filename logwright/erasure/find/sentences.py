"""All that a text could say of a key: a condition of a query, a comment, a name, a path. Pure.

No two programs write a condition alike (``key = 'a'``, ``(key#1 = a)``, ``StartsWith(key#1, a)``),
so none is parsed. A key begins and ends where a word does: each part of the text between two such
borders is compared. So is what the text is without escapes, and what its words are in hex, base64
or as a list of bytes.

Names that writers of tables give to files, their versions, and the words of their settings have
parts, too. Of these only the whole is compared: a key `snappy` or `1` would be in every table.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

import numpy as np
from numpy.typing import NDArray

from logwright.erasure.keys import Keys

MOST_BORDERS: Final = 2048
"""Of a text of which all parts are compared. Of a longer one those with up to half as many are."""
_MOST_UNQUOTES: Final = 3
"""Delta's log escapes what the path of a partition has escaped."""
_WORD: Final = np.array([chr(byte).isalnum() and byte < 0x80 for byte in range(256)])  # noqa: PLR2004 -- the first that is not ASCII
_BASE64: Final = re.compile(rb"[A-Za-z0-9+/_-]{2,}={0,2}")
_HEX: Final = re.compile(rb"(?<![A-Za-z0-9])(0[xX]|\\?[xX]'?)?((?:[0-9A-Fa-f]{2} ?)+)")
_SHORTEST: Final = 3
"""Bytes of a word in base64, or in hex that nothing marks: shorter ones are in each text."""
_BYTE_LIST: Final = re.compile(rb"-?\d{1,3}(?:, ?-?\d{1,3})+")
_BYTES: Final = range(-0x80, 0x100)
"""As Java and other programs write them."""
_ESCAPED: Final = re.compile(
    rb"\\(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|([0-7]{3})|(.))", re.DOTALL
)
_LETTERS: Final = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"0": b"\0"}

_UUID: Final = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_KINDS: Final = "parquet|avro|orc|puffin|json|crc|bin|stats|metadata\\.json"
_WRITTEN: Final = re.compile(
    rf"{_UUID}|[0-9a-f]{{32}}(?:\.(?:{_KINDS}))?"
    rf"|part-\d{{5}}(?:-{_UUID})?(?:[-.]c\d{{3}})?(?:\.[a-z0-9]{{2,7}})?\.parquet"
    rf"|\d{{20}}(?:\.(?:checkpoint|compacted|\d{{10}}|\d{{20}}|{_UUID}))*\.(?:{_KINDS})"
    rf"|(?:\d{{5}}-)?{_UUID}(?:-m\d+)?(?:\.gz)?\.(?:{_KINDS})"
    rf"|\d{{5}}-\d+-{_UUID}(?:-\d{{1,5}})?(?:-deletes)?\.(?:{_KINDS})"
    rf"|v\d+(?:\.gz)?\.metadata\.json|snap-\d+-\d+-{_UUID}\.avro"
    rf"|deletion_vector_{_UUID}\.bin|(?:partition|bucket)=\d{{1,10}}|rows(?:-\d+)?\.parquet"
    r"|\d+(?:\.\d+)+|\d{4}-\d\d-\d\d(?:[T ][0-9:.+Z-]*)?"
)
"""Names of files, identifiers, numbers and times, as writers of tables make them."""
_TYPE: Final = re.compile(
    r"\b(decimal|fixed|bucket|truncate|char|varchar|timestamp|fixed_size_binary|time)"
    r"(?:\(\d+(?:, ?-?\d+)?\)|\[(?:\d+|[mnu]?s(?:, tz=[A-Za-z/+:0-9]+)?)\])"
)
_NESTED: Final = re.compile(r"(?:(?:array|list|large_list|map|struct)<)+[a-z_0-9]+>+")
_BUILD: Final = re.compile(r" \((?:commit|build) [0-9a-f]{7,40}\)")
_TOKEN: Final = re.compile(
    r"v?\d+(?:\.\d+)+(?:[-+.](?:\d+|SNAPSHOT|(?:rc|amzn|dev|post|alpha|beta)[-.]?\d*))*"
    r"|[A-Za-z]+|\d+"
)
_PLAIN: Final = re.compile(r"[A-Za-z0-9 ./:_-]+")
_OF_PRODUCTS: Final = """
apache arrow build cpp databricks datafusion delta duckdb flink iceberg java jre kernel lake
logwright mr org parquet photon polars py pyarrow pyiceberg python rs runtime rust scala
spark standalone trino version
"""
_OF_SETTINGS: Final = """
added app append array as avro background based binary blob boolean bound bucket bytes cache
change changed checkpoint checkpointed class codec column columns commit compacted
compression configuration conflict consistency content context count counts create created
current data date db decimal default delete deleted deletes deletion delta descending
determine dictionary disk distribution domain double element enable enabled encoding
encryption end engine equality error factor feature features field fields file files first
fixed float for format from fs granularity hadoop hash hive histogram history id ids
identifier identity impl in including index int interval invariants isolation json kept key
keys kind last length level limit list location log long lower manifest manifests map
mapping max merge metadata metrics micros min millis mode ms name names nan null nullable
nulls num number of offset offsets on operation optional optimize or orc order overwrite
owner page parent partition partitioned partitions path physical position previous progress
properties protocol ratio read reader record records ref refs removed replace replaced
representing required retain retention retry row rows scheme schema schemas seconds sequence
serializable size snapshot snapshots snappy sort source spec specs split splittable sql
start started statistics stats string struct summary table target tight time timeout
timestamp to total transaction transform truncate tuple type ui unpartitioned unsorted
update updated upper uri use used uuid vacuum value values vectors version view wait
warehouse width with write writer zstd specified check checks scan scanned skipped execution rewrite
rewritten output inserted copied matched merged written conversion
"""
"""Of which the names of settings and fields of tables are made."""
_PRODUCTS: Final = frozenset(_OF_PRODUCTS.split())
_WORDS: Final = _PRODUCTS | frozenset(_OF_SETTINGS.split())


class Parts(NamedTuple):
    """The parts of a text.

    Attributes:
        keys: each part.
        all: whether these are all.
    """

    keys: Keys
    all: bool


def is_written_by_machines(text: str) -> bool:
    """Return whether a text is a name that writers of tables give: only the whole says a thing."""
    if _WRITTEN.fullmatch(text):
        return True
    bare = _BUILD.sub("", _TYPE.sub(r"\1", text))
    if _NESTED.fullmatch(bare):
        return True
    if not _PLAIN.fullmatch(bare):
        return False
    tokens = [token.lower() for token in _TOKEN.findall(_separate(bare))]
    if all(token in _WORDS for token in tokens):
        return True
    return all(token in _PRODUCTS or "." in token for token in tokens)


def _separate(text: str) -> str:
    """Return a text with blanks in its words, as in ``minReaderVersion``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)


def parts_of(text: bytes) -> Iterator[Parts]:
    """Yield the parts of a text between any two of its borders."""
    places = _borders(text)
    step = len(places) if len(places) <= MOST_BORDERS else MOST_BORDERS // 2
    for first in range(0, len(places), max(step, 1)):
        window = places[first : first + MOST_BORDERS]
        starts, ends = np.triu_indices(len(window), 1)
        begins, lengths = window[starts], window[ends] - window[starts]
        data = np.frombuffer(text, dtype=np.uint8)
        yield Parts(Keys(data, begins, lengths), len(places) <= MOST_BORDERS)


def count_borders(text: bytes) -> int:
    """Return the number of borders of a key."""
    return len(_between_words(text))


def _between_words(text: bytes) -> NDArray[np.int64]:
    """Return where words begin and end, int64[n], ascending."""
    is_word = _WORD[np.frombuffer(text, dtype=np.uint8)]
    inner = np.flatnonzero(~(is_word[1:] & is_word[:-1])) + 1
    return np.concatenate([[0], inner, [len(text)]]).astype(np.int64)


def _borders(text: bytes) -> NDArray[np.int64]:
    """Return the borders of a text without those inside of names that machines write."""
    places = _between_words(text)
    start = 0
    for segment in text.split(b"/"):
        if is_written_by_machines(segment.decode(errors="replace")):
            inside = (places > start) & (places < start + len(segment))
            places = places[~inside]
        start += len(segment) + 1
    return places


def forms_of(text: bytes) -> set[bytes]:
    """Return a text as it is without escapes and quotes of URLs, SQL and programs."""
    forms = {text}
    unquoted = text
    for _ in range(_MOST_UNQUOTES):
        if b"%" not in unquoted:
            break
        unquoted = unquote_to_bytes(unquoted)
        forms.add(unquoted)
    if b"%" in text and b"+" in text:
        forms.add(unquote_to_bytes(text.replace(b"+", b" ")))
    if b"''" in text or b'""' in text:
        forms.add(text.replace(b"''", b"'").replace(b'""', b'"'))
    if b"\\" in text:
        forms.add(_ESCAPED.sub(_unescaped, text))
    return forms


def _unescaped(match: re.Match[bytes]) -> bytes:
    wide, narrow, octal, other = match.groups()
    if wide is not None:
        return chr(int(wide, 16)).encode(errors="surrogatepass")
    if narrow is not None or octal is not None:
        return bytes([(int(narrow, 16) if octal is None else int(octal, 8)) & 0xFF])
    return _LETTERS.get(other, other)


def decoded(text: bytes) -> Iterator[bytes]:
    """Yield what the words of a text are in base64, in hex, and as a list of bytes."""
    for match in _BASE64.finditer(text):
        for word in {match[0].rstrip(b"="), *re.split(rb"[/+=_-]+", match[0])}:
            for altchars in (None, b"-_"):
                try:
                    value = base64.b64decode(
                        word + b"=" * (-len(word) % 4), altchars, validate=True
                    )
                except (ValueError, binascii.Error):
                    continue
                yield from [value] if len(value) >= _SHORTEST else []
    for match in _HEX.finditer(text):
        value = bytes.fromhex(match[2].decode())
        yield from [value] if match[1] or len(value) >= _SHORTEST else []
    for match in _BYTE_LIST.finditer(text):
        numbers = [int(number) for number in match[0].split(b",")]
        if all(number in _BYTES for number in numbers):
            yield bytes(number % len(_WORD) for number in numbers)

"""Deliberate faults in certificates of erasure: what is not proved is called gone, what is altered
is not noticed.
"""

from __future__ import annotations

from tests.mutation.fault import Fault

_DIRECTORY = "tests/unit/erasure/certificate"
_SIGNED = (f"{_DIRECTORY}/test_signed.py", f"{_DIRECTORY}/test_canonical.py")
_MANIFEST = (f"{_DIRECTORY}/test_manifest.py",)
_OBJECTS = ("tests/unit/place/test_objects.py",)
_MAKE = (f"{_DIRECTORY}/test_make.py", "tests/unit/erasure/outlook/test_verdict.py")
_COUNTDOWN = (
    "tests/unit/erasure/outlook/test_countdown.py",
    "tests/unit/erasure/test_concerned.py",
)

CERTIFICATES = (
    Fault(
        family="certificate: the frame is not compared",
        file="erasure/certificate/signed.py",
        right="    if whole != content or len(raw) != SIGNATURE_BYTES:\n",
        wrong="    if len(raw) != SIGNATURE_BYTES:\n",
        tests=_SIGNED,
    ),
    Fault(
        family="certificate: another form of the same value is taken",
        file="erasure/certificate/canonical.py",
        right="    if again != content:\n",
        wrong="    if json.loads(again) != json.loads(content):\n",
        tests=_SIGNED,
    ),
    Fault(
        family="certificate: its own key is believed",
        file="erasure/certificate/signed.py",
        right="    if not is_signed(key, raw, inside):\n",
        wrong="    if not raw:\n",
        tests=_SIGNED,
    ),
    Fault(
        family="certificate: keys are sorted by code points",
        file="erasure/certificate/canonical.py",
        right='    return key.encode("utf-16-be")\n',
        wrong='    return key.encode("utf-32-be")\n',
        tests=_SIGNED,
    ),
    Fault(
        family="certificate: an unreadable file is ignored",
        file="erasure/certificate/make.py",
        right="    unsearched = (*(one.topic for one in _not_read(searched)), ",
        wrong="    unsearched = (*(), ",
        tests=_MAKE,
    ),
    Fault(
        family="certificate: a deadline passes a millisecond late",
        file="erasure/outlook/verdict.py",
        right="    if deadline_ms is not None and now_ms >= deadline_ms:\n",
        wrong="    if deadline_ms is not None and now_ms > deadline_ms:\n",
        tests=_MAKE,
    ),
    Fault(
        family="certificate: what never goes is in time",
        file="erasure/outlook/verdict.py",
        right="last_ms is None or last_ms > deadline_ms",
        wrong="last_ms is not None and last_ms > deadline_ms",
        tests=_MAKE,
    ),
    Fault(
        family="manifest: a file of the same size is not read",
        file="erasure/certificate/changes.py",
        right="now[path].sha256 == before[path].sha256",
        wrong="now[path].size == before[path].bytes",
        tests=_MAKE,
    ),
    Fault(
        family="manifest: the change time is not compared",
        file="place/local.py",
        right="Entry(kind, stamp, status.st_ctime_ns, ",
        wrong="Entry(kind, stamp, 0, ",
        tests=_MANIFEST,
    ),
    Fault(
        family="manifest: links are followed",
        file="place/local.py",
        right="                status = os.stat(name, dir_fd=self.fd, follow_symlinks=False)\n",
        wrong="                status = os.stat(name, dir_fd=self.fd)\n",
        tests=("tests/unit/log/test_tree.py",),
    ),
    Fault(
        family="manifest: a new file is not noticed",
        file="erasure/certificate/manifest.py",
        right="    for path in sorted(now.files.keys() | tree.files.keys()):\n",
        wrong="    for path in sorted(tree.files.keys()):\n",
        tests=_MANIFEST,
    ),
    Fault(
        family="manifest: an object of the same size and second is the same",
        file="place/objects.py",
        right="stored.e_tag.encode()",
        wrong='b""',
        tests=_OBJECTS,
    ),
    Fault(
        family="manifest: objects are listed once",
        file="place/objects.py",
        right="        if not key:\n",
        wrong="        if not key and self.listing.directory(key) is None:\n",
        tests=_OBJECTS,
    ),
    Fault(
        family="countdown: another request for the same key is gone",
        file="erasure/concerned.py",
        right="                for number in alike\n",
        wrong="                for number in (request,)\n",
        tests=_COUNTDOWN,
    ),
)

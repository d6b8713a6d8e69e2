"""What the names of a log's files say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from logwright.log.listing import look_for_damage
from logwright.log.model import FileStamp

OFFSETS = (f"{0:020d}", f"{7:020d}", f"{2**63 - 1:020d}", f"{2**63:020d}", "00", f"{0:019d}٣")
SUFFIXES = (".index", ".log", ".snapshot", ".timeindex", ".txnindex")
WHOLE = st.sampled_from([(), SUFFIXES, SUFFIXES[:4], (".index", ".log", ".timeindex")])
OTHERS = ("leader-epoch-checkpoint", "partition.metadata", f"{0:020d}.log.deleted")
LEFTOVERS = (f"{0:020d}.log.swap", f"{0:020d}.log.cleaned", "0.log", "partition.metadata\n")


@st.composite
def listings(draw: st.DrawFn) -> list[str]:
    """Whole segments mostly, some of them not."""
    names = {offset + suffix for offset in OFFSETS[:2] for suffix in draw(WHOLE)}
    names ^= draw(st.sets(st.sampled_from([o + s for o in OFFSETS for s in SUFFIXES]), max_size=2))
    names |= draw(st.sets(st.sampled_from(OTHERS)))
    names |= draw(st.sets(st.sampled_from(LEFTOVERS), max_size=1))
    return sorted(names)


@given(names=listings())
def test_a_file_that_is_no_logs_changes_nothing(names: list[str]) -> None:
    """Names are looked at all at once if they are those of a whole log and no others, else one by
    one: both say the same.
    """
    stamps = {name: FileStamp(name, 0, 0, 0) for name in names}  # type: ignore[arg-type]
    alone = look_for_damage(stamps)
    assert alone == look_for_damage(stamps | {"zzz": FileStamp("zzz", 0, 0, 0)})  # type: ignore[arg-type]

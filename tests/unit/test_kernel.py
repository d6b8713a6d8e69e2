"""The digest that names the directory of compiled kernels covers whatever they are made of."""

from __future__ import annotations

from logwright.kernel import kernel_sources


def test_all_that_a_kernel_is_made_of_counts() -> None:
    """Kernels, what is inlined into them, and modules whose constants they use."""
    used = {"kernel", "compaction.keys.fill", "compaction.keys.siphash", "format.batch", "units"}
    assert used <= set(kernel_sources())


def test_what_no_kernel_imports_does_not_count() -> None:
    """An edit there compiles nothing anew."""
    others = {"ingest.commit", "compaction.build", "recovery.load", "cli.main"}
    assert others.isdisjoint(kernel_sources())

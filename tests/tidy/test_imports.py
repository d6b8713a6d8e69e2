"""Imports run one way, as docs/architecture.md draws it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

import pytest

from tests.tidy.trees import LINKED, Module, imports, modules, nodes

OPERATIONS = (
    "compaction",
    "purge",
    "roll",
    "retention",
    "recovery",
    "move",
    "ingest",
    "deletion",
    "undo",
)
"""Folders of the engine that hold one operation each; none knows another."""

LAYERS: tuple[tuple[str, ...], ...] = (
    (
        "logwright.units",
        "logwright.credentials",
        "logwright.errors",
        "logwright.durable",
        "logwright.extras",
        "logwright.intrinsics",
        "logwright.kernel",
        "logwright.kernel_compiler",
        "logwright.garbage",
        "logwright.times",
    ),
    ("logwright.format",),
    ("logwright.bucket",),
    ("logwright.place",),
    ("logwright.log",),
    ("logwright.batches",),
    ("logwright.running",),
    ("logwright.tier",),
    ("logwright.metadata",),
    (
        "logwright.config",
        "logwright.steps",
        "logwright.locks",
        "logwright.live_plans",
        "logwright.java",
        "logwright.cleaner_rules",
    ),
    ("logwright.state", "logwright.observe", "logwright.reading"),
    ("logwright.keys",),
    ("logwright.rewrite",),
    tuple(f"logwright.{operation}" for operation in OPERATIONS),
    (
        "logwright.checks",
        "logwright.forecast",
        "logwright.records",
        "logwright.decode",
        "logwright.upload",
    ),
    (
        "logwright.sweep",
        "logwright.verify",
        "logwright.latest",
        "logwright.maintenance",
        "logwright.rescue",
        "logwright.quorum",
        "logwright.offsets",
    ),
    ("logwright.audit",),
    ("logwright.erasure",),
    (
        "logwright.rolling",
        "logwright.spark",
        "logwright.history",
        "logwright.fleet",
        "logwright.metrics",
        "logwright.tables",
    ),
    ("logwright.resources",),
    ("logwright.assets",),
    ("logwright.pipelines",),
    ("logwright.demo",),
    ("logwright.cli",),
)
"""From the bottom up: a module may import from its own row and from rows above it here."""

ONLY_IN = {
    "dagster": ("logwright.assets", "logwright.resources", "logwright.pipelines"),
    "dagster_pyspark": ("logwright.resources",),
    "pyspark": ("logwright.spark", "logwright.resources", "logwright.assets"),
    "pandera": ("logwright.assets",),
    "great_expectations": ("logwright.assets",),
    "click": ("logwright.cli",),
    "obstore": ("logwright.bucket.store",),
    "jinja2": ("logwright.assets.fleet.page", "logwright.erasure.case.page"),
    "matplotlib": ("logwright.assets",),
    "prometheus_client": ("logwright.metrics",),
    "cryptography": ("logwright.erasure.certificate", "logwright.tier.encryption"),
    "confluent_kafka": (
        "logwright.ingest.broker",
        "logwright.rolling.cluster",
        "logwright.rolling.records",
    ),
    "fastavro": ("logwright.decode", "logwright.erasure.find.table_files"),
    "google.protobuf": ("logwright.decode",),
    "orjson": ("logwright.decode",),
    "re2": ("logwright.config.patterns",),
    "requests": ("logwright.decode",),
}
"""Where a library of the platform may be imported: the engine knows none of them."""

SHARED_WITH_CHECKS = {
    "logwright.compaction.model",
    "logwright.keys.offset_map",
    "logwright.keys.receipt",
    "logwright.purge.account",
    "logwright.retention.account",
    "logwright.rewrite.batch_receipt",
    "logwright.rewrite.model",
}
"""What the checks use of an operation: values and sums, but none of its rules."""

HANDED_OVER = {
    ("logwright.compaction.model", "logwright.roll.plan"): "a cleaning carries the roll before it",
}
"""The values that one operation takes from another, each with its reason."""

CIRCLES = {
    frozenset({"logwright.kernel", "logwright.kernel_compiler"}),
    frozenset({"logwright.config.policies", "logwright.config.table"}),
}
"""Modules that know each other: the compiler is imported when there is something to compile; the
others by an annotation. The list may only become shorter."""

FROM_COMPACTION = 60
"""Imports of `logwright.compaction` from outside. The figure may only fall."""


WAITING = {
    **{
        (f"logwright.cli.run.{command}", "logwright.cli.run.in_bucket"): "a bucket is of an extra"
        for command in ("inspect", "purge", "retain", "roll", "undo", "verify")
    },
    ("logwright.cli.run.archive", "logwright.cli.run.archive_in_bucket"): "a bucket is of an extra",
    ("logwright.cli.run.clean_in_bucket", "logwright.spark.session"): "seconds",
    ("logwright.cli.run.clean_in_bucket", "logwright.spark.sweep"): "seconds",
    ("logwright.cli.run.clean", "logwright.cli.run.clean_in_bucket"): "a bucket is of an extra",
    ("logwright.cli.options.common", "logwright.cli.call"): "a command's help needs no engine",
    (
        "logwright.cli.options.parameters",
        "logwright.place.named",
    ): "a command's help needs no engine",
    (
        "logwright.cli.options.parameters",
        "logwright.bucket.store",
    ): "a command's help needs no engine",
    ("logwright.cli.output", "logwright.cli.bar"): "only a terminal has progress bars",
    ("logwright.cli.run.clean", "logwright.spark.sweep"): "--engine spark is of an extra",
    ("logwright.cli.run.erase", "logwright.cli.run.erase_in_bucket"): "a bucket is of an extra",
    ("logwright.cli.run.dump", "logwright.cli.run.dump_follow"): "records are of an extra",
    ("logwright.cli.run.dump", "logwright.cli.run.dump_records"): "records are of an extra",
}
"""The imports of the command line that are inside functions, each with its reason."""


def engine() -> list[Module]:
    """The modules of the package; tests and scripts may import what they like of it."""
    return [module for module in modules() if module.name.split(".")[0] == "logwright"]


def within(name: str, packages: Iterable[str]) -> bool:
    """Whether a module is one of these packages or below one."""
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def layer(name: str) -> int | None:
    """The row of LAYERS that a module is in."""
    return next((row for row, packages in enumerate(LAYERS) if within(name, packages)), None)


def test_every_module_has_a_layer() -> None:
    """A new package must be put into a row before it is imported."""
    homeless = [m.name for m in engine() if layer(m.name) is None and m.name != "logwright"]
    assert homeless == []


def test_imports_run_one_way() -> None:
    """No module imports from a layer above its own."""
    wrong = []
    for module in engine():
        own = layer(module.name)
        for line, name in imports(module):
            other = layer(name)
            if own is not None and other is not None and other > own:
                wrong.append(f"{module.path}:{line} imports {name}")
    assert wrong == []


def circles() -> list[frozenset[str]]:
    """The modules that import each other, directly or by others, wherever the imports stand."""
    names = {module.name for module in engine()}
    graph = {
        module.name: {name for _, name in imported_modules(module, names)} for module in engine()
    }
    reached = {name: reachable(graph, name) for name in names}
    rings = {
        frozenset(other for other in reached[name] if name in reached[other]) for name in names
    }
    return sorted((ring for ring in rings if len(ring) > 1), key=sorted)


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    """What a module imports, directly or by others."""
    seen: set[str] = set()
    pending = [start]
    while pending:
        following = graph[pending.pop()] - seen
        seen |= following
        pending += following
    return seen


def imported_modules(module: Module, names: set[str]) -> Iterator[tuple[int, str]]:
    """Every module of the package that a module imports; of `from package import module` this."""
    for node in nodes(module):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name in names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                within_package = f"{node.module}.{alias.name}"
                name = within_package if within_package in names else node.module
                if name in names:
                    yield node.lineno, name


def test_no_module_imports_itself_by_others() -> None:
    """There are no circles, not even of annotations, but the known ones; none may be added."""
    assert [] == [sorted(ring) for ring in circles() if ring not in CIRCLES]


def test_what_is_imported_from_compaction() -> None:
    """Others take of a compaction its plan and little more; what they share is below it."""
    lines = [
        f"{module.path}:{line} imports {name}"
        for module in engine()
        if not within(module.name, ["logwright.compaction"])
        for line, name in imports(module)
        if within(name, ["logwright.compaction"])
    ]
    assert len(lines) <= FROM_COMPACTION, lines


def test_operations_do_not_know_each_other() -> None:
    """One operation imports nothing of another but what HANDED_OVER names."""
    wrong = []
    packages = [f"logwright.{operation}" for operation in OPERATIONS]
    for module in engine():
        own = [package for package in packages if within(module.name, [package])]
        for line, name in imports(module):
            foreign = within(name, set(packages) - set(own))
            if own and foreign and (module.name, name) not in HANDED_OVER:
                wrong.append(f"{module.path}:{line} imports {name}")
    assert wrong == []


def test_checks_have_rules_of_their_own() -> None:
    """A check that used a rule of the operation would repeat its fault."""
    judged = [f"logwright.{name}" for name in (*OPERATIONS, "cleaner_rules", "keys", "rewrite")]
    wrong = [
        f"{module.path}:{line} imports {name}"
        for module in engine()
        if within(module.name, ["logwright.checks"])
        for line, name in imports(module)
        if within(name, judged) and name not in SHARED_WITH_CHECKS
    ]
    assert wrong == []


def test_the_command_line_imports_at_the_top() -> None:
    """Its options import nothing of what commands do, and WAITING are all that wait for a call."""
    cli = [module for module in engine() if within(module.name, ["logwright.cli"])]
    inside = {
        (module.name, node.module)
        for module in cli
        for function in nodes(module)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom)
    }
    assert set(WAITING) == inside
    wrong = [
        f"{module.path}:{line} imports {name}"
        for module in cli
        if within(module.name, ["logwright.cli.options"])
        for line, name in imports(module)
        if within(name, ["logwright.cli.run"])
    ]
    assert [] == wrong


@pytest.mark.parametrize("library", ONLY_IN)
def test_platform_libraries_stay_in_their_place(library: str) -> None:
    """Dagster, Spark and the quality libraries are around the engine, never inside it."""
    wrong = [
        f"{module.path}:{line} imports {name}"
        for module in engine()
        if not within(module.name, ONLY_IN[library])
        for line, name in imports(module)
        if within(name, [library])
    ]
    assert wrong == []


def test_linked_folders_are_imported_by_one_name() -> None:
    """`import assets` from the root would make every module of it twice."""
    wrong = [
        f"{module.path}:{line} imports {name}"
        for module in modules()
        for line, name in imports(module)
        if within(name, [*LINKED, "dbt_like_configs"])
    ]
    assert wrong == []


def test_the_engine_does_not_import_its_tests() -> None:
    """What is installed must not need what is not."""
    wrong = [
        f"{module.path}:{line}"
        for module in engine()
        for line, name in imports(module)
        if within(name, ["tests", "benchmarks"])
    ]
    assert wrong == []

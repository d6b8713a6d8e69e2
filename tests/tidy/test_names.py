"""A variable has the name of what it is: `hit`, `file`, `segment`, never a bare pronoun."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.trees import modules

PRONOUNS = frozenset(("one", "found", "said", "asked"))

_SHORT = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)


def pronouns(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of each pronoun that is assigned, looped over or an argument. A comprehension
    or lambda of one line may have them; so may a class, whose fields are read with their owner.
    """
    pending: list[tuple[ast.AST, bool]] = [(tree, False)]
    while pending:
        node, is_class = pending.pop()
        if isinstance(node, _SHORT) and node.lineno == node.end_lineno:
            continue
        if isinstance(node, ast.arg):
            name = node.arg
        else:
            is_set = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            name = node.id if is_set and not is_class else ""
        if name in PRONOUNS:
            yield node.lineno, name
        inside = isinstance(node, ast.ClassDef) or (is_class and isinstance(node, ast.AnnAssign))
        pending += [(child, inside) for child in ast.iter_child_nodes(node)]


def test_no_variable_is_a_pronoun() -> None:
    """`for one in found` says nothing of what is there."""
    wrong = [
        f"{module.path}:{line} {name}"
        for module in modules()
        for line, name in pronouns(module.tree)
    ]
    assert [] == wrong


def test_pronouns_are_seen() -> None:
    """As targets and arguments, not in one line of a comprehension, nor as a field."""
    text = """
class Fields:
    found: int
def f(one, *, asked=1):
    found = [one for one in asked]
    for said, (other, one) in asked:
        key = lambda one: one
    return [
        one for one in found]
"""
    expected = [(4, "asked"), (4, "one"), (5, "found"), (6, "one"), (6, "said"), (9, "one")]
    assert expected == sorted(pronouns(ast.parse(text)))

"""Files and functions stay small enough to be read at once."""

from __future__ import annotations

import ast

from tests.tidy.trees import modules, nodes

FILE_LINES = 700
"""A file of one idea may be long; its functions may not."""
FUNCTION_LINES = 60


def test_files_are_short() -> None:
    """No Python file is longer than 700 lines."""
    long = {str(m.path): lines for m in modules() if (lines := m.text.count("\n")) > FILE_LINES}
    assert long == {}


def test_functions_are_short() -> None:
    """No function is longer than 60 lines, docstring included."""
    long = [
        f"{module.path}:{node.lineno} {node.name}"
        for module in modules()
        for node in nodes(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > FUNCTION_LINES
    ]
    assert long == []

"""The outputs of a graph asset of one op that makes the asset and its checks."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import dagster as dg

RESULT: Final = "result"
"""The output of an asset's op that is the asset; the others are its checks."""


def check_specs(asset: dg.AssetKey, checks: Mapping[str, str]) -> list[dg.AssetCheckSpec]:
    """Return the specs of checks that an asset's own step makes. `checks`: name → description."""
    return [
        dg.AssetCheckSpec(name, asset=asset, description=description)
        for name, description in checks.items()
    ]


def op_outputs(checks: Iterable[str]) -> dict[str, dg.Out]:
    """Return the outputs of an op that makes an asset and its checks."""
    return {RESULT: dg.Out(dg.Nothing), **{check: dg.Out(dg.Nothing) for check in checks}}


def checks_made(checks: Iterable[str]) -> Iterator[dg.Output[None]]:
    """Yield the outputs of an op's checks: it has said what it had to say."""
    return (dg.Output(None, check) for check in checks)


def asset_outputs(asset: dg.AssetKey, checks: Iterable[str], made: Any) -> dict[str, Any]:  # noqa: ANN401 - of the composition
    """Return the outputs of a graph asset of one op with `op_outputs`."""
    prefix = asset.to_python_identifier()
    return {RESULT: getattr(made, RESULT)} | {
        f"{prefix}_{check}": getattr(made, check) for check in checks
    }

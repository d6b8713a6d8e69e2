"""What a format of keys and values is to the policies: a spec with options.

A new format is a subclass of `Spec` with `decoded_by`, in `logwright.config.decoding`, and the
module that it names: policies, ``--decode``, ``logwright latest`` and `make_decoder` have it then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Annotated, ClassVar, Final, Literal, NamedTuple, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    SerializeAsAny,
)

from logwright.config.marked import Entries, Marked, Text
from logwright.config.policy_checks import Checker

FORMAT: Final = "format"
_FILES: Final = {"schema_file": "file", "schemas": "directory"}
"""Options that are paths, and what is there."""
FROZEN: Final = ConfigDict(frozen=True, extra="forbid")


def _path(text: str) -> str:
    if "\0" in text:
        raise ValueError("not a path")
    if ".." in PurePosixPath(text).parts:
        raise ValueError("must stay inside the directory of the policies, or be an absolute path")
    return text


SpecPath = Annotated[str, Field(min_length=1, max_length=4096), AfterValidator(_path)]
"""A path relative to the directory of the policies, or absolute."""


class Option(NamedTuple):
    """An option of a spec that is read in a way of its own.

    Attributes:
        field: of the spec.
        read: returns its value, None if it is not valid, which is reported.
    """

    field: str
    read: Callable[[Checker, Marked], object]


class Spec(BaseModel):
    """How keys or values are decoded, by one format or several.

    Attributes:
        made_by: the module whose `make` makes the decoder, see `logwright.decode.make`.
        use: a key or a value alone; only a value; key and value together.
        options: those that are read in a way of their own.
        format: the name, which is a Literal in each subclass.
    """

    model_config = FROZEN
    made_by: ClassVar[str]
    use: ClassVar[Literal["part", "value", "together"]] = "part"
    options: ClassVar[Mapping[str, Option]] = MappingProxyType({})
    format: str


_Spec = TypeVar("_Spec", bound=Spec)

FORMATS: Final[dict[str, type[Spec]]] = {}
"""Format → its spec: all that `decoded_by` has registered."""


def decoded_by(module: str) -> Callable[[type[_Spec]], type[_Spec]]:
    """Register the formats of a spec, whose decoders a module makes. It is imported when one is
    made: policies are read without the libraries of decoders.
    """

    def register(spec: type[_Spec]) -> type[_Spec]:
        spec.made_by = module
        FORMATS.update(dict.fromkeys(get_args(spec.model_fields[FORMAT].annotation), spec))
        return spec

    return register


def _of_format(value: object) -> Spec:
    if isinstance(value, Spec):
        return value
    model = FORMATS.get(str(value.get(FORMAT))) if isinstance(value, Mapping) else None
    if model is None:
        raise ValueError(f"must have a format: one of {', '.join(sorted(FORMATS))}")
    return model.model_validate(value)


DecoderSpec = Annotated[SerializeAsAny[Spec], PlainValidator(_of_format)]
"""A spec of any format."""


def read_spec(
    checker: Checker, node: Marked, formats: Collection[str] | None = None
) -> Spec | None:
    """Return the spec of a word or mapping, None if it is not valid; the problems are reported to
    the checker. Effects: looks whether the files are there.
    """
    if isinstance(node, Text):
        node = Entries(node.mark, {FORMAT: (node.mark, node)}, node.setting)
    formats = FORMATS if formats is None else formats
    node = checker.mapping(node)
    if not node.whole:
        return None
    (_, named) = node.entries.get(FORMAT, (None, None))
    if named is None:
        checker.report(node, "is required", setting=node.path_of(FORMAT), value=False)
        return None
    if not isinstance(named, Text) or named.text not in formats:
        checker.report(named, f"must be one of {', '.join(sorted(formats))}")
        return None
    model = FORMATS[str(named.text)]
    given = {name: one for name, one in model.options.items() if name in node.entries}
    fields = {field: read(checker, node.entries[name][1]) for name, (field, read) in given.items()}
    spec = checker.model(model, node.without(*given))
    has_files = _has_its_files(checker, node)
    if spec is None or None in fields.values() or not has_files:
        return None
    return spec.model_copy(update=fields)


def resolve(base: Path, path: str) -> Path:
    """Return the place of a path of a spec. Effects: reads links.

    Args:
        base: the directory of the policies.
        path: of the spec.

    Raises:
        ValueError: a relative path leads outside of it.
    """
    if PurePosixPath(path).is_absolute():
        return Path(path)
    resolved = (base / path).resolve()
    if not resolved.is_relative_to(base.resolve()):
        raise ValueError("must stay inside the directory of the policies, or be an absolute path")
    return resolved


def with_paths(spec: Spec, base: Path) -> Spec:
    """Return a spec whose paths are absolute. Pure.

    Args:
        base: what they are relative to.
    """
    changes: dict[str, object] = {}
    for name, value in spec:
        if isinstance(value, Spec):
            changes[name] = with_paths(value, base)
        elif name in _FILES and isinstance(value, str):
            changes[name] = str(base.absolute() / value)
    return spec.model_copy(update=changes)


def _has_its_files(checker: Checker, node: Entries) -> bool:
    """Return whether the files of a spec are there. Effects: looks for them."""
    complete = True
    for name, kind in _FILES.items():
        (_, value) = node.entries.get(name, (None, None))
        if not isinstance(value, Text) or value.text is None:
            continue
        try:
            place = resolve(node.mark.path.parent, value.text)
        except (OSError, RuntimeError):
            place, rule = None, "cannot be read"
        except ValueError as error:
            place, rule = None, str(error)
        if place is not None:
            rule = f"is not a {kind}"
            if place.is_file() if kind == "file" else place.is_dir():
                continue
        checker.report(value, rule)
        complete = False
    return complete

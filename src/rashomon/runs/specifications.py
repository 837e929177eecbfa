"""Which work is meant? Specifications as typed dataclasses, as plain JSON, and as a short key.

A specification is a frozen dataclass made of numbers, strings, tuples, mappings and further dataclasses. It
is the same object from Python, TOML and the command line: ``from_plain`` builds it from parsed JSON or TOML
and ``to_plain`` takes it apart again. ``key`` hashes it, together with the version of the library, so that
equal work has an equal name.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import math
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeVar, Union

import numpy as np

from rashomon.errors import UserError, unknown_name

T = TypeVar("T")
Plain = Any  # None, bool, int, float, str, and lists and string-keyed dicts of these

TAG = "type"  # names the class of a dataclass where the annotation leaves it open
_WORDS: dict[Any, str] = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


def key(specification: object) -> str:
    """Twenty hexadecimal digits that stand for this work done by this version of the library.

    Paths count by the content they lead to, not by their names.
    """
    document = {"rashomon": version("rashomon"), "specification": _plain(specification, Any, content_hash)}
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def to_plain(value: object) -> Plain:
    """Dataclasses, tuples and mappings as JSON types; paths as strings.

    A dataclass says its class under ``"type"`` where it stands for a base class or one side of a union.
    """
    return _plain(value, type(value), str)


def from_plain(cls: type[T], data: Plain) -> T:
    """The inverse of ``to_plain``; unknown, missing and wrongly typed fields are a ``UserError``."""
    built: T = _build(cls, data, "")
    return built


def content_hash(path: Path) -> Plain:
    """A file's hash, or the hashes of a folder's files by their names."""
    try:
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.is_file())
            return {file.relative_to(path).as_posix(): content_hash(file) for file in inside}
        status = path.stat()
        return _file_hash(path.resolve(), status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror or error}.") from error


@lru_cache(maxsize=1024)  # a vector file is named by many specifications; size and time tell when it changed
def _file_hash(path: Path, size: int, modified: int) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


# ---- taking apart


def _plain(value: object, annotation: Any, path: Callable[[Path], Plain]) -> Plain:
    """``annotation`` is what the place of the value declares; it decides about tags and about 1 or 1.0."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return float(value) if _takes_only_floats(annotation) else int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise UserError(f"A specification cannot hold the number {value}; give a finite one.")
        return float(value) + 0.0  # minus zero equals zero, so it must have the same key
    if isinstance(value, Path):
        return path(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain_dataclass(value, annotation, path)
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise TypeError("the names in a specification's mapping must be strings")
        inner = _mapping_values(annotation)
        return {name: _plain(item, inner, path) for name, item in value.items()}
    if isinstance(value, tuple | list):
        inners = _item_types(annotation, len(value))
        return [_plain(item, inner, path) for item, inner in zip(value, inners, strict=True)]
    raise TypeError(f"a specification cannot hold a {type(value).__name__}")


def _plain_dataclass(value: Any, annotation: Any, path: Callable[[Path], Plain]) -> dict[str, Plain]:
    hints = typing.get_type_hints(type(value))
    fields = [field.name for field in dataclasses.fields(value) if field.init]
    plain = {name: _plain(getattr(value, name), hints[name], path) for name in fields}
    if _declared_classes(annotation) == [type(value)]:
        return plain
    if TAG in plain:
        raise TypeError(
            f"{type(value).__name__} has a field {TAG!r}, which is needed for the name of its class"
        )
    return {TAG: type(value).__name__, **plain}


# ---- putting together


def _build(annotation: Any, data: Plain, where: str) -> Any:
    """``where`` is the way to this value, such as ``training.optimizer``, for the messages."""
    members = _members(annotation)
    if len(members) > 1:
        return _build_union(members, data, where)
    if annotation is Any or annotation is object:
        return _freeze(data)
    if annotation is type(None):
        if data is not None:
            raise _wrong(where, "left out", data)
        return None
    origin = typing.get_origin(annotation) or annotation
    if origin is Literal:
        return _build_literal(typing.get_args(annotation), data, where)
    if _is_class(origin):
        return _build_dataclass([origin], data, where)
    if origin is tuple or origin is Sequence:
        return _build_tuple(annotation, data, where)
    if origin is dict or origin is Mapping:
        if not isinstance(data, Mapping):
            raise _wrong(where, "a table of named values", data)
        inner = _mapping_values(annotation)
        return {name: _build(inner, item, _join(where, name)) for name, item in data.items()}
    return _build_scalar(annotation, data, where)


def _build_scalar(annotation: Any, data: Plain, where: str) -> Any:
    if annotation is Path:
        if not isinstance(data, str | Path):
            raise _wrong(where, "a path", data)
        return Path(data)
    if annotation not in _WORDS:
        raise TypeError(f"{where or 'a specification'}: fields of type {annotation} are not supported")
    accepted = (int, float) if annotation is float else (annotation,)
    if not isinstance(data, accepted) or (isinstance(data, bool) and annotation is not bool):
        raise _wrong(where, _WORDS[annotation], data)
    if annotation is float and not abs(data) <= sys.float_info.max:  # nor may an integer be too large for one
        raise _wrong(where, "a finite number", data)
    return annotation(data)


def _build_literal(choices: tuple[Any, ...], data: Plain, where: str) -> Any:
    for choice in choices:  # 1, 1.0 and True are equal, but not the same choice
        if type(choice) is type(data) and choice == data:
            return choice
    if isinstance(data, str) and all(isinstance(choice, str) for choice in choices):
        raise unknown_name(f"value of {where or 'the specification'}", data, choices)
    raise _wrong(where, "one of " + ", ".join(map(repr, choices)), data)


def _build_tuple(annotation: Any, data: Plain, where: str) -> tuple[Any, ...]:
    if not isinstance(data, list | tuple):
        raise _wrong(where, "a list", data)
    arguments = typing.get_args(annotation)
    if typing.get_origin(annotation) is tuple and Ellipsis not in arguments and len(arguments) != len(data):
        raise _wrong(where, f"a list of {len(arguments)}", data)
    inners = _item_types(annotation, len(data))
    return tuple(
        _build(inner, item, f"{where}[{index}]")
        for index, (inner, item) in enumerate(zip(inners, data, strict=True))
    )


def _build_union(members: list[Any], data: Plain, where: str) -> Any:
    classes = [member for member in members if _is_class(member)]
    if isinstance(data, Mapping) and classes:
        return _build_dataclass(classes, data, where)
    others = [member for member in members if member not in classes]
    # int before float and text before path, whatever the order, so that 1 stays 1
    for member in sorted(others, key=lambda member: member in (float, Path)):
        with suppress(UserError):
            return _build(member, data, where)
    meant = [member for member in members if member is not type(None)]
    if len(meant) == 1:  # an optional value: the reason why it does not fit its one type says most
        return _build(meant[0], data, where)
    raise UserError(f"{where or 'The specification'}: {data!r} fits none of the types it may have.")


def _build_dataclass(declared: list[type], data: Plain, where: str) -> Any:
    if not isinstance(data, Mapping):
        raise _wrong(where, "a table of named values", data)
    cls = _choose_class(declared, data, where)
    hints = typing.get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}
    given = {name: item for name, item in data.items() if name in fields or name != TAG}
    for name in given:
        if name not in fields:
            raise unknown_name(f"field of {where or cls.__name__}", name, fields)
    for name, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and name not in given:
            raise UserError(f"{_join(where, name)} is missing; {cls.__name__} needs it.")
    return cls(**{name: _build(hints[name], item, _join(where, name)) for name, item in given.items()})


def _choose_class(declared: list[type], data: Mapping[str, Plain], where: str) -> Any:
    """The class that the tag names, of the declared ones and their subclasses; untagged, the declared one."""
    known = {
        cls.__name__: cls
        for base in declared
        for cls in _with_subclasses(base)
        if dataclasses.is_dataclass(cls) and not inspect.isabstract(cls)
    }
    only = known.get(declared[0].__name__) if len(declared) == 1 else None
    if only is not None and (TAG not in data or TAG in {field.name for field in dataclasses.fields(only)}):
        return only
    name = data.get(TAG)
    if not isinstance(name, str):
        raise UserError(f"{_join(where, TAG)} must say which of {', '.join(sorted(known))} is meant.")
    if name not in known:
        raise unknown_name(f"type of {where or 'specification'}", name, known)
    return known[name]


# ---- reading annotations


def _members(annotation: Any) -> list[Any]:
    if typing.get_origin(annotation) in (Union, types.UnionType):
        return list(typing.get_args(annotation))
    return [annotation]


def _is_class(annotation: Any) -> bool:
    """A dataclass, or a base class of dataclasses."""
    if not isinstance(annotation, type) or annotation in (
        object,
        tuple,
        dict,
        Mapping,
        Sequence,
        Path,
        *_WORDS,
    ):
        return False
    return any(map(dataclasses.is_dataclass, _with_subclasses(annotation)))


def _declared_classes(annotation: Any) -> list[type]:
    return [member for member in _members(annotation) if _is_class(member)]


def _with_subclasses(cls: type) -> Iterator[type]:
    yield cls
    children: list[type] = cls.__subclasses__()
    for child in children:
        yield from _with_subclasses(child)


def _takes_only_floats(annotation: Any) -> bool:
    """Python lets an int stand for a float; 1 and 1.0 are then the same specification."""
    members = _members(annotation)
    return float in members and int not in members


def _item_types(annotation: Any, length: int) -> list[Any]:
    for member in _members(annotation):
        if (typing.get_origin(member) or member) not in (tuple, Sequence):
            continue
        arguments = [argument for argument in typing.get_args(member) if argument is not Ellipsis]
        if len(arguments) == length and typing.get_origin(member) is tuple:
            return arguments
        if len(arguments) == 1:
            return arguments * length
    return [Any] * length


def _mapping_values(annotation: Any) -> Any:
    for member in _members(annotation):
        if typing.get_origin(member) in (dict, Mapping):
            return typing.get_args(member)[1]
    return Any


# ---- small things


def _freeze(data: Plain) -> Any:
    """Values of open type: lists become tuples, as everywhere in a frozen specification."""
    if isinstance(data, list | tuple):
        return tuple(_freeze(item) for item in data)
    if isinstance(data, Mapping):
        return {name: _freeze(item) for name, item in data.items()}
    return data


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _wrong(where: str, expected: str, data: Plain) -> UserError:
    return UserError(f"{where or 'The specification'} must be {expected}, not {data!r}.")

"""Descriptors of messages: from a descriptor set, or from the text of a registry's schema."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from frazil.core.errors import InvalidConfig, InvalidInput
from frazil.stream.decode.protobuf_text import parse_proto

_NAMES = (
    "any",
    "api",
    "descriptor",
    "duration",
    "empty",
    "field_mask",
    "source_context",
    "struct",
    "timestamp",
    "type",
    "wrappers",
)
#: Files that every Protobuf installation has.
_WELL_KNOWN = {f"google/protobuf/{name}.proto": f"google.protobuf.{name}_pb2" for name in _NAMES}
#: The file of the schema itself, whose name registries do not keep.
_MAIN = "frazil/schema.proto"
_MAX_FILES = 1_000


def message_of_set(data: bytes, name: str) -> Descriptor:
    """The message of that full name in a serialized FileDescriptorSet; InvalidConfig if it is not there."""
    try:
        files = FileDescriptorSet.FromString(data).file
    except DecodeError:
        raise InvalidConfig(
            "`descriptors` is no serialized FileDescriptorSet; make one with "
            "`protoc --include_imports --descriptor_set_out=FILE`"
        ) from None
    try:
        return _pool(files).FindMessageTypeByName(name.removeprefix("."))
    except InvalidInput as problem:
        raise InvalidConfig(f"`descriptors` cannot be used: {problem.message}") from None
    except KeyError:
        names = sorted(_names(files))
        raise InvalidConfig(
            f"`descriptors` has no message '{name}'; there are: {', '.join(names[:20])}"
        ) from None


def message_of_text(text: str, references: Mapping[str, str], path: Sequence[int]) -> Descriptor:
    """A message of a .proto text by its place: the number of a message in the file, of one nested in it, ….

    InvalidInput if the text is not understood, or has no such message.
    """
    main = parse_proto(text, _MAIN)
    files = [parse_proto(one, name) for name, one in references.items()]
    place: Any = main.message_type
    name = main.package
    for index in path:
        if not 0 <= index < len(place):
            raise InvalidInput(f"the schema has no message at place {list(path)}")
        name = f"{name}.{place[index].name}" if name else place[index].name
        place = place[index].nested_type
    return _pool([*files, main]).FindMessageTypeByName(name)


def _pool(files: Iterable[FileDescriptorProto]) -> DescriptorPool:
    """Files in any order. An import that is not there is left out: it may have held options only."""
    waiting = {file.name: file for file in files}
    if len(waiting) > _MAX_FILES:
        raise InvalidInput(f"a schema of more than {_MAX_FILES} files")
    pool = DescriptorPool()
    done: set[str] = set()

    def add(name: str, above: tuple[str, ...]) -> None:
        if name in done:
            return
        if name in above:
            raise InvalidInput(f"'{name}' imports itself, by way of {', '.join(above)}")
        file = waiting.get(name) or _well_known(name)
        if file is None:
            return
        for dependency in file.dependency:
            add(dependency, (*above, name))
        done.add(name)
        _add(pool, file, done)

    for name in waiting:
        add(name, ())
    return pool


def _add(pool: DescriptorPool, file: FileDescriptorProto, there: set[str]) -> None:
    kept = FileDescriptorProto.FromString(file.SerializeToString())
    del kept.dependency[:], kept.public_dependency[:], kept.weak_dependency[:]
    for place, name in enumerate(file.dependency):
        if name in there:
            if place in file.public_dependency:
                kept.public_dependency.append(len(kept.dependency))
            kept.dependency.append(name)
    missing = [name for name in file.dependency if name not in there]
    try:
        pool.Add(kept)
        pool.FindFileByName(kept.name)
    except (TypeError, KeyError, ValueError) as problem:
        hint = f" (not there: {', '.join(missing)})" if missing else ""
        raise InvalidInput(f"'{file.name}' is no valid Protobuf file: {problem}{hint}") from None


def _well_known(name: str) -> FileDescriptorProto | None:
    module = _WELL_KNOWN.get(name)
    if module is None:
        return None
    return FileDescriptorProto.FromString(importlib.import_module(module).DESCRIPTOR.serialized_pb)


def _names(files: Iterable[FileDescriptorProto]) -> Iterable[str]:
    for file in files:
        for message in file.message_type:
            yield f"{file.package}.{message.name}" if file.package else message.name

"""The text of a .proto file (proto2, proto3) as a file descriptor; registries keep Protobuf schemas as text.

Only what decides how messages stand on the wire and what their fields are called is read: options, services,
extensions and reserved numbers are stepped over. Names of types stay as they are written; the descriptor pool
resolves them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from frazil.core.errors import InvalidInput

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*|/\*.*?\*/)
  | (?P<word>\.?[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)
  | (?P<number>\.?[0-9](?:[eE][+-]|[A-Za-z0-9_.])*)
  | (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
  | (?P<mark>[{}\[\]()<>=;:,/+-])
    """,
    re.VERBOSE | re.DOTALL,
)
_NAMES = (
    "double float int32 int64 uint32 uint64 sint32 sint64 fixed32 fixed64 sfixed32 sfixed64 bool string bytes"
)
_SCALARS = {name: getattr(FieldDescriptorProto, f"TYPE_{name.upper()}") for name in _NAMES.split()}
_LABELS = {
    "optional": FieldDescriptorProto.LABEL_OPTIONAL,
    "required": FieldDescriptorProto.LABEL_REQUIRED,
    "repeated": FieldDescriptorProto.LABEL_REPEATED,
}
_OPENING = {"{": "}", "[": "]", "(": ")", "<": ">"}
_MAX_DEPTH = 32


def parse_proto(text: str, name: str) -> FileDescriptorProto:
    """InvalidInput, with the line, if it is none."""
    return _Parser(text, name).file()


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    at: int


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            yield _Token("wrong", text[at], at)
            return
        if match.lastgroup != "space":
            yield _Token(str(match.lastgroup), match[0], at)
        at = match.end()
    yield _Token("end", "", at)


class _Parser:
    def __init__(self, text: str, name: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text.removeprefix("\ufeff")))
        self._at = 0
        self._file = FileDescriptorProto(name=name)
        self._proto3 = False

    def file(self) -> FileDescriptorProto:
        statements: dict[str, Callable[[], None]] = {
            "syntax": self._syntax,
            "edition": self._edition,
            "import": self._import,
            "package": self._package,
            "message": lambda: self._message(self._file.message_type.add(), 1),
            "enum": lambda: self._enum(self._file.enum_type.add()),
            "option": self._skip_statement,
            "extend": self._skip_statement,
            "service": self._skip_statement,
        }
        while self._next.kind != "end":
            if not self._took(";"):
                statement = statements.get(self._next.text)
                if statement is None:
                    self._wrong("a statement (syntax, package, import, message, enum, …)")
                self._at += 1
                statement()
        return self._file

    def _syntax(self) -> None:
        self._take("=")
        found = self._string()
        if found not in ("proto2", "proto3"):
            raise InvalidInput(f"syntax '{found}' of a .proto file is not known; there are proto2 and proto3")
        self._proto3 = found == "proto3"
        self._file.syntax = found
        self._take(";")

    def _edition(self) -> None:
        raise InvalidInput(
            "a .proto file with `edition` cannot be read from its text; register it with syntax proto3, or "
            "set `descriptors` to a file made by `protoc --include_imports --descriptor_set_out`"
        )

    def _import(self) -> None:
        public = self._took("public")
        if not public:
            self._took("weak")
        if public:
            self._file.public_dependency.append(len(self._file.dependency))
        self._file.dependency.append(self._string())
        self._take(";")

    def _package(self) -> None:
        self._file.package = self._word()
        self._take(";")

    def _message(self, message: DescriptorProto, depth: int) -> None:
        message.name = self._name()
        self._body(message, depth)

    def _body(self, message: DescriptorProto, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise InvalidInput(f"messages of a .proto file are nested more than {_MAX_DEPTH} deep")
        statements: dict[str, Callable[[], None]] = {
            "message": lambda: self._message(message.nested_type.add(), depth + 1),
            "enum": lambda: self._enum(message.enum_type.add()),
            "oneof": lambda: self._oneof(message, depth),
        } | dict.fromkeys(("option", "extend", "extensions", "reserved"), self._skip_statement)
        self._take("{")
        while not self._took("}"):
            if self._took(";"):
                continue
            statement = statements.get(self._next.text)
            if statement is not None:
                self._at += 1
                statement()
            else:
                self._field(message, depth)
        self._synthetic_oneofs(message)

    def _field(self, message: DescriptorProto, depth: int, oneof: int | None = None) -> None:
        label = None
        if oneof is None and self._next.text in _LABELS and self._peek(1).text != "=":
            label = self._word()
        if self._next.text == "map" and self._peek(1).text == "<":
            self._map(message)
            return
        field = message.field.add(label=_LABELS[label or "optional"])
        if oneof is not None:
            field.oneof_index = oneof
        if label == "optional" and self._proto3:
            field.proto3_optional = True
        if self._next.text == "group" and self._peek(2).text == "=":
            self._group(message, field, depth)
            return
        self._type(field)
        self._numbered(field)

    def _type(self, field: FieldDescriptorProto) -> None:
        word = self._word()
        if word in _SCALARS:
            field.type = _SCALARS[word]
        else:
            field.type_name = word

    def _numbered(self, field: FieldDescriptorProto) -> None:
        field.name = self._name()
        self._take("=")
        field.number = self._number(1, 2**29 - 1)
        if self._next.text == "[":
            self._skip_brackets()
        self._take(";")

    def _group(self, message: DescriptorProto, field: FieldDescriptorProto, depth: int) -> None:
        self._at += 1
        inner = message.nested_type.add(name=self._name())
        self._take("=")
        field.number = self._number(1, 2**29 - 1)
        field.name = inner.name.lower()
        field.type, field.type_name = FieldDescriptorProto.TYPE_GROUP, inner.name
        if self._next.text == "[":
            self._skip_brackets()
        self._body(inner, depth + 1)

    def _map(self, message: DescriptorProto) -> None:
        self._at += 2
        entry = message.nested_type.add()
        entry.options.map_entry = True
        self._type(entry.field.add(name="key", number=1, label=_LABELS["optional"]))
        self._take(",")
        self._type(entry.field.add(name="value", number=2, label=_LABELS["optional"]))
        self._take(">")
        field = message.field.add(label=_LABELS["repeated"], type=FieldDescriptorProto.TYPE_MESSAGE)
        self._numbered(field)
        words = field.name.split("_")
        entry.name = field.type_name = "".join(word[:1].upper() + word[1:] for word in words) + "Entry"

    def _oneof(self, message: DescriptorProto, depth: int) -> None:
        index = len(message.oneof_decl)
        message.oneof_decl.add(name=self._name())
        self._take("{")
        while not self._took("}"):
            if self._next.text == "option":
                self._skip_statement()
            elif not self._took(";"):
                self._field(message, depth, index)

    def _synthetic_oneofs(self, message: DescriptorProto) -> None:
        """Each `optional` of proto3 is the one member of a oneof, behind the real ones."""
        for field in message.field:
            if field.proto3_optional:
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")

    def _enum(self, enum: EnumDescriptorProto) -> None:
        enum.name = self._name()
        self._take("{")
        while not self._took("}"):
            if self._took(";"):
                continue
            if self._next.text in ("option", "reserved"):
                self._skip_statement()
                continue
            value = enum.value.add(name=self._name())
            self._take("=")
            value.number = self._number(-(2**31), 2**31 - 1)
            if self._next.text == "[":
                self._skip_brackets()
            self._take(";")
        if len({value.number for value in enum.value}) < len(enum.value):
            enum.options.allow_alias = True

    def _skip_statement(self) -> None:
        """Up to its semicolon, or the brace that closes it."""
        while not self._took(";"):
            if self._next.text in _OPENING:
                braces = self._next.text == "{"
                self._skip_brackets()
                if braces:
                    self._took(";")
                    return
            elif self._next.kind in ("end", "wrong") or self._next.text in _OPENING.values():
                self._wrong("';'")
            else:
                self._at += 1

    def _skip_brackets(self) -> None:
        """Angle brackets are only such inside of others: they also stand in no pairs."""
        closing = [_OPENING[self._next.text]]
        self._at += 1
        while closing:
            token = self._next
            if token.kind in ("end", "wrong"):
                self._wrong(f"'{closing[-1]}'")
            self._at += 1
            if token.kind == "mark" and token.text in "{[(":
                closing.append(_OPENING[token.text])
            elif token.kind == "mark" and token.text in "}])>" and token.text == closing[-1]:
                closing.pop()

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _peek(self, ahead: int) -> _Token:
        return self._tokens[min(self._at + ahead, len(self._tokens) - 1)]

    def _took(self, text: str) -> bool:
        if self._next.text != text or self._next.kind == "text":
            return False
        self._at += 1
        return True

    def _take(self, text: str) -> None:
        if not self._took(text):
            self._wrong(f"'{text}'")

    def _word(self) -> str:
        token = self._next
        if token.kind != "word":
            self._wrong("a name")
        self._at += 1
        return token.text

    def _name(self) -> str:
        if "." in self._next.text:
            self._wrong("a name without dots")
        return self._word()

    def _number(self, least: int, most: int) -> int:
        sign = -1 if self._took("-") else 1
        token = self._next
        try:
            digits = token.text
            octal = len(digits) > 1 and digits.isdigit() and digits[0] == "0"
            found = sign * int(digits, 8 if octal else 0)
        except ValueError:
            self._wrong("a number")
        if token.kind != "number" or not least <= found <= most:
            self._wrong(f"a number from {least} to {most}")
        self._at += 1
        return found

    def _string(self) -> str:
        parts = []
        while self._next.kind == "text":
            parts.append(self._next.text[1:-1])
            self._at += 1
        if not parts:
            self._wrong("a text in quotes")
        return "".join(parts)

    def _wrong(self, expected: str) -> NoReturn:
        token = self._next
        line = self._text.count("\n", 0, token.at) + 1
        found: Any = f"'{token.text[:40]}'" if token.text else "its end"
        raise InvalidInput(f"line {line} of a .proto file: found {found}, expected {expected}")

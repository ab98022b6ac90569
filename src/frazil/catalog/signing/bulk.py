"""The body of S3's DeleteObjects: which keys does it name?

Only the plain form that SDKs write is read. Comments, sections, entities of its own and unknown elements
are where two XML readers differ, and a key that only the store sees would be deleted unjudged.
"""

from __future__ import annotations

import re
from typing import NoReturn
from xml.parsers import expat

from frazil.core.errors import NotAllowed

_LIMIT = 1000
_NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
_DECLARATION = re.compile(rb"""<\?xml version=(["'])1\.0\1(?: encoding=(["'])(?i:utf-8)\2)?\s*\?>\s*""")
_ELEMENTS: dict[tuple[str, ...], tuple[str, ...]] = {
    (): ("Delete",),
    ("Delete",): ("Object", "Quiet"),
    ("Delete", "Object"): ("Key",),
}
_TEXT = {("Delete", "Quiet"), ("Delete", "Object", "Key")}


def deleted_keys(body: bytes) -> list[str]:
    """The keys that a DeleteObjects body names, or NotAllowed."""
    declaration = _DECLARATION.match(body)
    return _Reader().read(body[declaration.end() :] if declaration else body)


class _Reader:
    def __init__(self) -> None:
        self._open: tuple[str, ...] = ()
        self._text: list[str] = []
        self._keys: list[str] = []
        self._objects = 0

    def read(self, body: bytes) -> list[str]:
        parser = expat.ParserCreate("UTF-8")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.StartDoctypeDeclHandler = _refuse
        parser.XmlDeclHandler = _refuse
        parser.CommentHandler = _refuse
        parser.ProcessingInstructionHandler = _refuse
        parser.StartCdataSectionHandler = _refuse
        try:
            parser.Parse(body, True)
        except expat.ExpatError as error:
            raise NotAllowed(f"body: not the XML of a DeleteObjects request ({error})") from None
        if not self._keys:
            raise NotAllowed("body: the DeleteObjects request names no keys")
        return self._keys

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if name not in _ELEMENTS.get(self._open, ()):
            raise NotAllowed(f"body: <{name[:50]}> is not signed here; legal are Delete, Object, Key, Quiet")
        if attributes and not (self._open == () and attributes == {"xmlns": _NAMESPACE}):
            raise NotAllowed(f"body: <{name}> has attributes that are not legal")
        self._objects += name == "Object"
        if self._objects > _LIMIT:
            raise NotAllowed(f"body: more than {_LIMIT} objects in one DeleteObjects request")
        self._open = (*self._open, name)
        self._text.clear()

    def _end(self, name: str) -> None:
        if name == "Key":
            self._keys.append("".join(self._text))
        self._text.clear()
        self._open = self._open[:-1]
        if name == "Object" and len(self._keys) != self._objects:
            raise NotAllowed("body: each <Object> must have exactly one <Key>")

    def _characters(self, text: str) -> None:
        if self._open not in _TEXT and text.strip():
            raise NotAllowed("body: text outside <Key> and <Quiet> is not legal")
        self._text.append(text)


def _refuse(*_: object) -> NoReturn:
    raise NotAllowed("body: document types, comments, CDATA and processing instructions are not signed")

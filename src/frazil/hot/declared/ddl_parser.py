"""Steps through the tokens of a script."""

from __future__ import annotations

from typing import NoReturn

from frazil.hot.declared.ddl_tokens import Token, tokens, wrong


class Parser:
    """What a recursive descent needs; every error has its line and column."""

    def __init__(self, text: str, source: str) -> None:
        self._text = text
        self._source = source
        self._tokens = list(tokens(text, source))
        self._next = 0

    @property
    def here(self) -> int:
        """Where the next token is."""
        return self.peek().at

    @property
    def ended(self) -> bool:
        return self.peek().kind == "end"

    def peek(self, ahead: int = 0) -> Token:
        return self._tokens[min(self._next + ahead, len(self._tokens) - 1)]

    def step(self) -> Token:
        found = self.peek()
        self._next += 1
        return found

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        wrong(self._text, self._source, self.here if at is None else at, message)

    def place(self, at: int) -> str:
        """`file:line`"""
        return f"{self._source}:{self._text.count(chr(10), 0, at) + 1}"

    def sees(self, *words: str) -> bool:
        """Whether these are next; a name in backquotes is no word."""
        following = (self.peek(ahead) for ahead in range(len(words)))
        return all(
            one.kind == "word" and one.text.upper() == word
            for one, word in zip(following, words, strict=True)
        )

    def take_words(self, *words: str) -> bool:
        if not self.sees(*words):
            return False
        self._next += len(words)
        return True

    def words(self, *words: str) -> None:
        if not self.take_words(*words):
            self.fail(f"expected {' '.join(words)}, found {self.peek()}")

    def word(self, what: str) -> str:
        if self.peek().kind != "word":
            self.fail(f"expected {what}, found {self.peek()}")
        return self.step().text

    def name(self, what: str) -> str:
        if self.peek().kind not in ("word", "name"):
            self.fail(f"expected {what}, found {self.peek()}")
        return self.step().text

    def path(self, what: str) -> list[str]:
        """`a.b.c`"""
        parts = [self.name(what)]
        while self.take_mark("."):
            parts.append(self.name(what))
        return parts

    def text(self, what: str) -> str:
        if self.peek().kind != "text":
            self.fail(f"expected {what} in single quotes, found {self.peek()}")
        return self.step().text

    def take_text(self) -> str | None:
        return self.step().text if self.peek().kind == "text" else None

    def take_mark(self, mark: str) -> bool:
        found = self.peek()
        if found.kind != "mark" or found.text != mark:
            return False
        self._next += 1
        return True

    def mark(self, mark: str) -> None:
        if not self.take_mark(mark):
            self.fail(f"expected '{mark}', found {self.peek()}")

    def numbers(self, most: int) -> list[int]:
        """`(15, 2)`, or nothing."""
        found: list[int] = []
        if not self.take_mark("("):
            return found
        while True:
            if self.peek().kind != "number" or not self.peek().text.isdigit():
                self.fail(f"expected a whole number, found {self.peek()}")
            found.append(int(self.step().text))
            if len(found) == most or not self.take_mark(","):
                break
        self.mark(")")
        return found

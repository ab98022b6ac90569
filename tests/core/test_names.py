from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.core.errors import InvalidInput
from frazil.core.names import (
    MAX_LEVELS,
    check_levels,
    check_name,
    name_key,
    namespace_key,
    show,
    split_levels,
)


@pytest.mark.parametrize(
    ("one", "other"),
    [("a", "A"), ("straße", "STRASSE"), ("é", "e\u0301"), ("É", "e\u0301"), ("ΟΔΟΣ", "οδος"), ("ǅ", "ǆ")],
)
def test_spellings_of_one_name(one: str, other: str) -> None:
    assert name_key(one) == name_key(other)


@pytest.mark.parametrize(
    ("one", "other"), [("a", "á"), ("a", "a "), ("a", "\u0430"), ("ab", "a\u200bb"), ("1", "१")]
)
def test_different_names(one: str, other: str) -> None:
    assert name_key(one) != name_key(other)


@given(st.text())
def test_a_key_is_its_own_key(name: str) -> None:
    assert name_key(name_key(name)) == name_key(name)


@given(st.text())
def test_case_never_counts(name: str) -> None:
    assert name_key(name.upper().lower()) == name_key(name.upper())


@pytest.mark.parametrize("name", ["", "a\x00", "a\n", "\x1f", "\x7f", "\x85", "x" * 256, "\ud800"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(InvalidInput, match="thing") as caught:
        check_name(name, "thing")
    assert caught.value.message.isprintable()


@pytest.mark.parametrize("name", ["a", "a.b", "a/b", " ", "..", "🧊", "\u202e", "x" * 255])
def test_names_that_are_some(name: str) -> None:
    assert check_name(name, "thing") == name


@pytest.mark.parametrize("levels", [[], [""], ["a", ""], ["a"] * (MAX_LEVELS + 1), ["é" * 250, "é" * 250]])
def test_levels_that_are_none(levels: list[str]) -> None:
    with pytest.raises(InvalidInput, match="thing"):
        check_levels(levels, "thing")


def test_levels_in_a_url() -> None:
    assert split_levels("a\x1fb c", "namespace") == ("a", "b c")
    for bad in ("", "\x1f", "a\x1f", "\x1fa", "a\x1f\x1fb"):
        with pytest.raises(InvalidInput):
            split_levels(bad, "namespace")


def test_keys_of_namespaces_do_not_run_together() -> None:
    assert namespace_key(["a", "b"]) != namespace_key(["ab"])
    assert namespace_key(["a", "b"]) != namespace_key(["a.b"])
    assert namespace_key(["A", "B"]) == namespace_key(["a", "b"])


def test_show() -> None:
    assert show(("a", "b")) == "a.b"
    assert show(("a",), "t") == "a.t"

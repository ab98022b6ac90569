"""Names as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.client.naming import identifier, levels, segment, written
from frazil.core.errors import InvalidInput

PART = st.text(st.characters(exclude_categories=["Cc", "Cs", "Cn"]), min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sales", ("sales",)),
        ("sales.eu", ("sales", "eu")),
        (r"sales\.eu", ("sales.eu",)),
        (r"a\\.b", ("a\\", "b")),
        (["a.b", "c"], ("a.b", "c")),
        (("a",), ("a",)),
    ],
)
def test_levels(text: str | list[str], expected: tuple[str, ...]) -> None:
    assert levels(text) == expected


def test_a_table_is_namespace_dot_name() -> None:
    assert identifier("sales.eu.orders") == (("sales", "eu"), "orders")
    assert identifier(r"sales\.eu.orders") == (("sales.eu",), "orders")


@pytest.mark.parametrize("text", ["", "a..b", ".a", "a.", [], [""], "a\nb"])
def test_what_is_no_namespace(text: str | list[str]) -> None:
    with pytest.raises(InvalidInput):
        levels(text)


@pytest.mark.parametrize("text", ["orders", "", r"sales\.orders", "sales.", ".orders"])
def test_what_is_no_table(text: str) -> None:
    with pytest.raises(InvalidInput):
        identifier(text)


@pytest.mark.parametrize("text", ["a\\b", "a\\", "a.b\\"])
def test_a_backslash_escapes_dots_and_itself_only(text: str) -> None:
    with pytest.raises(InvalidInput, match="backslash"):
        levels(text)


@given(st.lists(PART, min_size=2, max_size=5))
def test_written_names_are_read_back(parts: list[str]) -> None:
    text = written(*parts)
    assert levels(text) == tuple(parts)
    assert identifier(text) == (tuple(parts[:-1]), parts[-1])


def test_a_segment_cannot_leave_its_place() -> None:
    assert segment("..") == "%2E%2E"
    assert segment(".") == "%2E"
    assert segment("a/b?c#d") == "a%2Fb%3Fc%23d"
    assert segment("a", "b") == "a%1Fb"

from __future__ import annotations

import pytest

from frazil.core.errors import InvalidConfig
from frazil.stream.files.names import is_hidden, matcher

PATHS = [
    "a.json",
    "b.csv",
    "x/a.json",
    "x/y/a.json",
    "x/y/b.csv.gz",
    "x.json/z",
    "new\nline.json",
    "[a].json",
]


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("**", PATHS),
        ("*", ["a.json", "b.csv", "new\nline.json", "[a].json"]),
        ("*.json", ["a.json", "new\nline.json", "[a].json"]),
        ("**/*.json", ["a.json", "x/a.json", "x/y/a.json", "new\nline.json", "[a].json"]),
        ("x/*.json", ["x/a.json"]),
        ("x/**", ["x/a.json", "x/y/a.json", "x/y/b.csv.gz"]),
        ("x/**/a.json", ["x/a.json", "x/y/a.json"]),
        ("*/a.json", ["x/a.json"]),
        ("?.*", ["a.json", "b.csv"]),
        ("[ab].*", ["a.json", "b.csv"]),
        ("[!b].json", ["a.json"]),
        ("[a-b].{json,csv}", ["a.json", "b.csv"]),
        ("[[]a].json", ["[a].json"]),
        ("**/*.{csv,csv.gz}", ["b.csv", "x/y/b.csv.gz"]),
        ("a.json", ["a.json"]),
        ("a,json", []),
        ("", []),
    ],
)
def test_patterns(pattern: str, meant: list[str]) -> None:
    assert list(filter(matcher(pattern), PATHS)) == meant


@pytest.mark.parametrize("pattern", ["[a", "{a", "[b-a]"])
def test_patterns_that_are_none(pattern: str) -> None:
    with pytest.raises(InvalidConfig, match="no pattern of file names"):
        matcher(pattern)


def test_hidden_names() -> None:
    hidden = ["_SUCCESS", ".x", "a.tmp", "a.json.inprogress", "a._COPYING_"]
    assert [name for name in [*hidden, "a", "a_", "tmp", "a.b"] if is_hidden(name)] == hidden

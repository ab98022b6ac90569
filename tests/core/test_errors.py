from __future__ import annotations

import inspect

from frazil.core import errors
from frazil.core.errors import FrazilError, Outcome


def every() -> list[type[FrazilError]]:
    found = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, FrazilError)]
    return [kind for kind in found if kind is not FrazilError]


def test_the_tree_at_the_top_of_the_file_is_complete() -> None:
    drawn = errors.__doc__ or ""
    for kind in every():
        assert kind.__name__ in drawn, kind


def test_what_to_do_next_is_known_from_the_type() -> None:
    retry = {kind.__name__ for kind in every() if kind.outcome is Outcome.RETRY}
    unknown = {kind.__name__ for kind in every() if kind.outcome is Outcome.UNKNOWN}
    assert {"CommitFailed", "Unavailable", "StorageError"} <= retry
    assert "CommitStateUnknown" in unknown
    assert not retry & unknown


def test_a_more_exact_kind_is_of_one_error_only() -> None:
    special = errors.Conflict("x", kind="LocationAlreadyTaken")
    assert special.kind == "LocationAlreadyTaken"
    assert errors.Conflict("y").kind == "ConflictException"

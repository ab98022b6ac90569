"""What is said about wrong files, word for word."""

from __future__ import annotations

import pytest
from tests.stream.config.wrong import ENVIRONMENT, Case, cases, said_about


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name.replace(" ", "-"))
def test_what_is_wrong_is_said_with_its_place(case: Case) -> None:
    said = said_about(case)
    assert said == case.said, "if that is better, write it down: python -m tests.stream.config.wrong"
    assert not any(value in said for value in ENVIRONMENT.values())

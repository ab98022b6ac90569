"""Wrong files and what is said about them. `python -m tests.stream.config.wrong` writes it down anew."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from frazil.core.errors import InvalidConfig
from frazil.stream.config import parse_pipelines

FILE = Path(__file__).with_name("wrong.txt")
ENVIRONMENT = {"SECRET": "hunter-two"}
_CASE = re.compile(
    r"^=== (?P<name>[^\n]+)\n(?P<text>.*?)^---$\n(?P<said>.*?)(?=^=== |\Z)", re.DOTALL | re.MULTILINE
)
#: What most cases share; `…` stands for it.
_COMMON = "kafka: {bootstrap.servers: 'localhost:9092'}\npipelines:\n  orders:\n"


@dataclass(frozen=True)
class Case:
    name: str
    text: str
    said: str

    @property
    def yaml(self) -> str:
        return self.text.replace("…\n", _COMMON)


def cases() -> list[Case]:
    found = [Case(m["name"], m["text"], m["said"].strip()) for m in _CASE.finditer(FILE.read_text("utf-8"))]
    assert len({case.name for case in found}) == len(found)
    return found


def said_about(case: Case) -> str:
    try:
        parse_pipelines(case.yaml, "p.yaml", ENVIRONMENT, directory=FILE.parent)
    except InvalidConfig as error:
        return error.message.replace(str(FILE.parent), "HERE")
    return "nothing"


if __name__ == "__main__":
    FILE.write_text(
        "\n".join(f"=== {case.name}\n{case.text}---\n{said_about(case)}\n" for case in cases()), "utf-8"
    )

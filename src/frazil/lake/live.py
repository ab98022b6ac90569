"""Which delete files reach which data files of a snapshot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from frazil.core.errors import Unsupported
from frazil.core.partitioning import PartitionSpec
from frazil.lake.manifests import DATA, EQUALITY, ContentFile

_Place = tuple[int, tuple[Any, ...]]


@dataclass(frozen=True)
class Target:
    """A data file, and the delete files that take rows of it away."""

    file: ContentFile
    #: There is one at most; where it is, readers look at no file of positions.
    vector: ContentFile | None = None
    #: Files of positions that are about this data file alone.
    own: tuple[ContentFile, ...] = ()
    #: Those that may be about others as well.
    shared: tuple[ContentFile, ...] = ()
    equality: tuple[ContentFile, ...] = ()


class LiveFiles:
    """The files of a snapshot."""

    def __init__(self, files: Iterable[ContentFile], specs: Mapping[int, PartitionSpec]) -> None:
        self.data: list[ContentFile] = []
        self._vectors: dict[str, ContentFile] = {}
        self._own: dict[str, list[ContentFile]] = defaultdict(list)
        self._shared: dict[_Place, list[ContentFile]] = defaultdict(list)
        self._equality: dict[_Place, list[ContentFile]] = defaultdict(list)
        self._everywhere: list[ContentFile] = []
        undivided = {number for number, spec in specs.items() if _is_undivided(spec)}
        for file in files:
            if file.content == DATA:
                self.data.append(file)
            elif file.content == EQUALITY and file.spec_id in undivided:
                self._everywhere.append(file)
            elif file.content == EQUALITY:
                self._equality[_place(file)].append(file)
            elif file.is_vector:
                self._add_vector(file)
            elif file.references is not None:
                self._own[file.references].append(file)
            else:
                self._shared[_place(file)].append(file)

    def _add_vector(self, file: ContentFile) -> None:
        other = self._vectors.setdefault(str(file.references), file)
        if other is not file:
            raise Unsupported(
                f"the table is damaged: {file.references} has two deletion vectors, in {other.path} and in "
                f"{file.path}, so nobody can say which of its rows are there. Roll the table back to the "
                "snapshot before that, or delete the rows of that file and load them again"
            )

    def target(self, file: ContentFile) -> Target:
        """A data file with what reaches it: positions also in files of the same commit, values in older."""
        vector = self._vectors.get(file.path)
        if vector is not None and vector.sequence < file.sequence:
            vector = None
        own = [each for each in self._own.get(file.path, ()) if each.sequence >= file.sequence]
        place = _place(file) if self._shared or self._equality else (0, ())
        shared = [each for each in self._shared.get(place, ()) if each.sequence >= file.sequence]
        equality = [*self._equality.get(place, ()), *self._everywhere]
        equality = [each for each in equality if each.sequence > file.sequence]
        return Target(file, vector, tuple(own), tuple(shared), tuple(equality))


def _place(file: ContentFile) -> _Place:
    return file.spec_id, tuple(sorted(file.partition.items()))


def _is_undivided(spec: PartitionSpec) -> bool:
    return all(each.transform == "void" for each in spec.fields)

"""Which snapshots may go: a choice over the metadata document, made before anything is touched.

Main's line is kept from its head without a gap down to the deepest snapshot that somebody needs: pipelines
find their stamps by walking it. What a tag, a branch or a pipeline's property names is kept wherever it is,
and what lies between a pinned history and the stamps below it: they say where the log goes on behind it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from frazil.core.stamp import Mirror, is_history_tag, stamp_key, stamp_tag
from frazil.lake.authority import MetadataHistory, SnapshotView, ancestry
from frazil.maintenance.history import stamped_by
from frazil.maintenance.settings import Maintenance

#: Of main's line, however old.
AT_LEAST = 10
_MIRRORS = stamp_key("")


@dataclass(frozen=True)
class ExpiryPlan:
    """The snapshots to expire, and who keeps the others."""

    expire: tuple[int, ...] = ()
    kept: int = 0
    #: Pipelines and branches, with the number of snapshots that nobody but those as far down needs.
    pins: Mapping[str, int] = field(default_factory=dict)


def expiry_by(config: Maintenance, metadata: Mapping[str, Any], now: float) -> ExpiryPlan:
    """What goes by a pipeline's settings at a moment, in seconds since 1970."""
    if config.keep_snapshots is None:
        return ExpiryPlan()
    return plan_expiry(
        metadata,
        older_than_ms=(now - config.keep_snapshots) * 1000,
        at_most=config.most_snapshots,
        all_since_ms=None if config.keep_all is None else (now - config.keep_all) * 1000,
    )


def plan_expiry(
    metadata: Mapping[str, Any], *, older_than_ms: float, at_most: int, all_since_ms: float | None = None
) -> ExpiryPlan:
    """`older_than_ms`: what was committed before that time may go; so may all but the newest `at_most`, but
    nothing that was main's head since `all_since_ms`."""
    history = MetadataHistory(metadata)
    line = list(ancestry(history))
    depths = {view.id: depth for depth, view in enumerate(line, start=1)}
    times = {int(row["snapshot-id"]): int(row["timestamp-ms"]) for row in metadata.get("snapshots") or ()}
    mirrors = _mirrors(metadata)
    wanted = max(min(_younger(line, times, older_than_ms), at_most), AT_LEAST)
    if all_since_ms is not None:
        older_than_ms = min(older_than_ms, all_since_ms)
        # What was the head at that time is older, and the stamps that count for it may lie below.
        young = _younger(line, times, all_since_ms)
        below = _nearest(line[young:], history, mirrors).values()
        wanted = max(wanted, young + max(below, default=1))
    needs = _stamp_depths(line, history, mirrors)
    # Their own snapshots, down to where they left main: publishing looks at both lines.
    branches = {name: _line(history, name, depths) for name in _branches(metadata)}
    for name, own in branches.items():
        fork = own[-1].parent_id if own else history.ref(name)
        if fork in depths:
            needs[f"branch {name}"] = depths[fork]
    depth = max(wanted, *needs.values(), 0)
    kept = {view.id for view in line[:depth]} | _referred(metadata)
    # Were it gone, a rollback would look like an expiry, and the pipeline would leave out rows.
    kept |= {mirror.snapshot_id for mirror in mirrors.values()}
    kept |= {view.id for own in branches.values() for view in own}
    kept |= _pinned(metadata, history, mirrors)
    # Off main's line (rolled back, or staged) the age counts, and until when it was the head.
    kept |= {one for one, time in times.items() if one not in depths and time >= older_than_ms}
    kept |= _heads(metadata, all_since_ms)
    return ExpiryPlan(
        expire=tuple(one for one in times if one not in kept),
        kept=len(kept & times.keys()),
        pins={name: need - wanted for name, need in needs.items() if need > wanted},
    )


def _heads(metadata: Mapping[str, Any], since_ms: float | None) -> set[int]:
    """What main pointed at since that time, wherever it points now; its head at that time is older."""
    log: Sequence[Mapping[str, Any]] = metadata.get("snapshot-log") or ()
    if since_ms is None:
        return set()
    first = next((at for at, row in enumerate(log) if row["timestamp-ms"] >= since_ms), len(log))
    return {int(row["snapshot-id"]) for row in log[max(first - 1, 0) :]}


def _younger(line: Sequence[SnapshotView], times: Mapping[int, int], than_ms: float) -> int:
    """How deep the last one lies that is younger. A clock may have gone back."""
    return max((depth for depth, view in enumerate(line, start=1) if times[view.id] >= than_ms), default=0)


def _stamp_depths(
    line: Sequence[SnapshotView], history: MetadataHistory, mirrors: Mapping[str, Mirror]
) -> dict[str, int]:
    """How far down pipelines need main's line."""
    found = _nearest(line, history, mirrors)
    for pipeline, mirror in mirrors.items():
        # Refused, because all of main's line is there and its commits are not: that must stay to be seen.
        if history.snapshot(mirror.snapshot_id) is None and line and line[-1].parent_id is None:
            found.setdefault(pipeline, len(line))
    return {f"pipeline {name}": depth for name, depth in found.items()}


def _nearest(
    line: Sequence[SnapshotView], history: MetadataHistory, mirrors: Mapping[str, Mirror]
) -> dict[str, int]:
    """How deep the first stamp of each pipeline lies. One without tag and property was given up."""
    found: dict[str, int] = {}
    for depth, view in enumerate(line, start=1):
        for pipeline in stamped_by(view):
            if pipeline in mirrors or history.ref(stamp_tag(pipeline)) is not None:
                found.setdefault(pipeline, depth)
    return found


def _pinned(metadata: Mapping[str, Any], history: MetadataHistory, mirrors: Mapping[str, Mirror]) -> set[int]:
    """Histories of pipelines, and below each what leads to the nearest stamps, on main's line or off it."""
    found: set[int] = set()
    for name in filter(is_history_tag, metadata.get("refs") or ()):
        line = _line(history, name)
        depth = max(_nearest(line, history, mirrors).values(), default=0)
        found |= {view.id for view in line[:depth]}
    return found


def _branches(metadata: Mapping[str, Any]) -> list[str]:
    refs: Mapping[str, Mapping[str, Any]] = metadata.get("refs") or {}
    return [name for name, ref in refs.items() if ref.get("type") == "branch" and name != "main"]


def _line(history: MetadataHistory, name: str, until: Container[int] = ()) -> list[SnapshotView]:
    """A ref's snapshots, newest first, as far as they are there and before one of `until`."""
    found, at = [], history.ref(name)
    while at is not None and at not in until:
        view = history.snapshot(at)
        if view is None:
            break
        found.append(view)
        at = view.parent_id
    return found


def _mirrors(metadata: Mapping[str, Any]) -> dict[str, Mirror]:
    """What the properties of pipelines say, by pipeline."""
    properties: Mapping[str, str] = metadata.get("properties") or {}
    found = {key: Mirror.decode(text) for key, text in properties.items() if key.startswith(_MIRRORS)}
    return {key.removeprefix(_MIRRORS): mirror for key, mirror in found.items()}


def _referred(metadata: Mapping[str, Any]) -> set[int]:
    refs: Mapping[str, Mapping[str, Any]] = metadata.get("refs") or {}
    return {int(ref["snapshot-id"]) for ref in refs.values()}

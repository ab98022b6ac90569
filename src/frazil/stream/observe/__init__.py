"""Who watches a runner: the board behind all displays, the terminal, log lines, /metrics."""

from frazil.stream.observe.board import Board, Phase, Row
from frazil.stream.observe.fanout import Observers
from frazil.stream.observe.lines import JsonLines, PlainLines
from frazil.stream.observe.metrics import Metrics
from frazil.stream.observe.server import MetricsServer
from frazil.stream.observe.terminal import Terminal

__all__ = [
    "Board",
    "JsonLines",
    "Metrics",
    "MetricsServer",
    "Observers",
    "Phase",
    "PlainLines",
    "Row",
    "Terminal",
]

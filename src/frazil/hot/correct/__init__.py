"""Corrections: a range of a table computed again on a branch, looked at, and published."""

from frazil.hot.correct.api import correct, drop, publish
from frazil.hot.correct.listing import CorrectionInfo, corrections, find_correction

__all__ = ["CorrectionInfo", "correct", "corrections", "drop", "find_correction", "publish"]

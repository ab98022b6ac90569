"""Credentials that are short-lived and reach one table's files only."""

from frazil.catalog.vending.base import Access, Vended, Vendor
from frazil.catalog.vending.cache import Held, VendedCache
from frazil.catalog.vending.opening import open_vendor

__all__ = ["Access", "Held", "Vended", "VendedCache", "Vendor", "open_vendor"]

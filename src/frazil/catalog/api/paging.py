"""Page tokens: the last key of a page, opaque to the caller."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated

import msgspec

from frazil.core.errors import InvalidInput

MAX_PAGE = 1000
_EVERYTHING = 2**62


class Page(msgspec.Struct, rename="camel", frozen=True):
    """The query of a list endpoint."""

    page_token: str | None = None
    page_size: Annotated[int, msgspec.Meta(ge=1)] | None = None

    @property
    def limit(self) -> int:
        """Without either parameter the caller wants everything at once (the REST spec's rule)."""
        if self.page_token is None and self.page_size is None:
            return _EVERYTHING
        return min(self.page_size or MAX_PAGE, MAX_PAGE)

    @property
    def after(self) -> str:
        """The key that the page begins behind."""
        if not self.page_token:
            return ""
        try:
            key = base64.b64decode(self.page_token, altchars=b"-_", validate=True).decode()
        except (binascii.Error, ValueError) as error:
            raise InvalidInput(
                "pageToken is not one that this server gave", kind="InvalidPaginationToken"
            ) from error
        if "\x00" in key:
            raise InvalidInput("pageToken is not one that this server gave", kind="InvalidPaginationToken")
        return key


def next_token(keys: list[str], limit: int) -> str | None:
    """The token of the page behind `keys`, or None when they were the last."""
    if len(keys) < limit:
        return None
    return base64.urlsafe_b64encode(keys[-1].encode()).decode()

"""What an object store meant, out of obstore's long messages, without anything secret."""

from __future__ import annotations

import re
from collections.abc import Iterable

_STATUS = re.compile(r"status code: (\d{3}(?: [A-Za-z' -]+)?)")
_REFUSED = re.compile(r"status code: 40[13]\b")
_CODE = re.compile(r"<Code>([^<]{1,100})</Code>")
_MESSAGE = re.compile(r"<Message>([^<]{1,300})</Message>")
_PROVIDER = re.compile(r"credential provider: \w+: (.*)")
_ORIGIN = re.compile(r"\bperforming [A-Z]+ (https?://[^/\s?#]+)")
_AFTER_URL = re.compile(r" in [0-9.]+(?:ns|µs|ms|s)\b[^-]*- (.*)", re.DOTALL)
_LIMIT = 300


def reason(error: BaseException, secrets: Iterable[str] = ()) -> str:
    """The store's own status, code and message, or the first line of what went wrong on the way."""
    text = str(error).partition("\n\nDebug source")[0]
    if provider := _PROVIDER.search(text):
        return masked(provider.group(1), secrets)[:_LIMIT]
    code, message, status = (p.search(text) for p in (_CODE, _MESSAGE, _STATUS))
    if code:
        http = f"(HTTP {status.group(1)})" if status else ""
        # Azure's messages go on with lines of request numbers.
        text = message.group(1).partition("\n")[0] if message else ""
        said = " ".join(p for p in (code.group(1), text, http) if p)
    elif status:
        # Not an answer of an object store: whatever else it says may not be for the caller's eyes.
        said = f"HTTP {status.group(1)}, and no error code of an object store"
    else:
        tail = _AFTER_URL.search(text)
        said = (tail.group(1) if tail else text).strip().partition("\n")[0]
        if is_unreachable(error) and (origin := _ORIGIN.search(text)):
            said = f"no answer from {origin.group(1)}; is the endpoint right? ({said})"
    return masked(said, secrets)[:_LIMIT] or type(error).__name__


def is_not_implemented(error: BaseException) -> bool:
    """Whether the store has no conditional put."""
    text = str(error)
    return "status code: 501" in text or "<Code>NotImplemented</Code>" in text


def is_refused(error: BaseException) -> bool:
    """Whether the store knows who asks, or does not, and says no; a list has no exception of its own."""
    return _REFUSED.search(str(error)) is not None


def is_unreachable(error: BaseException) -> bool:
    """Whether no answer came at all, so that asking object by object would only wait longer."""
    text = str(error)
    return "HTTP error" in text and "status code:" not in text


def masked(text: str, secrets: Iterable[str]) -> str:
    """`text` without the secrets."""
    for secret in secrets:
        # A very short value would blank out ordinary words and could be guessed from that.
        if len(secret) >= 4:
            text = text.replace(secret, "***")
    return text

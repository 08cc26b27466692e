"""Recently written or read plain texts, bounded by size: spares followers and resumed runs the unsealing."""

from __future__ import annotations

from collections import OrderedDict


class TextCache:
    """An LRU of reference -> (domain, text), at most ``limit`` characters of text."""

    def __init__(self, limit: int = 500_000) -> None:
        self._limit = limit
        self._size = 0
        self._items: OrderedDict[bytes, tuple[bytes, str]] = OrderedDict()

    def __contains__(self, ref: bytes) -> bool:
        return ref in self._items

    def get(self, ref: bytes) -> tuple[bytes, str] | None:
        item = self._items.get(ref)
        if item is not None:
            self._items.move_to_end(ref)
        return item

    def put(self, ref: bytes, domain: bytes, text: str) -> None:
        if ref in self._items or len(text) > self._limit // 8:
            return
        self._items[ref] = (domain, text)
        self._size += len(text) + 100
        while self._size > self._limit:
            _, (_, old) = self._items.popitem(last=False)
            self._size -= len(old) + 100

    def drop(self, domain: bytes | None = None) -> None:
        """Forget a domain's texts, or all."""
        kept = [] if domain is None else [(r, v) for r, v in self._items.items() if v[0] != domain]
        self._items = OrderedDict(kept)
        self._size = sum(len(text) + 100 for _, (_, text) in kept)

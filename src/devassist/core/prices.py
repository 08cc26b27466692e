"""What a model call costs: prices per million tokens, in micro-units of the price list's currency. Pure.

A list is JSON: ``{"currency": "USD", "models": {"<model>": {"input": "0.15", "output": "0.60"}}}``, amounts per million
tokens as decimal strings. A name that ends with ``*`` stands for all models that begin so; the exact name wins, then
the longest beginning. A model that is not listed has no price, and its cost is unknown rather than nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, cast

from devassist.core.errors import ConfigInvalid

MICRO = 1_000_000
_DECIMAL = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,6})?")
_CURRENCY = re.compile(r"[A-Z]{3}")


@dataclass(frozen=True, slots=True)
class PriceList:
    """``models``: (input, output) micro-units per million tokens, by model name or ``beginning*``."""

    currency: str = "USD"
    models: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])


def micro_units(text: str) -> int:
    """A decimal such as ``0.15`` in micro-units, exactly. Raises ValueError saying what is allowed."""
    if _DECIMAL.fullmatch(text) is None:
        raise ValueError('a decimal such as "0.15", at most six digits after the point')
    return int(Decimal(text) * MICRO)


def cost_micro(
    prices: Mapping[str, tuple[int, int]], model: str, input_tokens: int, output_tokens: int
) -> int | None:  # fmt: skip
    """The cost of a call, rounded up to a whole micro-unit; None when the model has no price."""
    price = prices.get(model) or _by_beginning(prices, model)
    if price is None:
        return None
    return -(-(input_tokens * price[0] + output_tokens * price[1]) // MICRO)


def _by_beginning(prices: Mapping[str, tuple[int, int]], model: str) -> tuple[int, int] | None:
    fitting = [name for name in prices if name.endswith("*") and model.startswith(name[:-1])]
    return prices[max(fitting, key=len)] if fitting else None


def parse_prices(data: object, where: str) -> PriceList:
    """The price list that ``data`` (parsed JSON) holds. Raises ConfigInvalid naming ``where`` and the field."""
    top = _fields(data, where, {"comment", "currency", "models"}, required={"currency", "models"})
    currency = top["currency"]
    if not isinstance(currency, str) or _CURRENCY.fullmatch(currency) is None:
        raise ConfigInvalid(f"{where}: currency is three capital letters, such as USD")
    rows = _fields(top["models"], f"{where}: models", None)
    return PriceList(currency, {name: _price(row, f"{where}: models/{name}") for name, row in rows.items()})


def _price(data: object, where: str) -> tuple[int, int]:
    row = _fields(data, where, {"input", "output"}, required={"input", "output"})
    return _amount(row["input"], f"{where}/input"), _amount(row["output"], f"{where}/output")


def _amount(value: object, where: str) -> int:
    try:
        return micro_units(value if isinstance(value, str) else "")
    except ValueError as error:
        raise ConfigInvalid(f"{where}: a price per million tokens is {error}") from None


def _fields(
    data: object, where: str, known: set[str] | None, *, required: frozenset[str] | set[str] = frozenset()
) -> dict[str, Any]:  # fmt: skip
    if not isinstance(data, dict):
        raise ConfigInvalid(f"{where}: an object is expected")
    fields = cast("dict[str, Any]", data)
    unknown = sorted(fields.keys() - known) if known is not None else []
    if unknown:
        raise ConfigInvalid(f"{where}: unknown {', '.join(unknown)}; known are {', '.join(sorted(known or ()))}")
    if missing := sorted(required - fields.keys()):
        raise ConfigInvalid(f"{where}: {', '.join(missing)} is missing")
    return fields

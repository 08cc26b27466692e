"""Who calls: the one function that yields the identity of a request.

Before API keys exist every caller is also an administrator, and ownership goes by the name in ``X-User-Id``.
"""

from __future__ import annotations

import re

from fastapi import Request

from devassist.core.errors import InvalidRequest
from devassist.core.scope import Right, Scope

TENANT = "default"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_RIGHTS: frozenset[Right] = frozenset({"user", "admin"})


def identity(request: Request) -> Scope:
    """Raises InvalidRequest for a name that is not 1 to 64 letters, digits, ``_`` or ``-``."""
    name = request.headers.get("x-user-id", "local")
    if _NAME.fullmatch(name) is None:
        raise InvalidRequest("X-User-Id must be 1 to 64 letters, digits, '_' or '-'")
    return Scope(TENANT, name, _RIGHTS)

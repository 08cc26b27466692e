"""Who calls: the one function that yields the identity of a request.

Before API keys exist every caller is also an administrator, and ownership goes by the name in ``X-User-Id``. From the
first key on that header means nothing, and who has no valid key is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from fastapi import Request

from devassist.core.errors import Forbidden, InvalidRequest, Unauthorised
from devassist.core.scope import TENANT, Right, Scope
from devassist.runtime.access import Access

CALLER = "devassist.caller"
"""Where the request's ASGI scope has the identity once it is known."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_RIGHTS: frozenset[Right] = frozenset({"user", "admin"})


def identity(request: Request) -> Scope:
    """Raises Unauthorised, in the same words for a key that is unknown, expired or revoked; and while there are no keys
    InvalidRequest for a name that is not 1 to 64 letters, digits, ``_`` or ``-``."""
    access: Access = request.app.state.services.access
    if access.required:
        caller = _bearer(access, request.headers.get("authorization", ""))
    else:
        name = request.headers.get("x-user-id", "local")
        if _NAME.fullmatch(name) is None:
            raise InvalidRequest("X-User-Id must be 1 to 64 letters, digits, '_' or '-'")
        caller = Scope(TENANT, name, _RIGHTS)
    request.scope[CALLER] = caller
    return caller


async def known(request: Request) -> None:
    """As a dependency of routes that need parameters: who may not ask is told that, and not what is missing."""
    identity(request)


def administrator(request: Request) -> Scope:
    """Raises Forbidden for anyone else."""
    scope = identity(request)
    if not scope.is_admin:
        raise Forbidden("this needs the role admin")
    return scope


def admitted(request: Request) -> Callable[[], bool]:
    """Whether the caller would still be let in, to ask again while a response goes on."""
    access: Access = request.app.state.services.access
    _, _, token = request.headers.get("authorization", "").partition(" ")
    return lambda: not access.required or access.admit(token.strip()) is not None


def _bearer(access: Access, header: str) -> Scope:
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthorised("an API key is required; send it as 'Authorization: Bearer <key>'")
    caller = access.admit(token.strip())
    if caller is None:
        raise Unauthorised("this API key is not valid; 'devassist keys list' shows which are")
    return caller

"""Where untrusted programs run: backends of the port Sandbox, and what they share."""

from __future__ import annotations

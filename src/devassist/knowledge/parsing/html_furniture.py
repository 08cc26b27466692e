"""What of a web page is its text, and what stands on every page of the site: navigation, footers, hidden parts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from selectolax.lexbor import LexborNode

_NEVER = frozenset(
    "script style noscript template iframe object embed svg math canvas audio video nav footer aside form button "
    "select input textarea dialog head meta link".split()
)
_FURNITURE_ROLES = frozenset("navigation banner contentinfo complementary search menu menubar dialog alert".split())
_FURNITURE_NAMES = re.compile(
    r"(?:^|[\s_-])(?:nav|navbar|navigation|menu|breadcrumbs?|sidebar|footer|site-header|page-header|topbar|toc|"
    r"cookies?|banner|share|social|pagination|advert\w*|ads?|copyright|skip-link|headerlink)(?:$|[\s_-])",
    re.IGNORECASE,
)
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_LEAST_SHARE = 0.4  # a <main> that holds less of the page's text than this is not where the text is


def main_parts(body: LexborNode) -> list[LexborNode]:
    """Where the text stands: ``main``, else the articles, else the whole body."""
    whole = max(1, len(_visible_text(body)))
    for selector in ("main, [role=main]", "article"):
        found = [node for node in body.css(selector) if not is_furniture(node)]
        outer = [node for node in found if not any(_contains(other, node) for other in found)]
        if outer and sum(len(_visible_text(node)) for node in outer) >= _LEAST_SHARE * whole:
            return outer
    return [body]


def _contains(outer: LexborNode, inner: LexborNode) -> bool:
    parent = inner.parent
    while parent is not None:
        if parent.mem_id == outer.mem_id:
            return True
        parent = parent.parent
    return False


def is_furniture_within(node: LexborNode) -> bool:
    current: LexborNode | None = node
    while current is not None:
        if is_furniture(current):
            return True
        current = current.parent
    return False


def _visible_text(node: LexborNode) -> str:
    return "".join("".join(shown_texts(node)).split())


def shown_texts(node: LexborNode) -> Iterator[str]:
    for child in node.iter(include_text=True):
        if child.tag == "-text":
            yield child.text_content or ""
        elif not is_furniture(child):
            yield from shown_texts(child)


def is_furniture(node: LexborNode) -> bool:
    """Whether a node is navigation, decoration or hidden rather than text of the page."""
    tag = node.tag or ""
    if tag in _NEVER:
        return True
    attributes = node.attributes
    if "hidden" in attributes or attributes.get("aria-hidden") == "true":
        return True
    if _HIDDEN_STYLE.search(attributes.get("style") or ""):
        return True
    if (attributes.get("role") or "") in _FURNITURE_ROLES:
        return True
    if tag in ("html", "body", "main", "article"):
        return False
    if tag == "header":
        return not is_inside(node, ("article", "main"))
    return any(_FURNITURE_NAMES.search(attributes.get(name) or "") for name in ("class", "id"))


def is_inside(node: LexborNode, tags: tuple[str, ...]) -> bool:
    parent = node.parent
    while parent is not None:
        if parent.tag in tags:
            return True
        parent = parent.parent
    return False

"""What a document is, judged by its words (pure): kind, language, furniture that is left over, days in file names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from devassist.knowledge.parsing.cleaning import CJK, unblanked
from devassist.knowledge.parsing.document import Block, Kind, Lang

_CJK = re.compile(f"[{CJK}]")
_KANA = re.compile("[\u3040-\u30ff]")
_WORD = re.compile(r"[A-Za-z]{2,}")
_FENCES = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_NAME_DAY = re.compile(r"(?<!\d)([12]\d{3})-?(0[1-9]|1[0-2])-?(0[1-9]|[12]\d|3[01])(?!\d)")
_FURNITURE = re.compile(r"ICP备|公网安备|版权所有|All [Rr]ights [Rr]eserved|^(?:Copyright|©)|设为首页|加入收藏")
_LONGEST_FURNITURE = 80
_COURTS = re.compile("最高人民法院|最高人民检察院")
_STATE_BODIES = re.compile("国务院|人民代表大会|人民政府|[部委局署]令|部$|委员会$")


def language(texts: Iterable[str]) -> Lang:
    """``zh`` when there are as many Chinese characters as English words; code does not count."""
    chinese = english = 0
    for text in texts:
        plain = _FENCES.sub(" ", text)
        chinese += len(_CJK.findall(plain))
        english += len(_WORD.findall(plain))
    return "zh" if chinese and chinese >= english else "en"


def holds_kana(texts: Iterable[str]) -> bool:
    """Whether a text that counts as Chinese is rather Japanese."""
    return sum(len(_KANA.findall(text)) for text in texts) > 10


def kind_of(title: str, issuer: str | None, head: str, *, legal: bool, technical: bool, official: bool = False) -> Kind:
    """``head`` is what stands above the text, ``technical`` whether it shows code,
    ``official`` whether it comes from a collection of official texts."""
    name = re.sub(r"[（(][^（()）]*[)）]", "", unblanked(title))
    if _COURTS.search(name + head + (issuer or "")) and re.search(
        r"解释|规定|批复|决定|规则|办法|安排|意见|解答|答复", name
    ):
        return "judicial_interpretation"
    if legal:
        if re.search(r"(?<![办方])法$|法典|宪法$|(?:宪法|刑法)修正案", name) or re.search(
            r"\b(?:Act|Law|Code)$", title
        ):
            return "law"
        by_state = official or bool(_STATE_BODIES.search(issuer or ""))
        if by_state and re.search(r"条例|办法|规定|细则|规则|决定|决议|规范", name):
            return "regulation"
        if re.search(r"条例$", name) or re.search(r"\bRegulations?\b", title):
            return "regulation"
    if re.search(r"制度|规定|办法|守则|手册|规程|规则|细则|政策|准则|指引", name) or re.search(
        r"\b(?:policy|policies|handbook|guidelines?|rules)\b", title, re.IGNORECASE
    ):
        return "policy"
    if re.search(r"常见问题|问答", name) or re.search(r"\bFAQ\b", title):
        return "faq"
    return "devdoc" if technical else "other"


def day_in_name(name: str) -> str | None:
    """The last day that a file's name holds, as in ``Companies(2023-12-29).md``."""
    found = _NAME_DAY.findall(PurePosixPath(name.replace("\\", "/")).name)
    return "-".join(found[-1]) if found else None


def title_in_name(name: str) -> str:
    stem = PurePosixPath(name.replace("\\", "/")).stem
    return re.sub(r"[（(]\s*[\d-]+\s*[)）]$", "", stem).strip() or stem or name


def without_furniture(blocks: Sequence[Block]) -> tuple[list[Block], list[str]]:
    """Blocks without what pages leave behind at their edges (copyright, licence numbers, navigation), and those."""
    kept = list(blocks)
    dropped: list[str] = []
    for edge in (0, -1):
        while len(kept) > 1 and _is_left_over(kept[edge]):
            dropped.append(kept.pop(edge).text)
    return kept, dropped


def _is_left_over(block: Block) -> bool:
    text = block.text
    return (
        block.kind == "text" and len(text) <= _LONGEST_FURNITURE and "。" not in text and bool(_FURNITURE.search(text))
    )

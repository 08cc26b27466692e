"""Bytes to text without silent mojibake: byte order mark, strict UTF-8, then a guess that is decoded strictly.

What a file declares of itself is never trusted: pages labelled gb2312 hold GB18030 as often as not. A guess of any GB
encoding is decoded as GB18030, the superset. Where bytes fit several encodings, frequent characters decide; where
nothing decides, the file is refused.
"""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

from charset_normalizer import from_bytes

from devassist.knowledge.parsing.document import Refused

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"),
)  # fmt: skip
_GUESS_BYTES = 1 << 18  # enough to tell, and a guess costs by length
_GB = frozenset({"gb2312", "gbk", "gb18030", "hz", "cp936"})
_BIG5 = frozenset({"big5", "big5hkscs", "cp950"})
_EAST_ASIAN = frozenset(
    "cp932 shift_jis shift_jis_2004 shift_jisx0213 euc_jp euc_jis_2004 euc_jisx0213 cp949 euc_kr johab".split()
)
_WESTERN = re.compile(r"cp125[0-8]|latin_1|iso8859_\d+|mac_\w+|cp(?:437|720|775|85\d|86\d)")
_LEAST_ASCII = 0.8  # an English text in a one-byte encoding has a curly quote here and there, no more
_ALMOST_UTF8 = 0.8
_MULTIBYTE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_HIGH = re.compile(rb"[\x80-\xff]")
_NEVER_PRINTED = re.compile("[\ufffd\x80-\x84\x86-\x9f\ue000-\uf8ff]")
_FREQUENT_HAN = frozenset(
    "的一是不了在人有我他这为之大来以个中上们到说国和地也子时道出而要于就下得可你年生自会那后能对着事其里所去行过家十用发天如然作方成者"
    "多日都三小军二无同么经法当起与好看学进种将还分此心前面又定见只主没公从第条款项规应按或及本办理机关违责任退期逾金费员工请数据库"
    "這個來們說國時為會後對過無經當與學進種將還應規條項關責"
)
_FREQUENT_OTHER = frozenset("이다는을의에가고하지은로도를한서기으니스사자리어아대있해정그시여것일전인나부과라보제들")


class Decoded(NamedTuple):
    """``charset`` is the name of what the bytes were read in."""

    text: str
    charset: str


def decode(data: bytes) -> Decoded:
    """The text of ``data`` without its byte order mark. Raises Refused (``undecodable``)."""
    for mark, charset in _MARKS:
        if data.startswith(mark):
            return _strict(data[len(mark) :], charset)
    if b"\0" in data:
        raise _refusal("it holds NUL bytes and begins with no byte order mark, so it is no text in a known encoding")
    try:
        return Decoded(data.decode("utf-8"), "utf-8")
    except UnicodeDecodeError as error:
        if _is_almost_utf8(data):
            raise _refusal(f"it is UTF-8 except for the byte at {error.start}") from None
    return _strict(data, _guess(data))


def _is_almost_utf8(data: bytes) -> bool:
    """Whether most of the bytes beyond ASCII form UTF-8 characters, which other encodings do only by chance: a damaged
    UTF-8 file would become mojibake in any of them."""
    high = len(_HIGH.findall(data))
    return sum(map(len, _MULTIBYTE.findall(data))) >= _ALMOST_UTF8 * high


def _guess(data: bytes) -> str:
    sample = data[:_GUESS_BYTES]
    matches = from_bytes(sample)
    names = [match.encoding for match in matches]
    if not names:
        names = [name for name in ("gb18030", "big5hkscs") if _reads(sample, name)]
    if not names:
        raise _refusal("its bytes fit no known encoding")
    first = names[0]
    if first in _GB:
        return "gb18030"
    if first in _BIG5:
        return "big5hkscs"
    if first in _EAST_ASIAN:
        return "gb18030" if _is_rather_chinese(sample, first) else first
    if _WESTERN.fullmatch(first) and len(_HIGH.findall(data)) <= (1 - _LEAST_ASCII) * len(data):
        return "cp1252" if _reads(sample, "cp1252") else first
    raise _refusal(f"its bytes look like {first}, but not surely")


def _reads(sample: bytes, charset: str) -> bool:
    return _tolerant(sample, charset) is not None


def _tolerant(sample: bytes, charset: str) -> str | None:
    """The sample decoded, whose last character may be cut in two; None when it does not fit."""
    try:
        return codecs.getincrementaldecoder(charset)("strict").decode(sample)
    except UnicodeDecodeError:
        return None


def _is_rather_chinese(sample: bytes, other: str) -> bool:
    """A short Chinese text fits Japanese and Korean encodings too; the more frequent characters are the right ones."""
    chinese, foreign = _tolerant(sample, "gb18030"), _tolerant(sample, other)
    if chinese is None or _NEVER_PRINTED.search(chinese):
        return False
    if foreign is None:
        return True
    kana = sum("\u3040" <= char <= "\u30ff" for char in foreign)
    return sum(c in _FREQUENT_HAN for c in chinese) > kana + sum(c in _FREQUENT_OTHER for c in foreign)


def _strict(data: bytes, charset: str) -> Decoded:
    try:
        text = data.decode(charset)
    except UnicodeDecodeError as error:
        raise _refusal(f"read as {charset}, the byte at {error.start} fits no character") from None
    if "\0" in text:
        raise _refusal(f"read as {charset}, it holds NUL characters")
    odd = _NEVER_PRINTED.search(text) if charset not in ("utf-8", "utf-16-le", "utf-16-be") else None
    if odd is not None:
        raise _refusal(f"read as {charset}, it holds U+{ord(odd[0]):04X} at {odd.start()}, which nobody writes")
    return Decoded(text, charset)


def _refusal(why: str) -> Refused:
    return Refused("undecodable", f"The text cannot be read: {why}. Save the file as UTF-8.")

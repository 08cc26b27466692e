"""The grammars of the embedded model, without a model: how long a text can get, and how its texts are read."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devassist.core.messages import ModelReply
from devassist.core.react import Final, ToolCalls, parse, protocol_instructions
from devassist.core.react_texts import PROTOCOL_TEXT
from devassist.core.tooling import ToolSpec
from devassist.llm import gbnf
from devassist.llm.embedded import PROTOCOL_WORDS, REPLY_TOKENS
from devassist.prompts.catalog import AgentFiles
from devassist.tools.get_policy import get_policy_tool
from devassist.tools.schema import SchemaChecker
from tests.llm.gbnf_reader import Grammar
from tests.tools.shelf import Shelf

POLICY = get_policy_tool(Shelf()).spec
_TEXT = {"type": "string"}
VALUES: list[dict[str, Any]] = [
    _TEXT,
    {},
    {"type": ["string", "null"]},
    {"type": "integer", "minimum": 1},
    {"type": "number"},
    {"type": "boolean"},
    {"enum": ["a", '"ü"', 3, None]},
    {"const": "only"},
    {"type": "object"},
    {"type": "array", "items": _TEXT, "minItems": 1},
    {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]},
]
LANGS = st.sampled_from(["zh", "en"])


@st.composite
def tools(draw: st.DrawFn) -> list[ToolSpec]:
    """Up to three tools with up to four members each, some required."""
    found: list[ToolSpec] = []
    for name in draw(st.lists(st.sampled_from(["get_policy", "run", "a.b-c_9", "x" * 64]), unique=True, max_size=3)):
        members = draw(st.dictionaries(st.sampled_from(["q", "code", "größe", 'a"b']), st.sampled_from(VALUES)))
        required = draw(st.lists(st.sampled_from(sorted(members)), unique=True)) if members else []
        schema = {"type": "object", "properties": members, "required": required, "additionalProperties": False}
        found.append(ToolSpec(name, f"Does {name}.", schema))
    return found


@given(tools=tools(), limit=st.integers(0, 3000), lang=LANGS)
def test_the_longest_text_fits_the_limit(tools: list[ToolSpec], limit: int, lang: str) -> None:
    """Bytes of the longest decision, and so its tokens, stay below the limit; a limit that holds none is refused."""
    schemas = {tool.name: tool.parameters for tool in tools}
    try:
        longest = Grammar(gbnf.decision(schemas, limit, lang)).most_bytes()
    except ValueError:
        assert limit < 100 + 200 * max(1, len(tools))
        return
    bound = min(limit, gbnf.MOST_TOKENS)
    assert bound / 2 < longest < bound


@given(limit=st.integers(0, 3000), lang=LANGS)
def test_the_longest_chat_fits_the_limit(limit: int, lang: str) -> None:
    """So it is with plain chat, which uses nearly all of it."""
    try:
        longest = Grammar(gbnf.plain(limit, lang)).most_bytes()
    except ValueError:
        assert limit < 40
        return
    assert min(limit, gbnf.MOST_TOKENS) - 12 <= longest < min(limit, gbnf.MOST_TOKENS)


@given(tools=tools(), lang=LANGS, seed=st.integers(0, 2**32))
def test_every_text_is_a_decision(tools: list[ToolSpec], lang: str, seed: int) -> None:
    """Whatever a model writes within the grammar is read as a final answer, or as a call of a tool that exists with
    arguments that fit its schema."""
    chance = random.Random(seed)
    schemas = {tool.name: tool.parameters for tool in tools}
    text = Grammar(gbnf.decision(schemas, 1024, lang)).derive(chance.randint)
    found = parse(ModelReply(text), list(schemas))
    if isinstance(found, Final):
        assert text.endswith(f"\nAction: final: {found.text}") or text.rstrip().endswith(found.text)
        assert (found.unstructured, found.discarded) == (False, "")
        return
    assert isinstance(found, ToolCalls), (text, found)
    (call,) = found.calls
    assert found.thought
    assert found.discarded == ""
    SchemaChecker().check(next(tool for tool in tools if tool.name == call.name), call.args)


def test_arguments_of_an_unknown_tool() -> None:
    """Where the schema is not known they are an object with one text."""
    grammar = Grammar(gbnf.decision({"x": {}}, REPLY_TOKENS, "en"))
    texts = [grammar.derive(random.Random(seed).randint) for seed in range(40)]
    calls = [found for text in texts if isinstance(found := parse(ModelReply(text), ["x"]), ToolCalls)]
    assert calls
    for found in calls:
        ((value,),) = (call.args.values() for call in found.calls)
        assert isinstance(value, str)


@pytest.mark.parametrize("lang", ["zh", "en"])
def test_the_schemas_are_found_where_the_protocol_lists_them(lang: Any) -> None:
    """In the system message of an agent; a tool that is not listed has none."""
    other = ToolSpec("other", "Two\nlines.", {"type": "object", "properties": {"é": {"type": "string"}}})
    system = "You are.\n\n" + protocol_instructions(lang, [POLICY, other])
    found = gbnf.listed_schemas(system, ["get_policy", "other", "third"])
    assert found == {"get_policy": POLICY.parameters, "other": other.parameters, "third": {}}


def test_the_protocol_is_told_from_plain_chat() -> None:
    """By words that its instructions hold in both languages, and no packaged agent's own text."""
    assert all(PROTOCOL_WORDS in text for text in PROTOCOL_TEXT.values())
    for agent in AgentFiles(None).list():
        assert PROTOCOL_WORDS not in agent.prompt.zh + agent.prompt.en


def test_what_the_policy_agent_asks() -> None:
    """Its call gives the question, and an English one has room for more than a hundred letters."""
    grammar = gbnf.decision({"get_policy": POLICY.parameters}, REPLY_TOKENS, "en")
    assert r'"\"question\": "' in grammar
    assert "keywords" not in grammar
    assert "json{0,1" in grammar

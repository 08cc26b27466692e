"""Agents as files: the packaged ones, an override directory, and strictness about every field."""

from __future__ import annotations

from pathlib import Path

import pytest

from devassist.core.agents import LimitOverrides, resolve
from devassist.core.errors import AgentNotFound, ConfigInvalid
from devassist.core.event_parts import Limits
from devassist.core.tooling import ToolSpec
from devassist.ports.agents import AgentCatalog
from devassist.prompts.catalog import AgentFiles

TEXTS = "description: {zh: 述, en: says}\nprompt: {zh: 示, en: told}\n"


def write(directory: Path, name: str, text: str) -> Path:
    path = directory / name
    path.write_text(text, "utf-8")
    return path


def test_four_agents_are_packaged() -> None:
    """dev has every tool, policy and rag are grounded and gated, chat is plain and has none."""
    catalog: AgentCatalog = AgentFiles()
    assert [agent.name for agent in catalog.list()] == ["chat", "dev", "policy", "rag"]
    chat, dev, policy, rag = catalog.list()
    assert (dev.tools, dev.released, dev.model) == ("*", "live", "agent")
    assert [agent.evidence for agent in (dev, policy, chat)] == [True, False, False]
    assert (policy.tools, policy.grounded, policy.released) == (("get_policy",), True, "gated")
    assert (rag.tools, rag.grounded, rag.released) == (("search_docs",), True, "gated")
    assert (policy.citations, rag.citations) == ("quoted", "numbered")
    assert {agent.unsupported for agent in catalog.list()} == {"flag"}
    assert (chat.tools, chat.model, chat.protocol) == ((), "chat", "tools")
    assert {agent.origin for agent in catalog.list()} == {"packaged"}


@pytest.mark.parametrize("name", ["chat", "dev", "policy", "rag"])
def test_packaged_agents_speak_both_languages(name: str) -> None:
    """Each has its own text in Chinese and English, and resolves to a definition in both."""
    agent = AgentFiles().get(name)
    assert "\u4e00" <= agent.prompt.zh[0] <= "\u9fff"
    assert agent.prompt.en.isascii() or name in ("policy", "rag")
    tools = [ToolSpec("get_policy", "", {}), ToolSpec("search_docs", "", {})]
    versions = {
        resolve(
            agent, lang=lang, tools=tools, restrict=None, model="m", model_kind="scripted", protocol="text",
            limits_default=Limits(), protocol_text="",
        ).prompt_version
        for lang in ("zh", "en")
    }  # fmt: skip
    assert len(versions) == 2


def test_the_policy_agent_is_told_to_quote() -> None:
    """Its prompt asks for what the check of its answers looks for."""
    prompt = AgentFiles().get("policy").prompt
    for text in (prompt.zh, prompt.en):
        assert [word for word in ("get_policy", "found", "as_of", "「", "」", "label") if word not in text] == []
    assert all(word in prompt.zh for word in ("标题", "施行日期", "修订日期"))
    assert all(word in prompt.en for word in ("title", "effective date", "revision date"))


def test_an_unknown_agent_is_not_found() -> None:
    """404 with the nearest name, or with all there are."""
    with pytest.raises(AgentNotFound, match="did you mean policy"):
        AgentFiles().get("polcy")
    with pytest.raises(AgentNotFound, match="chat, dev, policy"):
        AgentFiles().get("zzz")


def test_a_directory_adds_agents_and_takes_the_place_of_packaged_ones(tmp_path: Path) -> None:
    """By file name; what it does not hold stays packaged."""
    write(tmp_path, "dev.yaml", f"name: dev\n{TEXTS}")
    write(tmp_path, "calc.yaml", f"name: calc\n{TEXTS}tools: [execute_code]\n")
    write(tmp_path, "README.md", "not an agent")
    catalog = AgentFiles(tmp_path)
    assert [agent.name for agent in catalog.list()] == ["calc", "chat", "dev", "policy", "rag"]
    assert (catalog.get("dev").tools, catalog.get("dev").origin) == ((), "file")
    assert catalog.get("policy").origin == "packaged"


def test_every_field_is_read(tmp_path: Path) -> None:
    """A file that states all of them gets all of them."""
    rest = """tools: [a, b.c]
model: chat
protocol: tools
release: live
grounded: true
citations: numbered
unsupported: remove
on_unknown: tell
parallel: true
approval: [b.c]
limits: {steps: 3, corrections: 0, tokens: 100, deadline_s: 60, cost: "0.50"}
max_reply_tokens: 512
context_tokens: 4000
"""
    write(tmp_path, "x.yaml", f"name: x\n{TEXTS}{rest}")
    agent = AgentFiles(tmp_path).get("x")
    assert (agent.description.zh, agent.prompt.en, agent.tools) == ("述", "told", ("a", "b.c"))
    assert (agent.model, agent.protocol, agent.released, agent.grounded) == ("chat", "tools", "live", True)
    assert (agent.citations, agent.unsupported) == ("numbered", "remove")
    assert (agent.on_unknown, agent.parallel, agent.approval) == ("tell", True, ("b.c",))
    assert agent.limits == LimitOverrides(3, 0, 100, 60_000, 500_000)
    assert (agent.max_reply_tokens, agent.context_tokens) == (512, 4000)


WRONG = {
    "an unknown field": ("name: x\n{texts}temperature: 1\n", "unknown field temperature"),
    "a missing field": ("name: x\nprompt: {{zh: a, en: b}}\n", "description is missing"),
    "another name than the file's": ("name: y\n{texts}", "name is 'y'"),
    "no mapping": ("- x\n", "fields are expected"),
    "nothing": ("", "fields are expected"),
    "one language": ("name: x\ndescription: {{zh: a}}\nprompt: {{zh: a, en: b}}\n", "description: the field en"),
    "a blank text": ("name: x\ndescription: {{zh: a, en: ' '}}\nprompt: {{zh: a, en: b}}\n", "description.*blank"),
    "a number as text": ("name: x\ndescription: {{zh: 1, en: b}}\nprompt: {{zh: a, en: b}}\n", "description/zh is 1"),
    "a word as a switch": ("name: x\n{texts}grounded: maybe\n", "grounded is 'maybe'"),
    "a switch as a number": ("name: x\n{texts}max_reply_tokens: true\n", "max_reply_tokens is True"),
    "a choice that is none": ("name: x\n{texts}release: slow\n", "release is 'slow'; allowed is live or gated"),
    "an unknown way to cite": ("name: x\n{texts}citations: footnotes\n", "citations.*quoted or numbered"),
    "an unknown way to treat the unsupported": ("name: x\n{texts}unsupported: keep\n", "allowed is flag or remove"),
    "an empty choice": ("name: x\n{texts}protocol:\n", "protocol is None"),
    "a tool twice": ("name: x\n{texts}tools: [a, a]\n", "'a'.*twice"),
    "a tool that is no name": ("name: x\n{texts}tools: ['a b']\n", "tools.*'a b'"),
    "tools as a text": ("name: x\n{texts}tools: get_policy\n", "tools.*a list"),
    "approval of a tool that it has not": ("name: x\n{texts}tools: [a]\napproval: [b]\n", "does not have the tool 'b'"),
    "approval as a switch": ("name: x\n{texts}approval: true\n", "approval.*a list"),
    "an unquoted star": ("name: x\n{texts}tools: *\n", "quote"),
    "an unknown limit": ("name: x\n{texts}limits: {{time: 3}}\n", "limits: unknown field time"),
    "a limit out of range": ("name: x\n{texts}limits: {{steps: 0}}\n", "limits/steps is 0"),
    "a cost that is a float": ("name: x\n{texts}limits: {{cost: 0.5}}\n", "limits/cost"),
    "a cost that is no decimal": ("name: x\n{texts}limits: {{cost: 'much'}}\n", "limits/cost is 'much'"),
    "a tiny context": ("name: x\n{texts}context_tokens: 10\n", "context_tokens is 10"),
    "a field twice": ("name: x\n{texts}model: chat\nmodel: agent\n", "'model' stands twice"),
    "broken YAML": ("name: [x\n", "not readable YAML"),
    "a Python object": ("name: !!python/object:os.system x\n{texts}", "not readable YAML"),
}


@pytest.mark.parametrize(("text", "said"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_file_is_named_with_its_field(tmp_path: Path, text: str, said: str) -> None:
    """Nothing is guessed or ignored; the start ends with the file and the field."""
    path = write(tmp_path, "x.yaml", text.format(texts=TEXTS))
    with pytest.raises(ConfigInvalid, match=said) as error:
        AgentFiles(tmp_path)
    assert str(path) in error.value.detail


def test_what_would_be_overlooked_is_refused(tmp_path: Path) -> None:
    """A directory that is not there, a file by the other ending, a name that no request could use."""
    with pytest.raises(ConfigInvalid, match="not a readable directory"):
        AgentFiles(tmp_path / "none")
    path = write(tmp_path, "x.yml", f"name: x\n{TEXTS}")
    with pytest.raises(ConfigInvalid, match=r"rename it to x\.yaml"):
        AgentFiles(tmp_path)
    path.unlink()
    write(tmp_path, "A b.yaml", f"name: A b\n{TEXTS}")
    with pytest.raises(ConfigInvalid, match="lower-case"):
        AgentFiles(tmp_path)

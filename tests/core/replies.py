"""Replies put together from fragments of every protocol that models mix: the raw material of the property tests."""

from __future__ import annotations

from hypothesis import strategies as st

TOOLS = ("search_docs", "execute_code")

STARTS = (
    "Thought: a\nAction: final: ",
    "Action: final: ",
    "**Action: final:** ",
    "**Thought:** a\n**Action:** final: ",
    "Thought: a\nAction: tool:search_docs\nargs: ",
    "<think>b</think>\nAction: final: ",
    "prose\nAction: final: ",
    "",
)
FRAGMENTS = (
    "Thought: ", "Thought", "Action: final: ", "Action: final:", "**Action: final:** ", "**Action:** final: ",
    "Action: tool:search_docs\n", "Action: tool:nope\n", 'args: {"query": "x"}', "args: {'q': 'it'}", "args:",
    "{", "}", "\n", "\n\n", " ", "\r\n", "\u3000", "\u2028", "\x85", "<think>", "</think>", "<thinking>",
    "</thinking >", "<", "</", "<th", "[THINK]", "[/THINK]", "[", "◁think▷", "◁/think▷", "<tool_call>",
    "</tool_call>", "<function=search_docs>", '{"name": "search_docs", "arguments": {}}', "<|im_end|>", "<|",
    "|>", "<｜tool▁call▁begin｜>", "Observation: ", "Observ", "observation", "Action: foo\n",
    "Action Input: {}", "Action", "Action:\nfinal: ", "Action:\n", "final", "Final Answer: ", "最终答案：",
    "行动：final：", "行动：", "思考：", "：", ":", "tool:", "```", "```json\n", "~~~", "`", "**", "__", "_",
    '"', "'", "text", "正文", "a", "|", "x" * 70, " " * 9, "  Thought: hi", "Thought 1: ", "Action 2: final: ",
)  # fmt: skip

replies = st.builds(
    lambda start, pieces: start + "".join(pieces),
    st.sampled_from(STARTS),
    st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=3), max_size=12),
)

"""What the text protocol says to a model, in both languages: its rules, and a correction for each fault."""

from __future__ import annotations

from typing import Literal

Lang = Literal["zh", "en"]

NO_TOOLS: dict[Lang, str] = {"zh": "（无）", "en": "(none)"}

CORRECTIONS_BEGIN: dict[Lang, str] = {"zh": "【更正】", "en": "[Correction] "}
"""Stands first in every correction, so that it is never taken for a person's message."""

CORRECTIONS: dict[str, dict[Lang, str]] = {
    "reply_empty": {
        "zh": "上一条回复没有内容。请输出一次工具调用，或用“Action: final: 答案”作答。",
        "en": "Your last reply was empty. Call one tool, or answer with 'Action: final: <answer>'.",
    },
    "reply_truncated": {
        "zh": "上一条回复因超出长度上限被截断，没有执行任何操作。请重新输出，并明显缩短："
        "Thought 只写一句，代码或答案分成更小的几步。",
        "en": "Your last reply was cut off by the token limit and nothing was run. Write a smaller one: one sentence "
        "of Thought, and code or answer in smaller steps.",
    },
    "reply_format_invalid": {
        "zh": "上一条回复不符合格式（{detail}），没有执行任何操作。请只输出以下两种之一：\n"
        "Thought: 一句话\nAction: tool:工具名\nargs: {{JSON 对象}}\n"
        "或者\nThought: 一句话\nAction: final: 答案\n可用工具：{tools}",
        "en": "Your last reply could not be acted on: {detail}. Nothing was run. Write exactly one of the two:\n"
        "Thought: one sentence\nAction: tool:NAME\nargs: {{a JSON object}}\nor\nThought: one sentence\n"
        "Action: final: <answer>\nTools: {tools}",
    },
    "tool_arguments_malformed": {
        "zh": "工具 {tool} 没有运行：args 不是合法的 JSON（{detail}）。请重新输出这次调用，args 后只写一个 JSON 对象，"
        '字符串用双引号，其中的双引号写成 \\"，换行写成 \\n。',
        "en": "The tool {tool} was not run: args is not valid JSON ({detail}). Write the call again with one JSON "
        'object after args:, strings in double quotes, inner double quotes as \\" and line breaks as \\n.',
    },
    "tool_arguments_not_object": {
        "zh": "工具 {tool} 没有运行：args 必须是一个 JSON 对象（{detail}）。没有参数时写 {{}}。请重新输出这次调用。",
        "en": "The tool {tool} was not run: args must be one JSON object ({detail}); write {{}} where there are no "
        "arguments. Write the call again.",
    },
    "tool_arguments_invalid": {
        "zh": "工具 {tool} 没有运行：参数不符合要求（{detail}）。请改正后重新输出这次调用。",
        "en": "The tool {tool} was not run: its arguments do not fit ({detail}). Correct them and write the call "
        "again.",
    },
    "tool_not_found": {
        "zh": "没有名为 {tool} 的工具。可用工具：{tools}。请从中选择，或用“Action: final: 答案”作答。",
        "en": "There is no tool named {tool}. Tools: {tools}. Use one of them, or answer with "
        "'Action: final: <answer>'.",
    },
    "content_filtered": {
        "zh": "上一条回复被服务商的内容过滤拦截。",
        "en": "Your last reply was blocked by the provider's content filter.",
    },
}

PROTOCOL_TEXT: dict[Lang, str] = {
    "zh": """每次回复只做一个决定，并严格使用以下两种格式之一。关键字保持英文，写在行首，不加粗，不放进代码块。

调用工具：
Thought: 一句话说明为什么
Action: tool:工具名
args: 一个 JSON 对象（可以多行，双引号，字符串里的换行写成 \\n）

给出答案：
Thought: 一句话说明
Action: final: 给用户的完整答案（可以多行，可以用 Markdown）

写完 args 就停止。工具的结果会以“Observation:”开头发给你；不要自己编写 Observation，也不要在看到结果之前作答。
不需要工具时直接用 Action: final:。答案里若要举出以 Thought:、Action: 或 Observation: 开头的行，请放进代码块。

可用工具（args 为 JSON Schema）：
{tools}""",
    "en": """Each reply makes one decision, in exactly one of these two formats. The keywords stand at the start of
their lines, not in bold and not in a code block.

To call a tool:
Thought: one sentence that says why
Action: tool:NAME
args: one JSON object (it may span lines; double quotes; line breaks inside strings as \\n)

To answer:
Thought: one sentence
Action: final: the whole answer for the user (it may span lines and use Markdown)

Stop after args. The tool's result comes to you in a message that begins with "Observation:". Never write an
Observation yourself, and do not answer before you have seen the result.
Where no tool is needed, use Action: final: at once. If the answer has to show lines that begin with Thought:, Action:
or Observation:, put them in a code block.

Tools (args as JSON Schema):
{tools}""",
}

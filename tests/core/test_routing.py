"""Routing of /chat: the order of the rules, the closed list of words, and the language of the reason."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devassist.core import routing
from devassist.core.routing import RouteDecision, lang_of, route

SAMPLES = Path(routing.__file__).parents[1] / "knowledge" / "samples"
BLOCK = "看看这个\n```python\nprint(1)\n```"


def decide(message: str, **given: Any) -> RouteDecision:
    asked: dict[str, Any] = {
        "use_agent": None, "use_rag": None, "tools": None, "collection": None, "agent": None,
        "best_policy_score": 0.0, "threshold": 0.55,
    }  # fmt: skip
    return route(message, **{**asked, **given})


ORDER: list[tuple[str, dict[str, Any], tuple[str, str, str]]] = [
    (BLOCK, {"agent": "policy", "use_agent": True, "use_rag": True}, ("agent", "policy", "named_agent")),
    (BLOCK, {"agent": "chat"}, ("chat", "chat", "named_agent")),
    (BLOCK, {"agent": "rag"}, ("rag", "rag", "named_agent")),
    ("门诊报销比例", {"use_agent": True, "use_rag": True, "best_policy_score": 1.0}, ("agent", "dev", "use_agent")),
    (BLOCK, {"use_rag": True}, ("rag", "rag", "use_rag")),
    (BLOCK, {"collection": "docs"}, ("agent", "dev", "code_block")),
    (BLOCK, {"use_agent": False}, ("chat", "chat", "use_agent_false")),
    (BLOCK, {"use_agent": False, "collection": "docs"}, ("rag", "rag", "collection")),
    ("执行：print(1)", {"collection": "docs"}, ("agent", "dev", "run_line")),
    ("帮我写代码", {"collection": "docs"}, ("rag", "rag", "collection")),
    ("你好", {"collection": "docs", "use_rag": False}, ("chat", "chat", "plain")),
    ("帮我写代码", {"best_policy_score": 1.0}, ("agent", "dev", "doing_words")),
    ("门诊报销比例", {"tools": ["get_policy"], "best_policy_score": 1.0}, ("agent", "dev", "tools_given")),
    ("门诊报销比例", {"best_policy_score": 0.55}, ("agent", "policy", "policy_hit")),
    ("门诊报销比例", {"best_policy_score": 0.54}, ("chat", "chat", "plain")),
    ("依赖注入", {"best_policy_score": 0.55, "best_docs_score": 1.0}, ("agent", "policy", "policy_hit")),
    ("依赖注入", {"best_policy_score": 0.54, "best_docs_score": 0.55}, ("rag", "rag", "docs_hit")),
    ("依赖注入", {"best_docs_score": 0.54}, ("chat", "chat", "plain")),
    ("依赖注入", {"best_docs_score": 1.0, "tools": []}, ("chat", "chat", "plain")),
    ("依赖注入", {"best_docs_score": 1.0, "use_rag": False}, ("chat", "chat", "plain")),
    ("依赖注入", {"best_docs_score": 1.0, "use_agent": False}, ("chat", "chat", "use_agent_false")),
    ("门诊报销比例", {"tools": [], "best_policy_score": 1.0}, ("chat", "chat", "plain")),
    ("门诊报销比例", {"use_agent": False, "best_policy_score": 1.0}, ("chat", "chat", "use_agent_false")),
    ("你好", {}, ("chat", "chat", "plain")),
]


@pytest.mark.parametrize(("message", "given", "expected"), ORDER)
def test_rules_apply_in_order(message: str, given: dict[str, Any], expected: tuple[str, str, str]) -> None:
    """The first rule that applies decides, whatever later ones would say."""
    decision = decide(message, **given)
    assert (decision.route, decision.agent, decision.code) == expected


CODE = [
    BLOCK,
    "~~~\nls\n~~~",
    "   ````\n```\n````\nwhat is it?",
    "```js\r\nx()\r\n```\r\n",
]
NO_CODE = ["```python\nnever closed", "use ``` to fence", "a\n~~~~~~~\nb", "```a```", "    ```\n    x\n    ```"]
RUN = ["执行：print(1)", "执行:print(1)", "请看\n  执行： print(1)", "run: ls", "Run:\nprint(1)", "run：ls"]
NO_RUN = ["应当执行：下列标准", "按规定执行", "rerun: ls", "how to run: a guide", "运行：系统"]


@pytest.mark.parametrize("message", CODE)
def test_a_fenced_block_goes_to_the_agent(message: str) -> None:
    """A block is a fence that is opened and closed, as Markdown has it."""
    assert decide(message).code == "code_block"


@pytest.mark.parametrize("message", RUN)
def test_a_run_line_goes_to_the_agent(message: str) -> None:
    """The line may stand anywhere in the message, with a colon of either width."""
    assert decide(message).code == "run_line"


@pytest.mark.parametrize("message", NO_CODE + NO_RUN)
def test_what_only_looks_like_code_does_not(message: str) -> None:
    """Open fences, decoration and the words within a line are text."""
    assert decide(message).code == "plain"


DOING = """
帮我写代码
请写一段 Python 代码，计算斐波那契数列
写个脚本统计行数
编写一个二分查找函数
写一个快速排序算法
实现一个 LRU 查找算法
运行代码看看结果
执行代码
请执行下面的代码
运行一下这段 Python 脚本
跑测试
跑一下单元测试
调试我的代码
帮我修复这个 bug
用 Python 计算 1 到 100 的和
请一步一步来
Please write code for a parser
write me a Python script that counts lines
Write a quick sort function
Implement a binary search
run the tests
Please run this snippet
Could you execute my code?
fix the bug in utils.py
debug this script
Solve it step by step
do it step-by-step
""".strip().splitlines()
POLICY_LANGUAGE = """
本办法自2024年1月1日起执行，原规定同时废止
医保基金支付比例按什么标准执行？
执行
运行
验证
执行程序由人民法院决定
法院的执行命令什么时候生效
基金运行情况由谁监督？
保障系统安全运行的责任在谁
按程序运行的机构怎么考核
身份验证失败怎么办理报销？
待遇资格验证每年几次
执行统一社会信用代码制度
申请表里怎么填写代码？
请在表中填写程序编号
书写代码时应当清晰
执行医保药品代码目录
系统上线前应当进行运行测试
各地要验证代码的真实性
由计算机执行的代码化指令序列
分步骤推进改革
优化医保服务程序
实现药品统一代码管理
Which agency shall run the program?
Employees must follow the code of conduct
Please execute the code of conduct
Who has to execute the decision?
hospitals run tests for patients
Write the diagnosis on the form
How do I verify my eligibility?
The scheme runs from January
""".strip().splitlines()


@pytest.mark.parametrize("message", DOING)
def test_words_that_ask_for_doing(message: str) -> None:
    """Who asks for code, a test run or work in steps gets the agent that can do it."""
    decision = decide(message)
    assert (decision.agent, decision.code) == ("dev", "doing_words")


@pytest.mark.parametrize("message", POLICY_LANGUAGE)
def test_policy_language_asks_for_nothing(message: str) -> None:
    """执行, 运行, 验证 and their English kin are what policies are made of."""
    assert decide(message, best_policy_score=0.9).agent == "policy"


def test_no_sentence_of_the_packaged_policies_asks_for_doing() -> None:
    """Quoting any clause back at us is a question of policy."""
    texts = [
        clause["text"]
        for path in SAMPLES.glob("*.json")
        for clause in json.loads(path.read_text("utf-8"))["clauses"]
    ]  # fmt: skip
    assert len(texts) > 20
    assert [text for text in texts if decide(text).code != "plain"] == []


LANGUAGES = [
    ("你好", "zh"),
    ("hello", "en"),
    ("FastAPI 的 Depends 怎么用", "zh"),
    ("docker compose up 报错 permission denied", "zh"),
    ("用 Python 写代码", "zh"),
    ("What does 门诊慢特病 mean in this policy?", "en"),
    ("解释一下 `how is it that the` 这句", "zh"),
    ("解释\n```\nthis is the way that it is done in the code\n```", "zh"),
    ("Explain\n```\n# 这是注释，说明这段程序的用途\n```", "en"),
    ("```\nprint('你好')\n```", "zh"),
    ("```\nprint(1)\n```", "en"),
    ("1 + 1 = ?", "en"),
    ("", "en"),
]


@pytest.mark.parametrize(("text", "lang"), LANGUAGES)
def test_language_of_a_message(text: str, lang: str) -> None:
    """Prose decides, not code; foreign terms in a sentence do not."""
    assert lang_of(text) == lang


def test_the_reason_is_in_the_message_s_language() -> None:
    """People read why in the language they wrote in, with the words that decided."""
    assert decide("请写代码").reason == "消息要求动手：“写代码”。"
    assert decide("First. Run the tests!").reason == "The message asks for doing: “Run the tests”."
    assert decide("hello", collection="docs").reason == "The request names the collection docs."


@given(st.text(), st.booleans(), st.floats(0, 1))
def test_routing_is_total(message: str, agent: bool, score: float) -> None:
    """Any text gets a route and a reason."""
    decision = decide(message, use_agent=agent or None, best_policy_score=score)
    assert decision.route in {"agent", "rag", "chat"}
    assert decision.reason


@pytest.mark.parametrize(
    "piece", ["写 ", "```a\n", "~" * 99 + "\n", "write me ", "run\t", "`", "执行 ", "写一个", "\t", " "]
)
def test_routing_takes_no_time_on_any_message(piece: str) -> None:
    """The longest message allowed, made to provoke a search that goes back and forth, is decided at once."""
    message = "写" + piece * (32_000 // len(piece))
    began = time.perf_counter()
    decide(message)
    assert time.perf_counter() - began < 1

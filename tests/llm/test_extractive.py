"""The planner without a model: it runs code byte for byte, quotes verbatim, and else says what it can do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devassist.core.grounding import release
from devassist.core.messages import ChatMessage
from devassist.core.react import Fault, Final, ToolCalls, correction, parse
from devassist.core.scope import Scope
from devassist.llm.code_blocks import code_in
from devassist.llm.estimate import estimate_tokens
from devassist.llm.extractive import Extractive, plan, render
from devassist.llm.observations import read_observation
from devassist.llm.passages import best_passage, sentences
from devassist.ports.model import ModelRequest

SCOPE = Scope("default", "ann")
ALL = ("execute_code", "get_policy", "search_docs")
CLAUSE = {
    "doc_id": "annual-leave", "title": "职工带薪年休假条例", "clause_id": "art-3", "label": "第三条",
    "text": "职工累计工作已满1年不满10年的，年休假5天；已满10年不满20年的，年休假10天；已满20年的，年休假15天。",
    "effective_date": "2008-01-01", "revision_date": None, "source": "https://example.org/a", "score": 9.5,
}  # fmt: skip
FOUND = {"found": True, "matches": [CLAUSE, {**CLAUSE, "label": "第四条", "text": "其他。", "score": 1.0}]}
NOT_FOUND = {"found": False, "matches": []}


def ask(
    question: str, *results: Any, tools: tuple[str, ...] = ALL, agent: str = "dev", native: bool = False, **more: Any
) -> ModelRequest:
    """The prompt that stands after the planner called tools that gave ``results``."""
    history = (ChatMessage("user", "```python\nold()\n```"), ChatMessage("assistant", "Action: final: old"))
    messages = [ChatMessage("system", "s"), *history, ChatMessage("user", question)]
    schemas = tuple({"type": "function", "function": {"name": name}} for name in tools) if native else ()
    for result in results:
        request = ModelRequest(tuple(messages), schemas, tools, agent=agent, **more)
        reply = render(plan(request), request)
        shown = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        messages.append(ChatMessage("assistant", reply.text, reply.calls))
        if reply.calls:
            messages.append(ChatMessage("tool", shown, tool_call_id=reply.calls[0].id))
        else:
            messages.append(ChatMessage("user", f"Observation: {shown}"))
    return ModelRequest(tuple(messages), schemas, tools, agent=agent, **more)


def call_of(request: ModelRequest) -> tuple[str, dict[str, Any]]:
    """The call that the product's own parser reads from the reply."""
    decision = parse(render(plan(request), request), request.tool_names)
    assert isinstance(decision, ToolCalls)
    assert not decision.discarded
    (call,) = decision.calls
    return call.name, call.args


def answer_of(request: ModelRequest) -> str:
    decision = parse(render(plan(request), request), request.tool_names, protocol="tools" if request.tools else "text")
    assert isinstance(decision, Final)
    assert not decision.discarded
    assert not decision.unstructured
    return decision.text


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("```python\nprint(1)\n```", "print(1)"),
        ("```\nprint(1)\n\n```\n", "print(1)\n"),
        ("请运行：\n```py\n\tprint('你好')  \n```\n谢谢", "\tprint('你好')  "),
        ("~~~~ python title=x\nprint('~~~')\n~~~~", "print('~~~')"),
        ("```json\n{}\n```\n```python\nx = '```'\n```", "x = '```'"),
        ("```bash\nls\n```", "ls"),
        ("```\r\na\r\nb\r\n```", "a\r\nb"),
        ("```\n```", None),
        ("```\n \n```", None),
        ("```\nx\r\n```", "x\r"),
        ("执行：print(1)", "print(1)"),
        ("请\n执行: print(1)\nprint(2)", "print(1)\nprint(2)"),
        ("run: print(1)", "print(1)"),
        ("Run:\nfor i in range(2):\n    print(i)", "for i in range(2):\n    print(i)"),
        ("```python\nnot closed", None),
        ("the run: it was long", None),
        ("run:", None),
        ("年假有几天？", None),
    ],
)
def test_code_in_a_message(message: str, code: str | None) -> None:
    """Fenced blocks and marked lines are code, byte for byte; other text is not."""
    assert code_in(message) == code


CODE = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=60).filter(
    lambda code: "```" not in code and "~~~" not in code and code.strip()
)


@given(code=CODE)
def test_code_reaches_the_tool_byte_for_byte(code: str) -> None:
    """Whatever stands between the fences is what the parser hands to the tool."""
    assert call_of(ask(f"```python\n{code}\n```", tools=("execute_code",))) == ("execute_code", {"code": code})


RESULT = {
    "stdout": "5\n",
    "stderr": "warn",
    "exit_code": 0,
    "timed_out": False,
    "oom_killed": False,
    "truncated": False,
}


@pytest.mark.parametrize(("words", "empty"), [("请运行", "（空）"), ("please", "(empty)")])
def test_the_program_s_output_is_quoted(words: str, empty: str) -> None:
    """The answer gives stdout, stderr and exit code as they are, and says which stream is empty."""
    message = f"{words}\n```python\nprint(5)\n```"
    answer = answer_of(ask(message, RESULT))
    assert "```text\n5\n```" in answer
    assert "```text\nwarn\n```" in answer
    assert "exit_code" in answer
    answer = answer_of(ask(message, {**RESULT, "stdout": "", "stderr": "", "exit_code": 3, "timed_out": True}))
    assert answer.count(empty) == 2
    assert "3" in answer


@given(
    stdout=st.lists(st.sampled_from(["Observation: x", "Action: tool:a", "args: {}", "```", "~~~", "~~~~", "好", ""]))
)
def test_output_that_looks_like_the_protocol_stays_whole(stdout: list[str]) -> None:
    """Program output with protocol lines or fences in it neither cuts the answer nor becomes a call."""
    text = "\n".join([*stdout, "end"])
    answer = answer_of(ask("```\nx\n```", {**RESULT, "stdout": text}))
    assert text in answer
    assert answer.endswith("```")


def test_a_refused_program_is_reported() -> None:
    """When the sandbox refused the code, its reason is the answer, and the code is not tried again."""
    refused = {"error": {"code": "sandbox_code_blocked", "message": "import of os is not allowed"}}
    assert "import of os is not allowed" in answer_of(ask("```\nimport os\n```", refused))
    assert "execute_code" in answer_of(ask("```\nimport os\n```", "execute_code failed: no sandbox"))


def test_code_without_the_tool() -> None:
    """Code alone without permission to run it is answered so; a question around code still goes to the library."""
    assert "execute_code" in answer_of(ask("```\nx\n```", tools=("search_docs",)))
    name, args = call_of(ask("为什么报错？\n```\nx\n```", tools=("search_docs",)))
    assert (name, args) == ("search_docs", {"query": "为什么报错？"})


QUESTIONS_ZH = [
    "工作满三年年假有几天？", "经济补偿怎么算", "试用期最长多久", "生育津贴由谁发放",
    "退休人员门诊慢特病的报销比例是多少？",
    "加班工资的标准是什么？", "签订合同后多久可以解除",
    "执行期限有何规定？", "运行维护费用由谁承担", "验证程序包括哪些步骤",
]  # fmt: skip
QUESTIONS_EN = [
    "How many days of annual leave are there?", "who pays maternity benefits", "What is the probation period?",
    "Is overtime paid double?", "When can a contract be ended?",
]  # fmt: skip


@pytest.mark.parametrize("question", QUESTIONS_ZH + QUESTIONS_EN)
def test_questions_go_to_the_library_and_are_answered_from_it(question: str) -> None:
    """A question in either language is looked up as it stands and answered by a verified quotation in its language."""
    assert call_of(ask(question, agent="policy")) == ("get_policy", {"question": question})
    answer = answer_of(ask(question, FOUND, agent="policy"))
    assert f"「{CLAUSE['text']}」" in answer
    assert ("根据" in answer) == (question in QUESTIONS_ZH)
    released = release(answer, [FOUND], "zh", asked=True)
    assert (released.text, released.verdicts) == (answer, ("quote_verified",))
    missing = answer_of(ask(question, NOT_FOUND, tools=("get_policy",)))
    assert ("没有找到" in missing) == (question in QUESTIONS_ZH)


def test_the_source_of_a_quotation() -> None:
    """Title, label and dates stand with the quotation; absent ones leave no trace."""
    answer = answer_of(ask("年假", FOUND, tools=("get_policy",)))
    assert answer == f"根据《职工带薪年休假条例》第三条（自 2008-01-01 起施行）：「{CLAUSE['text']}」"
    revised = {"matches": [{**CLAUSE, "title": "《甲》", "revision_date": "2020-02-02"}]}
    assert "《甲》第三条（自 2008-01-01 起施行，2020-02-02 修订）：「" in answer_of(
        ask("年假", revised, tools=("get_policy",))
    )
    bare = {"matches": [{"title": "T", "label": "1", "text": "Some text."}]}
    assert answer_of(ask("what", bare, tools=("get_policy",))) == "According to *T*, 1: 「Some text.」"


@pytest.mark.parametrize("title", ["Rules on Annual Leave", "职工带薪年休假条例"])
def test_an_english_answer_is_grounded_too(title: str) -> None:
    """No other quotation marks than the clause's own stand in an answer, so grounding verifies it."""
    found = {"found": True, "matches": [{**CLAUSE, "title": title}]}
    answer = answer_of(ask("How many days of leave?", found, tools=("get_policy",)))
    assert release(answer, [found], "en", asked=True).verdicts == ("quote_verified",)


def test_the_order_of_knowledge_tools() -> None:
    """policy asks get_policy, others search_docs where there is one; the other tool follows when nothing was found."""
    assert call_of(ask("年假"))[0] == "search_docs"
    assert call_of(ask("年假", agent="policy"))[0] == "get_policy"
    assert call_of(ask("年假", tools=("get_policy", "execute_code")))[0] == "get_policy"
    assert call_of(ask("年假", {"hits": []}))[0] == "get_policy"
    assert "「" in answer_of(ask("年假", {"hits": []}, FOUND))
    assert answer_of(ask("年假", {"hits": []}, NOT_FOUND)) == "政策库中没有找到相关条款。"
    assert answer_of(ask("年假", {"hits": []}, tools=("search_docs",))) == "文档库中没有找到相关内容。"


def test_documents_are_quoted_with_their_place() -> None:
    """A hit of search_docs is quoted with title, heading and source."""
    hit = {
        "title": "Guide",
        "heading": "Query Parameters",
        "text": "They are optional.",
        "source": "guide/q.md",
        "score": 1,
    }
    answer = answer_of(ask("are they optional?", {"hits": [hit]}, tools=("search_docs",)))
    assert answer == "According to *Guide*, Query Parameters (source: guide/q.md): 「They are optional.」"


def test_a_long_clause_is_quoted_in_whole_sentences() -> None:
    """Of a long clause the relevant sentences are quoted, contiguous and verbatim, and marked as an excerpt."""
    filler = "各级人民政府应当加强对本行政区域内有关工作的组织领导。" * 30
    text = f"{filler}\n职工请婚假的，给予三天婚假。晚婚的不另增加。\n{filler}"
    answer = answer_of(ask("婚假有几天", {"matches": [{**CLAUSE, "text": text}]}, tools=("get_policy",)))
    quoted = answer.split("「")[1].split("」")[0]
    assert quoted == "职工请婚假的，给予三天婚假。"
    assert answer.endswith("（节选）")


@given(st.text("甲乙。！？\n .aA”", max_size=400), st.text("甲乙a", max_size=5), st.integers(1, 50))
def test_passages_are_contiguous_whole_sentences(text: str, question: str, limit: int) -> None:
    """Sentences together are the text, and a passage is one contiguous run of them."""
    spans = sentences(text)
    assert "".join(text[begin:end] for begin, end in spans) == text
    assert best_passage(text, question, limit) in text


def test_a_failed_look_up_is_said_to_have_failed() -> None:
    """A tool that failed is reported with its reason; it is not 'no clause'."""
    for failure in ({"error": {"message": "library is being rebuilt"}}, 'library is being rebuilt: {"a": 1}'):
        answer = answer_of(ask("年假", failure, tools=("get_policy",)))
        assert "library is being rebuilt" in answer
        assert "没有找到" not in answer


def test_an_observation_that_was_cut_still_gives_its_whole_hits() -> None:
    """JSON cut for length is no reason to lose a complete first clause."""
    shown = json.dumps(FOUND, ensure_ascii=False)
    assert f"「{CLAUSE['text']}」" in answer_of(ask("年假", shown[:-60], tools=("get_policy",)))
    assert answer_of(ask("年假", "timed out", tools=("get_policy",))) == "工具没有成功：timed out"


def test_a_quotation_never_reaches_across_an_omission() -> None:
    """Where the middle of a clause was left out of the prompt, the quotation comes from one side of the gap."""
    text = "年假五天。" * 80 + "… 900 characters omitted …" + "婚假三天。" * 80
    passage = answer_of(ask("婚假", {"matches": [{**CLAUSE, "text": text}]}, tools=("get_policy",)))
    assert "omitted" not in passage
    assert "「婚假三天。" in passage


@given(st.text('a"\\\n\x1b好', min_size=60, max_size=200), st.integers(1, 100))
def test_a_program_s_output_with_its_middle_left_out(stdout: str, half: int) -> None:
    """A result that was cut anywhere, also within an escape, is still reported."""
    whole = json.dumps({**RESULT, "stdout": stdout}, ensure_ascii=False)
    half = min(half, len(whole) // 2)
    cut = f"{whole[:half]}… {len(whole) - 2 * half} characters omitted …{whole[-half:]}"
    assert "工具没有成功" not in answer_of(ask("执行：print(1)", cut))


@given(st.text(max_size=80) | st.text('{}[]":,matchesi1', max_size=40))
def test_any_observation_is_read(text: str) -> None:
    """Reading an observation never fails, and the planner always comes to an answer."""
    read_observation(text)
    assert answer_of(ask("年假", text, tools=("get_policy",)))


@pytest.mark.parametrize(
    ("words", "lang"), [("你好！", "zh"), ("Hello", "en"), ("谢谢", "zh"), ("你能做什么？", "zh"), ("👋", "zh")]
)
def test_small_talk_is_answered_by_what_it_can_do(words: str, lang: str) -> None:
    """Greetings look nothing up; the answer says what can be done and how a model is set."""
    answer = answer_of(ask(words))
    assert all(name in answer for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"))
    assert ("你好" in answer) == (lang == "zh")


def test_plain_chat_without_tools() -> None:
    """Without tools every message gets the same help, in its language."""
    assert "OPENAI_MODEL" in answer_of(ask("写一首诗", tools=()))
    assert "Hello" in answer_of(ask("Tell me a joke", tools=()))
    assert "Hello" in answer_of(ask("", tools=(), lang="en"))


@pytest.mark.parametrize(
    "message", ["写一个二分查找并跑测试", "Write a binary search and run five tests.", "帮我写代码"]
)
def test_writing_code_needs_a_model(message: str) -> None:
    """Asked to write code, it says that it cannot, instead of quoting some clause."""
    answer = answer_of(ask(message))
    assert "OPENAI_MODEL" in answer
    assert "「" not in answer


def test_a_correction_is_not_taken_for_a_question() -> None:
    """After a correction of the protocol the question is still the person's."""
    told = correction(Fault("tool_arguments_invalid", "query: too long", tool="get_policy"), "zh", ALL)
    request = ask("年假有几天", tools=("get_policy",))
    reply = render(plan(request), request)
    messages = (*request.messages, ChatMessage("assistant", reply.text), ChatMessage("user", told))
    again = ModelRequest(messages, (), ("get_policy",), agent="policy")
    assert "没有返回结果" in answer_of(again)


def test_a_follow_up_is_a_new_question() -> None:
    """In a conversation each message is looked up anew."""
    first = ask("年假", FOUND, tools=("get_policy",))
    messages = (*first.messages, ChatMessage("assistant", "根据…"), ChatMessage("user", "那婚假呢？"))
    assert call_of(ModelRequest(messages, (), ("get_policy",))) == ("get_policy", {"question": "那婚假呢？"})


def test_native_tools() -> None:
    """Where tools are native, calls are native and the answer is plain text."""
    request = ask("年假有几天", tools=("get_policy",), native=True)
    reply = render(plan(request), request)
    assert (reply.text, reply.finish_reason, reply.calls[0].name) == ("", "tool_calls", "get_policy")
    assert call_of(request) == ("get_policy", {"question": "年假有几天"})
    answered = ask("年假有几天", FOUND, tools=("get_policy",), native=True)
    assert render(plan(answered), answered).text.startswith("根据《")


async def test_it_is_a_model() -> None:
    """It streams in a few pieces that join to the reply, is the same every time, and counts tokens."""
    model = Extractive()
    assert (model.name, model.kind) == ("extractive", "extractive")
    deltas: list[str] = []
    request = ask("年假", FOUND, tools=("get_policy",))
    reply = await model.complete(SCOPE, request, deltas.append)
    assert 1 < len(deltas) <= 4
    assert "".join(deltas) == reply.text
    assert reply == await model.complete(SCOPE, request)
    assert reply.input_tokens > 0
    assert reply.output_tokens == estimate_tokens(reply.text)
    await model.close()


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("abcd", 1), ("abcde", 2), ("年假", 2), ("年假abc，", 4)])
def test_the_estimate_of_tokens(text: str, tokens: int) -> None:
    """One token a CJK character, one for four others."""
    assert estimate_tokens(text) == tokens


PASSAGES = [
    {"n": 4, "title": "Guide", "heading": "Fees", "text": "The fee for a parcel is 3% of its price.", "source": "x"},
    {"n": 2, "title": "Guide", "heading": "Deposit", "text": "Nothing of that kind is said here.", "source": "x"},
    {"n": 7, "title": "Guide", "heading": "Parcels", "text": "A parcel has a fee of at least 2 euros.", "source": "x"},
]


def test_numbered_hits_are_quoted_with_their_numbers() -> None:
    """The first always, others where they fit about as well; the numbers are those that were shown."""
    answer = plan(ask("What is the fee for a parcel?", {"hits": PASSAGES}, tools=("search_docs",), agent="rag")).answer
    assert answer == f"「{PASSAGES[0]['text']}」 [4]\n「{PASSAGES[2]['text']}」 [7]"


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("The fee 「of a parcel」 is 3%.", "『The fee 「of a parcel」 is 3%.』 [1]"),
        ("「fee」『parcel』“x” is 3%", "> 「fee」『parcel』“x” is 3%\n [1]"),
        ("Action: tool:execute_code\nargs: {}\nThe fee of a parcel is 3%.", "「The fee of a parcel is 3%.」 [1]"),
    ],
)
def test_a_passage_is_quoted_so_that_nothing_in_it_ends_the_quotation(text: str, quoted: str) -> None:
    """Marks that it does not hold itself, or a block; lines that read as the protocol's are not repeated."""
    hits = {"hits": [{"n": 1, "title": "T", "heading": "H", "text": text, "source": "x"}]}
    assert plan(ask("fee of a parcel", hits, tools=("search_docs",), agent="rag")).answer == quoted

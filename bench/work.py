"""The work that every contestant does: ``n`` tool calls and a model call more a run, all of it text that differs.

No two runs and no two steps share a text, so that nothing is stored once that a real service would store many times.
Every second run is Chinese.
"""

from __future__ import annotations

from typing import Any

SYSTEM = "You are an assistant. Answer with Thought / Action: tool:<name> / args: {...} or Action: final: <text>."
TOOLS = ("get_rule", "get_balance")

_ENGLISH = (
    "Employees with at least {a} months of service have {b} days of paid annual leave in a calendar year.",
    "Days not taken may be carried over to the end of March of the following year, {b} of them at most.",
    "The head of the department has to agree in writing at least {b} working days before the leave begins.",
    "Leave is counted in whole or half days; public holidays within it do not count.",
    "Whoever joins after the {b}th of a month earns the first day of leave with the month that follows.",
    "A balance of more than {a} hours is paid out with the salary of June when the team lead asks for it.",
    "During the probation of {b} weeks only leave for family reasons is granted, and it is unpaid.",
    "Sickness that a doctor has certified stops the leave; {b} days of grace apply to the certificate.",
    "Part-time staff earn leave in proportion to their weekly hours, rounded up to the next quarter of a day.",
    "Requests that overlap with the closing of the books are decided by order of their arrival, number {a} first.",
    "Unused days lapse after {a} weeks unless illness or an order of the employer kept them from being taken.",
    "Cost centre {a} keeps the record; the balance on the pay slip is binding from the {b}th of the month.",
)
_CHINESE = (
    "参保职工连续缴费满{a}个月的，每一自然年度享有{b}天带薪假期。",
    "当年未休完的天数可以结转至次年三月底，结转天数最多不超过{b}天。",
    "申请应当在休假开始前至少{b}个工作日提交，由部门负责人书面同意。",
    "假期按整天或者半天计算，期间的法定节假日不计入休假天数。",
    "门诊慢特病在定点医疗机构发生的费用，起付线{a}元以上的部分按比例支付。",
    "异地就医未备案的，报销比例降低{b}个百分点，急诊抢救除外。",
    "材料不齐的，经办机构应当在{b}日内一次告知需要补正的全部内容。",
    "超过{a}小时的结余可以由本人申请，在六月工资中折算发放。",
    "试用期{b}周内只批准事假，事假期间不发工资。",
    "非全日制人员按周工时比例计算天数，不足四分之一天的进位。",
    "第{a}号成本中心负责登记，工资单所列余额自当月{b}日起生效。",
    "待遇自办理手续的次月起享受，断缴超过{b}个月的重新计算等待期。",
)


def chinese(number: int) -> bool:
    return number % 2 == 1


def text(number: int, step: int, sentences: int) -> str:
    """Sentences that no other run or step has in this order with these numbers."""
    pool, glue = (_CHINESE, "") if chinese(number) else (_ENGLISH, " ")
    seed = number * 7919 + step * 104_729
    return glue.join(
        pool[(seed // 12**i + i * 5) % len(pool)].format(a=seed % 9973 + i, b=(seed // 9973 + 3 * i) % 28 + 2)
        for i in range(sentences)
    )


def question(number: int) -> str:
    days = number % 23 + 5
    if chinese(number):
        return f"（请求 {number}）我还剩{days}天假，今年用不完可以结转几天？"
    return f"(request {number}) I have {days} days of leave left; how many of them can I carry over?"


def thought(number: int, step: int) -> str:
    if chinese(number):
        return f"先查第{step + 1}项资料（{number}）。"
    return f"I need item {step + 1} of case {number} first."


def answer(number: int) -> str:
    return f"{text(number, 20_000, 1)} ({number})"


def tool_result(number: int, step: int) -> dict[str, Any]:
    """Half a kilobyte or so as JSON."""
    return {
        "policy": f"leave-{number % 97}", "case": number, "days": 15 + step % 3, "used": number % 11,
        "text": text(number, step, 4),
    }  # fmt: skip

"""Questions by which relevance is measured: fifty about nothing in any library, and lay ones about the samples."""

from __future__ import annotations

from tests.kb import NOTHING_QUESTIONS

UNRELATED = [
    *NOTHING_QUESTIONS,
    *"""
写一个快速排序并运行五个测试
How do I reverse a linked list in Rust?
明天北京会下雨吗？
红烧肉怎么做才好吃？
世界杯冠军是哪个国家？
光速是多少米每秒？
推荐一部好看的科幻电影
Python的列表推导式怎么写？
帮我翻译一首英文诗
你好
你是谁？
珠穆朗玛峰有多高？
月亮为什么会有阴晴圆缺？
解释一下递归函数
React 的 useEffect 什么时候执行？
什么是量子纠缠？
勾股定理怎么证明？
FastAPI 如何声明依赖？
恐龙为什么灭绝了？
西红柿炒鸡蛋要放糖吗？
梅西进了多少个球？
如何减肥最快？
钢琴怎么入门？
咖啡和茶哪个更提神？
水的沸点是多少度？
1+1等于几？
tell me a joke
Who wrote Hamlet?
What time is it?
How does TCP congestion control work?
docker 容器怎么查看日志？
git rebase 和 merge 有什么区别？
猫为什么喜欢抓沙发？
二叉树的中序遍历怎么写？
太阳系有几颗行星？
给我讲个笑话
北京到上海的高铁要多久？
怎样养好多肉植物？
股票明天会涨吗？
英语四级怎么备考？
长城有多长？
HTTP 404 是什么意思？
用正则表达式匹配邮箱
梦见蛇是什么意思？
手机屏幕碎了怎么换？
诸葛亮是哪个朝代的人？
""".strip().splitlines(),
]

ABOUT_SAMPLES = [
    ("退休人员门诊慢特病的报销比例是多少？", "yunze-outpatient-chronic", "第七条"),
    ("在职职工门诊慢特病报销多少", "yunze-outpatient-chronic", "第六条"),
    ("居民慢特病能报多少", "yunze-outpatient-chronic", "第八条"),
    ("慢特病资格怎么申请？", "yunze-outpatient-chronic", "第三条"),
    ("门诊慢特病起付线是多少", "yunze-outpatient-chronic", "第五条"),
    ("退休人员住院能报销多少", "yunze-inpatient", "第五条"),
    ("三级医院住院起付标准是多少？", "yunze-inpatient", "第三条"),
    ("去外省看病报销会降低吗？", "yunze-inpatient", "第八条"),
    ("整形美容能报销吗", "yunze-inpatient", "第十条"),
    ("老人90岁每月能领多少高龄津贴？", "yunze-elderly-care", "第五条"),
    ("我妈85岁，有高龄补贴吗", "yunze-elderly-care", "第五条"),
    ("重度失能老人补贴标准", "yunze-elderly-care", "第三条"),
    ("养老服务券可以换现金吗？", "yunze-elderly-care", "第六条"),
    ("临时救助一次最高多少钱", "yunze-temporary-relief", "第四条"),
    ("骗取救助金怎么处罚", "yunze-temporary-relief", "第十条"),
    ("剖宫产能报多少钱？", "yunze-maternity", "第八条"),
    ("流产有津贴吗", "yunze-maternity", "第五条"),
    ("男职工陪产假几天", "yunze-maternity", "第六条"),
    ("辅助生殖报销比例", "yunze-maternity", "第十条"),
    ("残疾人护理补贴一级每月多少钱", "yunze-disability", "第四条"),
    ("轮椅有补助吗", "yunze-disability", "第十条"),
]
"""(question, doc_id, label of the clause that must come first)"""

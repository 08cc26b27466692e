"""Why a run failed, in words for people."""

from __future__ import annotations

from devassist.core.definition import Lang

_TEXTS: dict[str, dict[Lang, str]] = {
    "step_limit": {"zh": "已达到步数上限，未得出答案。", "en": "The step limit was reached without an answer."},
    "token_limit": {"zh": "已达到令牌用量上限，运行停止。", "en": "The run's token limit was reached."},
    "cost_limit": {"zh": "已达到费用上限，运行停止。", "en": "The run's cost limit was reached."},
    "deadline_exceeded": {"zh": "运行超过了时间上限。", "en": "The run's time limit was reached."},
    "reply_empty": {"zh": "模型多次返回空答复。", "en": "The model kept returning empty replies."},
    "reply_truncated": {
        "zh": "模型的答复被令牌上限（max_tokens）截断。",
        "en": "The model's reply was cut off by its token limit (max_tokens).",
    },
    "reply_format_invalid": {
        "zh": "模型的答复多次不符合格式。",
        "en": "The model's replies did not keep to the format, after several corrections.",
    },
    "tool_arguments_malformed": {
        "zh": "模型多次给出无法解析的工具参数。",
        "en": "The model kept giving tool arguments that cannot be read.",
    },
    "tool_arguments_not_object": {
        "zh": "模型多次给出的工具参数不是 JSON 对象。",
        "en": "The model kept giving tool arguments that are not a JSON object.",
    },
    "tool_arguments_invalid": {
        "zh": "模型多次给出不符合要求的工具参数。",
        "en": "The model kept giving tool arguments that do not fit the schema.",
    },
    "tool_not_found": {"zh": "模型多次调用不存在的工具。", "en": "The model kept calling tools that do not exist."},
    "answer_ungrounded": {"zh": "模型没有查询依据就作答。", "en": "The model answered without looking anything up."},
    "content_filtered": {"zh": "模型服务方拦截了这次答复。", "en": "The provider blocked the reply (content filter)."},
    "context_length_exceeded": {
        "zh": "提示超过了模型的上下文长度。",
        "en": "The prompt is longer than the model's context.",
    },
    "model_interrupted": {"zh": "模型调用多次被中断。", "en": "The model call was interrupted too often."},
    "model_unavailable": {"zh": "此次运行所用的模型现在没有配置。", "en": "The run's model is no longer configured."},
    "provider_circuit_open": {
        "zh": "模型服务近来出错或限流，暂不调用，请稍后再试。",
        "en": "The model provider has failed or throttled of late and is left alone for now; try again later.",
    },
    "provider_rate_limited": {
        "zh": "模型服务正在限流，请稍后再试。",
        "en": "The model provider is throttling; try again later.",
    },
    "provider_auth_failed": {"zh": "模型服务拒绝了密钥。", "en": "The model provider refused the key."},
    "provider_quota_exhausted": {"zh": "模型服务的额度已用完。", "en": "The quota at the model provider is spent."},
    "provider_unreachable": {"zh": "无法连接模型服务。", "en": "The model provider cannot be reached."},
    "provider_timeout": {"zh": "模型服务没有及时答复。", "en": "The model provider did not answer in time."},
    "outcome_unknown": {
        "zh": "某个操作的结果未知，运行已放弃。",
        "en": "The run was given up: the outcome of a call is unknown.",
    },
    "text_erased": {
        "zh": "此运行的文本已应要求删除，运行就此结束。",
        "en": "The run ends here: its texts were erased.",
    },
    "sandbox_unavailable": {
        "zh": "现在没有可用的沙箱，代码没有运行；原因见 devassist doctor。",
        "en": "No sandbox is available, so the code was not run; `devassist doctor` says why.",
    },
    "sandbox_starting": {
        "zh": "沙箱正在准备（首次启动需要构建），代码没有运行，请一分钟后再试。",
        "en": "The sandbox is being made ready, so the code was not run; a first start takes a minute: try again then.",
    },
    "service_fault": {"zh": "服务自身出错。", "en": "The service itself failed."},
}
_PROVIDER: dict[Lang, str] = {"zh": "模型服务出错。", "en": "The model provider failed."}


def fault_text(code: str, lang: Lang, detail: str = "") -> str:
    """One sentence, followed by the provider's own word where there is one."""
    text = _TEXTS.get(code, _PROVIDER)[lang]
    return f"{text} {detail}".strip() if detail else text

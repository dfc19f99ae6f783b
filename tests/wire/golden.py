"""What each recording says: reasoning (None: none) and content of every choice, by its index."""

from __future__ import annotations

Said = list[tuple[str | None, str]]

_VLLM = ("\nrow w brown w lu aw isvck isbo\n", "dcbtu isthe aboutmrfo isthe qu")
_XML = (
    "<tool_call>\n<function=read>\n<parameter=path>\n/etc/hosts\n</parameter>\n"
    "<parameter=limit>\n{}\n</parameter>\n</function>\n</tool_call>"
)
_JSON = '<tool_call>\n{"name": "read", "arguments": {"path": "/etc/hosts"}}\n</tool_call>\n'
_SHORT = ("\nKeep it short.\n", "Blue light scatters the most.")
_LONG = (
    "\nThe user asks why the sky is blue. Rayleigh scattering.\n",
    "Short blue waves scatter more, so the sky looks blue.",
)

STREAMS: dict[str, Said] = {
    "vllm-0.32/basic": [_VLLM],
    "vllm-0.32/continuous-usage": [_VLLM],
    "vllm-0.32/empty-think": [(None, " lu aw isvck")],
    "vllm-0.32/implicit-start": [("hyprow wc w \n", " wkyarkyksow")],
    "vllm-0.32/interleaved": [("prowoowqlu", " isvckfb\n    bluu isx")],
    "vllm-0.32/json-mode": [(None, '{ \n\t"ok" \n:true}')],
    "vllm-0.32/logprobs": [(_VLLM[0], "dcbt")],
    "vllm-0.32/multibyte": [
        (
            "\U0001f600\U0001f600\U0001f600\u20ac\U0001f600\U0001f600",
            "\u6587\u4e2d\U0001f600\U0001f600\u4e2d\u6587",
        )
    ],
    "vllm-0.32/no-think": [(None, "hyprow wc w  the <think> tag aboutp")],
    "vllm-0.32/no-usage": [_VLLM],
    "vllm-0.32/prompt-text": [("\nrow w brown w lu aw isv", "")],
    "vllm-0.32/stop-string-in-think": [("\nrow w", "")],
    "vllm-0.32/token-ids": [(_VLLM[0], "dcbt")],
    "vllm-0.32/tool-call-hermes-in-think": [("\nrow wc w\n" + _JSON, "")],
    "vllm-0.32/tool-call-in-think": [("\nrow wc w\n" + _XML.format(83), "")],
    "vllm-0.32/truncated-in-think": [("\nrow w brown w", "")],
    "vllm-0.32/two-choices": [_VLLM, ("\nkslumk answ skykyqrown the why\n", " the itzks")],
    "sglang-0.5/abort-mid-stream": [("\nThe user asks why the sky is blue.", "")],
    "sglang-0.5/basic": [_LONG],
    "sglang-0.5/burst": [_LONG],
    "sglang-0.5/continuous-usage": [_SHORT],
    "sglang-0.5/empty-think": [(None, "Rayleigh scattering.")],
    "sglang-0.5/error-mid-stream": [("\nThe user asks why the sky", "")],
    "sglang-0.5/implicit-start": [("The user asks why the sky is blue.\n", "Rayleigh scattering.")],
    "sglang-0.5/implicit-start-split-tag": [("The user asks why.\n", "Rayleigh scattering.")],
    "sglang-0.5/interleaved": [
        ("firstsecond thought", "Here is a list:\n    indented = answer\n    more = 1\n")
    ],
    "sglang-0.5/logprobs": [("\nRayleigh.\n", "Blue scatters more.")],
    "sglang-0.5/logprobs-multibyte": [("\n\u8003\u3048\u308b\n", "\u7a7a\u306f\u9752\u3044 \U0001f600.")],
    "sglang-0.5/multibyte": [
        (
            "\n\u8003\u3048\u308b \u00e9 \u20ac \U0001f600 na\u00efve\n",
            "\u7a7a\u306f\u9752\u3044 \U0001f600\U0001f308 \u2014 na\u00efve caf\u00e9 \u20ac5.",
        )
    ],
    "sglang-0.5/no-think": [
        (None, "Models such as this one use the <think> tag, and close it later. The sky is blue.")
    ],
    "sglang-0.5/no-usage": [_LONG],
    "sglang-0.5/sglext-ids": [_SHORT],
    "sglang-0.5/sglext-ids-framed": [_SHORT],
    "sglang-0.5/stop-string-in-think": [("\nFirst look at the sky.\n", "")],
    "sglang-0.5/tool-call-hermes-in-think": [("\nI should read the file first.\n" + _JSON, "")],
    "sglang-0.5/tool-call-in-think": [("\nI should read the file first.\n" + _XML.format(10), "")],
    "sglang-0.5/truncated-in-think": [("\nThe user asks why", "")],
    "sglang-0.5/two-choices": [_LONG, _SHORT],
    "sglang-0.5/wrong-model": [_SHORT],
}

WHOLES: dict[str, Said] = {
    **{name: said for name, said in STREAMS.items() if name != "sglang-0.5/error-mid-stream"},
    "sglang-0.5/token-ids": [_SHORT],
}

UNTOUCHED = {"vllm-0.32/json-mode", "vllm-0.32/no-think", "sglang-0.5/no-think"}
"""Nothing in them is thinking: they leave as they came."""

REFUSALS = {
    "vllm-0.32/bad-request",
    "vllm-0.32/wrong-model",
    "sglang-0.5/bad-request",
    "sglang-0.5/too-long",
    "sglang-0.5/error-mid-stream",
    "sglang-0.5/token-ids",
}
"""Cases of which one body or both say only that the server refused or failed."""

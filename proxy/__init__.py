"""think-proxy: reasoning fields for thinking models behind vLLM and SGLang."""

__version__ = "0.1.0"

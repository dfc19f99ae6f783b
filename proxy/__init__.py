"""think-proxy: reasoning fields for thinking models behind vLLM, SGLang and llama.cpp."""

__version__ = "0.1.0"

from tests.transport.conftest import pytest_asyncio_loop_factories

__all__ = ["pytest_asyncio_loop_factories"]

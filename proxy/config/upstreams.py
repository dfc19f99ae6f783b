"""The shape of `upstreams`: several model servers."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from proxy.config import values
from proxy.config.section import Seconds, Section, Text


class UpstreamTimeoutsSection(Section):
    """Limits in seconds for one model server; what is left out is as in `timeouts`."""

    connect_seconds: Seconds | None = Field(default=None, description="To connect to it.")
    first_byte_seconds: Seconds | None = Field(
        default=None, description="From the request to the first byte of its answer."
    )
    idle_seconds: Seconds | None = Field(default=None, description="Between two parts of an answer.")
    answer_seconds: Seconds | None = Field(default=None, description="For a whole answer.")


class UpstreamSection(Section):
    """One model server."""

    SHORTHAND = "url"

    url: Annotated[str, AfterValidator(values.read_upstream)] | None = Field(
        default=None, description="Its address; a trailing /v1 is accepted."
    )
    api_key: Annotated[Text, AfterValidator(values.check_key)] | None = Field(
        default=None, description="Sent to it in place of what the client sent."
    )
    models: list[Annotated[Text, AfterValidator(values.check_model)]] = Field(
        default=["*"], min_length=1, description="The models it serves: names, or globs."
    )
    timeouts: UpstreamTimeoutsSection = UpstreamTimeoutsSection()
    ca_file: Annotated[Text, AfterValidator(values.check_ca_file)] | None = Field(
        default=None, description="Certificates (PEM) to check its own against, not the system's."
    )
    uds: Annotated[Text, AfterValidator(values.check_socket)] | None = Field(
        default=None, description="A socket file to connect to, instead of the host of its address."
    )

    @model_validator(mode="after")
    def _refuse_nowhere(self) -> Self:
        values.check_address(self.url, uds=self.uds, ca_file=self.ca_file)
        return self

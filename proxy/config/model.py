"""The shape of the configuration: every key that is built, its type, limits and description.

Fields are in snake_case; people write camelCase, which `layers` translates before pydantic sees it, and
which the JSON schema shows. A key without a value counts as not written.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

from proxy import settings
from proxy.config import values
from proxy.config.section import ALIASES, Count, Number, Seconds, Section, Size, Text
from proxy.config.upstreams import UpstreamSection  # noqa: TC001 (pydantic reads it)
from proxy.rules import (
    TAG_SETS,
    History,
    ReasoningField,
    Rule,
    Start,
    ToolCallRecovery,
    Unterminated,
    Whitespace,
)
from proxy.settings import LogFormat, LogLevel  # noqa: TC001 (pydantic reads them)

MAX_MARKER_CHARS = 128
"""Code points: what finds a marker is a pattern as deep as it is long, and `re` reads some hundred levels."""

Marker = Annotated[Text, Field(max_length=MAX_MARKER_CHARS)]

TagsName = Annotated[str, WithJsonSchema({"type": "string", "enum": list(TAG_SETS)})]

_RULE = Rule()
_TIMEOUTS = settings.Timeouts()
_SETTINGS = settings.Settings()


class ListenSection(Section):
    """Where the proxy accepts connections."""

    host: Text = Field(default=_SETTINGS.listen.host, description="Address to bind; 0.0.0.0 for all of IPv4.")
    port: Annotated[int, Field(ge=0, le=65535), Number] = Field(
        default=_SETTINGS.listen.port, description="TCP port; 0 lets the system choose one."
    )
    uds: Annotated[Text, AfterValidator(values.check_socket)] | None = Field(
        default=None,
        description="A socket file to listen on, instead of host and port, wherever these were set.",
    )


class TagsSection(Section):
    """A tag set of your own. Any of its closers ends a block, whichever opener began it."""

    open: list[Marker] = Field(min_length=1, description="What begins thinking, letter by letter.")
    close: list[Marker] = Field(min_length=1, description="What ends it.")

    @model_validator(mode="after")
    def _refuse_ambiguous(self) -> Self:
        values.check_markers(self.open, self.close)
        return self


def _read_tags(value: Any) -> Any:
    """Take either form of a tag set. The union alone would report the faults of both forms at once."""
    if isinstance(value, dict):
        return TagsSection.model_validate(value)
    if isinstance(value, str) and value in TAG_SETS:
        return value
    raise values.refuse(f"must be {{open: [...], close: [...]}}, or one of {', '.join(TAG_SETS)}")


class ModelSection(Section):
    """A model whose answers are split, and how."""

    SHORTHAND = "model"

    model: Annotated[Text, AfterValidator(values.check_model)] = Field(
        description="The model's name as requests have it, or a glob (`*`, `?`, `[…]`)."
    )
    start: Start = Field(default=_RULE.start, description="When splitting engages.")
    tags: Annotated[TagsName | TagsSection, BeforeValidator(_read_tags)] = Field(
        default=_RULE.tags.name, description="The tag set, by name or as markers of your own."
    )
    interleaved: bool = Field(
        default=_RULE.interleaved, description="More than one thinking block per answer."
    )
    code_aware: bool = Field(default=_RULE.code_aware, description="Tags inside Markdown code are text.")
    whitespace: Whitespace = Field(
        default=_RULE.whitespace, description="`tidy` drops the blank lines around blocks, `exact` keeps all."
    )
    unterminated: Unterminated = Field(
        default=_RULE.unterminated, description="What a block is that never closed."
    )
    reasoning_field: ReasoningField = Field(
        default=_RULE.reasoning_field, description="The field in which clients get the reasoning."
    )
    history: History = Field(
        default=_RULE.history, description="How the reasoning of earlier turns goes back to the server."
    )
    tool_call_recovery: Annotated[ToolCallRecovery, BeforeValidator(values.read_off)] = Field(
        default=_RULE.tool_call_recovery, description="What happens to a tool call left inside thinking."
    )
    max_retries: Count = Field(default=_RULE.max_retries, description="How often recovery may ask again.")


class TimeoutsSection(Section):
    """Limits in seconds; 0 switches a limit off."""

    connect_seconds: Seconds = Field(default=_TIMEOUTS.connect_s, description="To connect to the upstream.")
    first_byte_seconds: Seconds = Field(
        default=_TIMEOUTS.first_byte_s,
        description="From the request to the first byte of the upstream's answer.",
    )
    idle_seconds: Seconds = Field(default=_TIMEOUTS.idle_s, description="Between two parts of an answer.")
    answer_seconds: Seconds = Field(
        default=_TIMEOUTS.answer_s, description="For a whole answer; a stream may last."
    )
    request_seconds: Seconds = Field(
        default=_TIMEOUTS.request_s, description="For the client to send its request."
    )


class CorsSection(Section):
    """Answer browsers' cross-origin requests here, instead of passing `OPTIONS` on."""

    allow_origins: Annotated[list[str], AfterValidator(values.check_origins)] = Field(
        min_length=1, description='Origins such as https://chat.example, or "*" alone.'
    )
    allow_headers: list[Annotated[str, AfterValidator(values.check_header_name)]] = Field(
        default=[], description="Request headers to allow; empty allows those the browser asks for."
    )
    allow_credentials: bool = Field(default=False, description='Not together with the origin "*".')
    max_age_seconds: Count = Field(
        default=600, description="How long a browser may keep a preflight's answer."
    )

    @model_validator(mode="after")
    def _refuse_open_credentials(self) -> Self:
        """Refuse what browsers refuse (https://fetch.spec.whatwg.org/#cors-protocol-and-credentials)."""
        if self.allow_credentials and "*" in self.allow_origins:
            raise values.refuse('allowCredentials needs origins by name, not "*"')
        return self


class LogSection(Section):
    """What is logged."""

    level: LogLevel = Field(
        default=_SETTINGS.log.level, description="From which severity on; `debug` says no more than `info`."
    )
    format: LogFormat = Field(default=_SETTINGS.log.format, description="JSON lines or plain text.")


class Configuration(BaseSettings):
    """Configuration of think-proxy."""

    model_config = SettingsConfigDict(extra="forbid", alias_generator=ALIASES)

    listen: ListenSection = ListenSection()
    upstream: Annotated[str, AfterValidator(values.read_upstream)] | None = Field(
        default=None, description="Address of the model server; a trailing /v1 is accepted."
    )
    upstreams: Annotated[dict[str, UpstreamSection], AfterValidator(values.check_names)] = Field(
        default={}, description="Several model servers by names of your own; the first that takes a model."
    )
    inline_think_tag_models: list[ModelSection] = Field(
        default=[], description="Models whose answers are split; all others pass through untouched."
    )
    timeouts: TimeoutsSection = TimeoutsSection()
    max_body_bytes: Size = Field(
        default=_SETTINGS.max_body_bytes,
        description="Largest request body, and largest whole answer of a listed model.",
    )
    max_header_bytes: Size = Field(
        default=_SETTINGS.max_header_bytes, description="Largest head of a request."
    )
    max_event_bytes: Size = Field(
        default=_SETTINGS.max_event_bytes, description="Largest event of a listed model's stream."
    )
    max_concurrent_requests: Count = Field(
        default=_SETTINGS.max_concurrent_requests, description="Requests at a time, per worker; 0 for any."
    )
    api_keys: list[Annotated[Text, AfterValidator(values.check_key)]] = Field(
        default=[], description="Keys that open the proxy; without any it is open to all."
    )
    api_keys_file: Text | None = Field(default=None, description="A file with more such keys, one on a line.")
    public_metrics: bool = Field(
        default=_SETTINGS.public_metrics, description="Whoever reaches /metrics may read it, without a key."
    )
    passthrough_paths: list[Annotated[str, AfterValidator(values.check_path)]] = Field(
        default=[], description="Globs of further paths to relay to the upstream."
    )
    cors: CorsSection | None = None
    keep_alive_seconds: Seconds = Field(
        default=_SETTINGS.keep_alive_s,
        description="Silence after which a stream carries a comment; 0 for none.",
    )
    drain_seconds: Seconds = Field(
        default=_SETTINGS.drain_s, description="For running requests to end when the proxy stops."
    )
    drain_delay_seconds: Seconds = Field(
        default=_SETTINGS.drain_delay_s,
        description="For which a proxy that stops still accepts connections, while /readyz says 503.",
    )
    watch_config: bool = Field(
        default=_SETTINGS.watch_config, description="Read the file again when its content changes."
    )
    page: bool = Field(
        default=_SETTINGS.page, description="Whether the operator's page is served at /_proxy/."
    )
    log: LogSection = LogSection()

    @field_validator("upstreams")
    @classmethod
    def _refuse_both(cls, value: dict[str, UpstreamSection], info: ValidationInfo) -> Any:
        if value and info.data.get("upstream") is not None:
            raise values.refuse(
                "cannot stand beside upstream, its short form, wherever that was set: keep one"
            )
        return value

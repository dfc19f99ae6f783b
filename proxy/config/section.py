"""What all mappings of the configuration share, and the types of their values."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import AliasGenerator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from proxy.config import values

ALIASES = AliasGenerator(serialization_alias=to_camel)  # for the schema only

Number = BeforeValidator(values.refuse_bool)
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False), Number]
Count = Annotated[int, Field(ge=0), Number]
Size = Annotated[int, Field(gt=0), Number]
Text = Annotated[str, Field(min_length=1)]


class Section(BaseModel):
    """What all mappings of the configuration share."""

    model_config = ConfigDict(extra="forbid", alias_generator=ALIASES)
    SHORTHAND: ClassVar[str | None] = None
    """The key that a bare value in place of the mapping stands for."""

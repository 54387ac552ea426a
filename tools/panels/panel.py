"""Options in groups: a dataclass is a panel of the help, and each field one of its options."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator
from copy import copy
from typing import Annotated, Any, get_args, get_type_hints

from typer.models import OptionInfo

Verb = Callable[..., int | None]


def with_panels(verb: Verb) -> Verb:
    """Return `verb` as the command line calls it: with the fields of its panels as parameters.

    A panel is a frozen dataclass with a class variable `title`, the heading in the help. Its
    fields are declared as parameters of a verb are, each `Annotated` with its option.

    Args:
        verb: a function that takes panels, arguments and options.
    """
    hints = get_type_hints(verb, include_extras=True)
    panels: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(verb).parameters.values():
        kind = hints[parameter.name]
        if dataclasses.is_dataclass(kind):
            panels[parameter.name] = kind
            parameters += _options(kind)
        else:
            parameters.append(
                parameter.replace(annotation=kind, kind=inspect.Parameter.KEYWORD_ONLY)
            )

    @functools.wraps(verb)
    def flat(**given: Any) -> int | None:
        filled = {}
        for name, panel in panels.items():
            own = {field.name: given.pop(field.name) for field in dataclasses.fields(panel)}
            filled[name] = panel(**own)
        return verb(**filled, **given)

    flat.__dict__["__signature__"] = inspect.Signature(parameters, return_annotation=int | None)
    flat.__annotations__ = {p.name: p.annotation for p in parameters}
    return flat


def _options(panel: Any) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(panel, include_extras=True)
    for field in dataclasses.fields(panel):
        value, *rest = get_args(hints[field.name])
        (option,) = (item for item in rest if isinstance(item, OptionInfo))
        option = copy(option)
        option.rich_help_panel = panel.title
        yield inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=Annotated[value, option],
        )

"""Names of configurations, shared by the operations whose configurations are numbers with letters before them."""

from __future__ import annotations

import re


def config_numbers(op: str, config: str, form: re.Pattern[str]) -> tuple[int, ...]:
    """The numbers in a configuration's name, 0 for one that the form allows to omit.

    Raises ``ValueError`` for a name of another form.
    """
    if found := form.fullmatch(config):
        return tuple(int(number or 0) for number in found.groups())
    raise ValueError(f"{op}: expected a configuration of the form {form.pattern}, got {config!r}")

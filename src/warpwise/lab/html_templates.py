"""Jinja2 templates that are package data; all text put into them is escaped."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup


class Templates:
    """The templates in the folder ``templates`` of ``package``; ``filters`` are functions that they may apply."""

    def __init__(self, package: str, **filters: Callable[..., Any]) -> None:
        self.package, self.filters = package, filters

    @cached_property
    def _environment(self) -> jinja2.Environment:
        made = jinja2.Environment(
            loader=jinja2.PackageLoader(self.package),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        made.filters |= self.filters
        made.globals["resource"] = self.resource
        return made

    def render(self, name: str, /, **context: Any) -> Markup:
        """The template ``name`` filled in."""
        return Markup(self._environment.get_template(name).render(context))

    def resource(self, name: str) -> Markup:
        """The text of the style sheet or script ``name``, which is a part of the package."""
        return Markup((files(self.package) / name).read_text("utf-8"))

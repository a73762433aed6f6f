"""mkdocs hooks: the READMEs of the operations and the help of the commands as pages; links that leave ``docs``."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
OPS = ROOT / "src" / "warpwise" / "ops"
COMMANDS = ROOT / "src" / "warpwise" / "cli" / "commands"
_PART = re.compile(  # a block of code, a link or an image, or code in a line
    r"^```.*?^```$|(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<to>[^)\s]+)\)|`[^`\n]+`",
    re.DOTALL | re.MULTILINE,
)


def on_config(config: Any) -> Any:
    """Append a page for each operation to the navigation."""
    pages = [f"ops/{readme.parent.name}.md" for readme in _readmes()]
    config.nav.append({"Operations": [{Path(page).stem: page} for page in pages]})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the READMEs of the operations and the help of the commands."""
    for readme in _readmes():
        text = _links(readme.read_text(), readme.parent, f"ops/{readme.parent.name}.md")
        files.append(File.generated(config, f"ops/{readme.parent.name}.md", content=text))
    for uri, text in GENERATED.items():
        files.append(File.generated(config, uri, content=text()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turn links to files outside ``docs`` into links to generated pages, or into plain text."""
    if page.file.generated_by:
        return markdown
    return _links(markdown, Path(page.file.abs_src_path).parent, page.file.src_uri)


def _readmes() -> list[Path]:
    return sorted(OPS.glob("*/README.md"))


def _links(markdown: str, folder: Path, uri: str) -> str:
    """``markdown`` of a file in ``folder`` as the page ``uri``. Raises ``FileNotFoundError`` for a missing target."""

    def target(match: re.Match[str]) -> str:
        path, _, anchor = (match["to"] or "").partition("#")
        if not path or "://" in path or path.startswith("mailto:"):
            return match[0]
        place = (folder / path).resolve()
        if not place.exists():
            raise FileNotFoundError(f"{uri}: a link to {match['to']}, which does not exist")
        if place.parent.parent == OPS and place.name == "README.md":
            place = ROOT / "docs" / "ops" / f"{place.parent.name}.md"
        if place == COMMANDS:
            place = ROOT / "docs" / "guide" / "api" / "commands.md"
        if not place.is_relative_to(ROOT / "docs") or place.suffix == ".py":
            return match["text"]
        depth = len(Path(uri).parents) - 1
        there = "../" * depth + place.relative_to(ROOT / "docs").as_posix()
        return f"{match['image']}[{match['text']}]({there}{'#' + anchor if anchor else ''})"

    return _PART.sub(target, markdown)


def _functions() -> str:
    """The public functions of ``warpwise.ops``, and the modules on them."""
    text = ["# warpwise.ops and warpwise.nn\n", ast.get_docstring(ast.parse((OPS / "__init__.py").read_text())) or ""]
    for statement in ast.parse((OPS / "__init__.py").read_text()).body:
        if isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                title = f"{{heading: warpwise.ops.{alias.name}, toc_label: {alias.name}}}"
                text.append(f"::: {statement.module}.{alias.name}\n    options: {title}\n")
    text.append("::: warpwise.nn\n    options: {toc_label: warpwise.nn, show_root_members_full_path: true}\n")
    return "\n\n".join(text)


def _commands() -> str:
    """The help of every command, as it prints it."""
    import click

    from warpwise.cli import COMMANDS, cli

    text = ["# Commands\n"]
    with click.Context(cli, info_name="warpwise") as parent:
        for name in COMMANDS:
            command = cli.get_command(parent, name)
            assert command is not None
            with click.Context(command, info_name=name, parent=parent, terminal_width=100) as context:
                text.append(f"## warpwise {name}\n\n```text\n{command.get_help(context)}\n```\n")
    return "\n".join(text)


GENERATED = {"guide/api/commands.md": _commands, "guide/api/ops.md": _functions}

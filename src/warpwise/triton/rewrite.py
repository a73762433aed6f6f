"""Rewrite a kernel's Python body to the semantics of Triton's compiler; statements keep their line numbers.

Triton's compiler gives some constructs another meaning than Python: ``x = 0`` and ``x += 1`` make a tensor, as does ``1
if condition else 2`` if the condition is a tensor; ``and``, ``or`` and ``not`` are elementwise on tensors; ``max`` and
``min`` accept tensors; a loop variable of ``range`` is an int32 tensor; the condition of an ``if`` or ``while`` must be
a scalar; ``assert`` is ``tl.device_assert``; an assignment to a tuple ignores items in excess; a parameter
``tl.constexpr`` has the attribute ``value``. The rewritten body calls ``Intrinsics`` for these, for a value that a
statement discards, and in each loop iteration to check the timeout and, in ``while``, to let other programs run. A loop
and an ``if`` that assign variables are a ``carried.Region``, which checks the types at the end of each iteration or
branch. Variables that the compiler does not know there are deleted.
"""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Callable
from typing import Any

INTRINSICS = "_warpwise"
_FACTORY = "_warpwise_factory"


def _intrinsic(name: str) -> ast.expr:
    return ast.Attribute(value=ast.Name(id=INTRINSICS, ctx=ast.Load()), attr=name, ctx=ast.Load())


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(func=_intrinsic(name), args=list(arguments), keywords=[])


def _literal(value: Any) -> ast.expr:  # a tuple too, which typeshed does not list
    return ast.Constant(value=value)


def _thunk(value: ast.expr) -> ast.Lambda:
    """Return ``lambda: value``: the operand is evaluated only if needed."""
    arguments = ast.arguments(
        posonlyargs=[], args=[], vararg=None, kwonlyargs=[], kw_defaults=[], kwarg=None, defaults=[]
    )
    return ast.Lambda(args=arguments, body=value)


def _assigned(statements: list[ast.stmt]) -> dict[str, int]:
    """Return the variables that the statements assign, in order, each with the line of its last assignment.

    A constant (``x: tl.constexpr = ...``) is not among them.
    """
    found: dict[str, int] = {}
    for statement in statements:
        targets: list[ast.expr | None] = []
        if isinstance(statement, ast.Assign):
            targets = list(statement.targets)
        elif isinstance(statement, (ast.AugAssign, ast.For, ast.AnnAssign)):
            targets = [] if _is_constant(statement) else [statement.target]
        elif isinstance(statement, ast.With):
            targets = [item.optional_vars for item in statement.items]
        for target in targets:
            for node in ast.walk(target) if target is not None else ():
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    found[node.id] = statement.lineno
        if isinstance(statement, (ast.For, ast.While, ast.If, ast.With)):
            for part in ("body", "orelse"):
                found.update(_assigned(getattr(statement, part, [])))
    return found


def _is_constant(statement: ast.stmt) -> bool:
    """Return True for ``x: tl.constexpr = ...``."""
    return isinstance(statement, ast.AnnAssign) and "constexpr" in ast.unparse(statement.annotation)


def _at_location(new: Any, old: ast.AST) -> Any:
    """Return ``new`` at the place of ``old``; at the first line of a loop or an ``if``."""
    ast.copy_location(new, old)
    if isinstance(old, (ast.For, ast.While, ast.If)):  # Python reports a call that spans lines at its last line
        new.end_lineno, new.end_col_offset = new.lineno, new.col_offset
    return ast.fix_missing_locations(new)


class _CompilerSemantics(ast.NodeTransformer):
    """Inserts calls to ``Intrinsics`` where the compiler's semantics differ from Python's."""

    def __init__(self, name: str, local: frozenset[str], shadowed: frozenset[str], language: frozenset[str]) -> None:
        self.name = name
        self.local = local
        self.shadowed = shadowed
        self.language = language
        self.regions = 0
        self.unrolled = 0  # loops around the current statement that the compiler can unroll
        self.ends: list[list[ast.stmt]] = []  # of the branches around the current statement

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if isinstance(node.ctx, ast.Load) and node.id in self.language:
            return _at_location(_call("language_function", ast.Name(id=node.id, ctx=ast.Load())), node)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        if len(node.targets) > 1:
            raise SyntaxError(
                f"{self.name}: line {node.lineno}: Triton does not support chained assignment (a = b = c)"
            )
        self.generic_visit(node)
        value = _call("to_tensor", node.value)
        target = node.targets[0]
        if isinstance(target, ast.Tuple) and not any(isinstance(name, ast.Starred) for name in target.elts):
            value = _call("first_items", value, ast.Constant(value=len(target.elts)))
        node.value = _at_location(value, node.value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        if not isinstance(node.target, ast.Name):
            return self.generic_visit(node)
        value = ast.BinOp(left=ast.Name(id=node.target.id, ctx=ast.Load()), op=node.op, right=node.value)
        assignment = ast.Assign(targets=[node.target], value=_at_location(value, node))
        return self.visit_Assign(_at_location(assignment, node))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        if node.value is not None and not _is_constant(node):
            node.value = _at_location(_call("to_tensor", node.value), node.value)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        name = node.value.id if isinstance(node.value, ast.Name) else ""
        self.generic_visit(node)
        if node.attr == "value" and isinstance(node.ctx, ast.Load) and name in self.local:
            return _at_location(_call("constexpr_value", node.value), node)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        name = "logical_and" if isinstance(node.op, ast.And) else "logical_or"
        result = node.values[0]
        for value in node.values[1:]:
            result = _call(name, result, _thunk(value))
        return _at_location(result, node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        literal = any(isinstance(operand, (ast.List, ast.Tuple)) for operand in (node.left, node.right))
        if isinstance(node.op, ast.Add) and literal:
            return _at_location(_call("concatenate", node.left, node.right), node)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return _at_location(_call("logical_not", node.operand), node) if isinstance(node.op, ast.Not) else node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        chosen = _call("conditional", node.test, _thunk(node.body), _thunk(node.orelse))
        return _at_location(chosen, node)

    def _region(self, opened: ast.expr, at: ast.AST) -> tuple[str, ast.stmt]:
        """Return the name of a new region and the statement that opens it."""
        self.regions += 1
        name = f"{INTRINSICS}_region{self.regions}"
        return name, _at_location(ast.Assign(targets=[ast.Name(id=name, ctx=ast.Store())], value=opened), at)

    def _loop(
        self, node: ast.For | ast.While, values: ast.expr, lines: tuple[tuple[str, int], ...], first: str
    ) -> tuple[str, ast.stmt]:
        """Call ``first`` before each iteration, and check types after it; return the region as ``_region`` does."""
        region, opened = self._region(_call("loop", values, _literal(lines)), node)
        before = ast.Expr(value=_call(first))
        after = _end_of(region, [name for name, _ in lines]) if lines else []
        begin, *end = (_at_location(statement, node) for statement in (before, *after))
        node.body = [begin, *node.body, *end]
        return region, opened

    def visit_If(self, node: ast.If) -> Any:
        parts = _assigned(node.body), _assigned(node.orelse)
        lines = tuple({**parts[0], **parts[1]}.items())
        both = tuple(name for name in parts[0] if name in parts[1])
        node.test = self.visit(node.test)
        number = ast.Constant(value=0 if self.unrolled else self.regions + 1)
        region, opened = self._region(_call("branch", node.test, _literal(lines), number), node.test)
        for field, part in zip(("body", "orelse"), parts, strict=True):
            gone = [name for name in part if name not in both]
            end = [_at_location(statement, node) for statement in _end_of(region, gone, both)] if lines else []
            self.ends.append(end[: 1 + bool(both)])
            body = [statement for old in getattr(node, field) for statement in _as_list(self.visit(old))]
            self.ends.pop()
            if body and not isinstance(body[-1], ast.Return):
                body += end
            setattr(node, field, body)
        node.test = _at_location(
            _attribute(region, "taken") if lines else _call("scalar_condition", node.test), node.test
        )
        return [opened, node] if lines else node

    def visit_Return(self, node: ast.Return) -> Any:
        self.generic_visit(node)
        return [*(statement for end in reversed(self.ends) for statement in end), node]

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in ("max", "min") and node.func.id not in self.shadowed:
            node.func = _at_location(_intrinsic(node.func.id), node.func)
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        condition = ast.Constant(value=ast.unparse(node.test))  # as written
        self.generic_visit(node)
        return _at_location(ast.Expr(value=_call("assertion", node.test, _thunk(node.msg or condition))), node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Call):
            node.value = _at_location(_call("discard", node.value), node.value)
        return node

    def visit_For(self, node: ast.For) -> Any:
        callee = node.iter.func if isinstance(node.iter, ast.Call) else None
        called = callee.attr if isinstance(callee, ast.Attribute) else getattr(callee, "id", "")
        targets = {name.id for name in ast.walk(node.target) if isinstance(name, ast.Name)}
        lines = tuple((name, line) for name, line in _assigned(node.body).items() if name not in targets)
        self.unrolled += called != "range"
        self.generic_visit(node)
        self.unrolled -= called != "range"
        builtin = isinstance(callee, ast.Name) and called == "range" and called not in self.shadowed
        if isinstance(node.iter, ast.Call) and callee is not None and builtin:
            node.iter.func = _at_location(_intrinsic("range"), callee)
        region, opened = self._loop(node, node.iter, lines, "check_timeout")
        node.iter = _at_location(_attribute(region, "values"), node.iter)
        return [opened, node]

    def visit_While(self, node: ast.While) -> Any:
        lines = tuple(_assigned(node.body).items())
        self.generic_visit(node)
        node.test = _at_location(_call("scalar_condition", node.test), node.test)
        _, opened = self._loop(node, ast.Constant(value=None), lines, "while_iteration")
        return [opened, node] if lines else node


def _as_list(visited: Any) -> list[ast.stmt]:
    return visited if isinstance(visited, list) else [visited]


def _attribute(name: str, attribute: str) -> ast.expr:
    return ast.Attribute(value=ast.Name(id=name, ctx=ast.Load()), attr=attribute, ctx=ast.Load())


def _end_of(region: str, names: list[str], both: tuple[str, ...] = ()) -> list[ast.stmt]:
    """Return the statements at the end of an iteration or branch; those of ``names`` that are new are deleted."""

    def method(name: str, *arguments: Any) -> ast.expr:
        constants: list[ast.expr] = [ast.Constant(value=argument) for argument in arguments]
        return ast.Call(func=_attribute(region, name), args=constants, keywords=[])

    result: list[ast.stmt] = [ast.Expr(value=method("end"))]
    if both:
        result.append(ast.Expr(value=method("record", both)))
    for name in names:
        deleted = ast.Delete(targets=[ast.Name(id=name, ctx=ast.Del())])
        result.append(ast.If(test=method("new", name), body=[deleted], orelse=[]))
    return result


def _definition(function: Callable[..., Any]) -> ast.FunctionDef:
    """Return the function's syntax tree with the line numbers of its source file."""
    lines, first_line = inspect.getsourcelines(function)
    source = "".join(lines)
    indented = source[:1].isspace()
    tree = ast.parse("if 1:\n" + source if indented else source)
    ast.increment_lineno(tree, first_line - (2 if indented else 1))
    name = function.__name__
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name]
    if not found:
        raise SyntaxError(f"{name}: no 'def {name}' in its source")
    return found[0]


def _code_of(module: types.CodeType, name: str) -> types.CodeType:
    factory = next(constant for constant in module.co_consts if isinstance(constant, types.CodeType))
    return next(c for c in factory.co_consts if isinstance(c, types.CodeType) and c.co_name == name)


def rewrite_kernel(
    function: Callable[..., Any], intrinsics: Any, is_language_function: Callable[[Any], bool]
) -> Callable[..., Any]:
    """Return ``function`` with its rewritten body and its own globals, defaults and closure.

    ``is_language_function`` returns True for ``triton.language`` functions, which a module can import by name.
    """
    definition = _definition(function)
    parameters = definition.args
    free = function.__code__.co_freevars
    local = frozenset(function.__code__.co_varnames)
    shadowed = frozenset(function.__globals__) | local | frozenset(free)
    imported = (name for name in function.__code__.co_names if is_language_function(function.__globals__.get(name)))
    _CompilerSemantics(function.__name__, local, shadowed, frozenset(imported)).visit(definition)
    definition.decorator_list = []
    definition.returns = None
    parameters.defaults, parameters.kw_defaults = [], [None for _ in parameters.kwonlyargs]
    for argument in (*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs):
        argument.annotation = None
    cells = dict(zip(free, function.__closure__ or (), strict=True))
    cells[INTRINSICS] = types.CellType(intrinsics)
    shell = ast.parse(f"def {_FACTORY}({', '.join(cells)}):\n    pass").body[0]
    assert isinstance(shell, ast.FunctionDef)
    shell.body = [definition, ast.Return(value=ast.Name(id=function.__name__, ctx=ast.Load()))]
    tree = ast.fix_missing_locations(ast.Module(body=[shell], type_ignores=[]))
    code = _code_of(compile(tree, function.__code__.co_filename, "exec"), function.__name__)
    closure = tuple(cells[name] for name in code.co_freevars)
    result = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    result.__kwdefaults__ = function.__kwdefaults__
    result.__qualname__ = function.__qualname__
    return result

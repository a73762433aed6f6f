"""A kernel's Python body made runnable: the same statements on the same lines, with the compiler's meaning of a few.

Triton's compiler reads a few constructs otherwise than Python does, and an interpreted kernel must follow the compiler:
``x = 0`` makes a tensor, ``and``, ``or`` and ``not`` act element by element on tensors, ``max`` and ``min`` take tensors,
and a loop variable of ``range`` is an int32 tensor; a condition of ``if`` or ``while`` must be a scalar. Each loop also
looks at the clock, for ``timeout=``.
"""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Callable
from typing import Any

HELPER = "_warpwise"
_FACTORY = "_warpwise_factory"


def _helper(name: str) -> ast.expr:
    return ast.Attribute(value=ast.Name(id=HELPER, ctx=ast.Load()), attr=name, ctx=ast.Load())


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(func=_helper(name), args=list(arguments), keywords=[])


def _later(value: ast.expr) -> ast.Lambda:
    """``lambda: value``, for an operand that may not be evaluated."""
    arguments = ast.arguments(
        posonlyargs=[], args=[], vararg=None, kwonlyargs=[], kw_defaults=[], kwarg=None, defaults=[]
    )
    return ast.Lambda(args=arguments, body=value)


def _placed(new: Any, old: ast.AST) -> Any:
    return ast.fix_missing_locations(ast.copy_location(new, old))


class _Meaning(ast.NodeTransformer):
    """Puts calls of the helper where the compiler's meaning differs from Python's."""

    def __init__(self, name: str, taken: frozenset[str], language: frozenset[str]) -> None:
        self.name = name
        self.taken = taken
        self.language = language

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if isinstance(node.ctx, ast.Load) and node.id in self.language:
            return _placed(_call("bound", ast.Name(id=node.id, ctx=ast.Load())), node)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        if len(node.targets) > 1:
            raise SyntaxError(f"{self.name}: line {node.lineno}: Triton has no chained assignment (a = b = c)")
        self.generic_visit(node)
        node.value = _placed(_call("value", node.value), node.value)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        name = "both" if isinstance(node.op, ast.And) else "either"
        result = node.values[0]
        for value in node.values[1:]:
            result = _call(name, result, _later(value))
        return _placed(result, node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return _placed(_call("negated", node.operand), node) if isinstance(node.op, ast.Not) else node

    def _tested(self, node: Any) -> ast.AST:
        self.generic_visit(node)
        node.test = _placed(_call("truth", node.test), node.test)
        return node

    visit_If = visit_IfExp = _tested

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in ("max", "min") and node.func.id not in self.taken:
            node.func = _placed(_helper(node.func.id), node.func)
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        callee = node.iter.func if isinstance(node.iter, ast.Call) else None
        called = callee.attr if isinstance(callee, ast.Attribute) else getattr(callee, "id", "")
        self.generic_visit(node)
        first: list[ast.stmt] = [ast.Expr(value=_call("tick"))]
        if called == "range" and isinstance(node.target, ast.Name):
            loaded = ast.Name(id=node.target.id, ctx=ast.Load())
            stored = ast.Name(id=node.target.id, ctx=ast.Store())
            first.append(ast.Assign(targets=[stored], value=_call("value", loaded)))
        node.body = [_placed(statement, node) for statement in first] + node.body
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        self._tested(node)
        node.body = [_placed(ast.Expr(value=_call("tick")), node), *node.body]
        return node


def _definition(function: Callable[..., Any]) -> ast.FunctionDef:
    """The function's syntax tree, with the line and column numbers of its file."""
    lines, first_line = inspect.getsourcelines(function)
    source = "".join(lines)
    indented = source[:1].isspace()
    tree = ast.parse("if 1:\n" + source if indented else source)
    ast.increment_lineno(tree, first_line - (2 if indented else 1))
    name = function.__name__
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name]
    if not found:
        raise SyntaxError(f"{name}: its source does not hold a 'def {name}'")
    return found[0]


def _code_of(module: types.CodeType, name: str) -> types.CodeType:
    factory = next(constant for constant in module.co_consts if isinstance(constant, types.CodeType))
    return next(c for c in factory.co_consts if isinstance(c, types.CodeType) and c.co_name == name)


def runnable(function: Callable[..., Any], helper: Any, is_language: Callable[[Any], bool]) -> Callable[..., Any]:
    """``function`` with the compiler's meaning, its own globals, defaults and closure, and ``helper`` in reach.

    ``is_language`` tells functions of ``triton.language``, which a module may have imported by name.
    """
    definition = _definition(function)
    parameters = definition.args
    free = function.__code__.co_freevars
    taken = frozenset(function.__globals__) | frozenset(function.__code__.co_varnames) | frozenset(free)
    imported = (name for name in function.__code__.co_names if is_language(function.__globals__.get(name)))
    _Meaning(function.__name__, taken, frozenset(imported)).visit(definition)
    definition.decorator_list = []
    definition.returns = None
    parameters.defaults, parameters.kw_defaults = [], [None for _ in parameters.kwonlyargs]
    for argument in (*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs):
        argument.annotation = None
    cells = dict(zip(free, function.__closure__ or (), strict=True))
    cells[HELPER] = types.CellType(helper)
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

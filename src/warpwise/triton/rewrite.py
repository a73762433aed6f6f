"""Rewrite a kernel's Python body to the semantics of Triton's compiler; statements keep their line numbers.

Triton's compiler gives some constructs another meaning than Python: ``x = 0`` makes a tensor; ``and``, ``or`` and
``not`` are elementwise on tensors; ``max`` and ``min`` accept tensors; a loop variable of ``range`` is an int32 tensor;
the condition of an ``if`` or ``while`` must be a scalar; ``assert`` is ``tl.device_assert``; an assignment to a tuple
ignores items in excess; a parameter ``tl.constexpr`` has the attribute ``value``. The rewritten body calls
``Intrinsics`` for these, for a value that a statement discards, and in each loop iteration to check the timeout and, in
``while``, to let other programs run.
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


def _thunk(value: ast.expr) -> ast.Lambda:
    """Return ``lambda: value``: the operand is evaluated only if needed."""
    arguments = ast.arguments(
        posonlyargs=[], args=[], vararg=None, kwonlyargs=[], kw_defaults=[], kwarg=None, defaults=[]
    )
    return ast.Lambda(args=arguments, body=value)


def _at_location(new: Any, old: ast.AST) -> Any:
    return ast.fix_missing_locations(ast.copy_location(new, old))


class _CompilerSemantics(ast.NodeTransformer):
    """Inserts calls to ``Intrinsics`` where the compiler's semantics differ from Python's."""

    def __init__(self, name: str, local: frozenset[str], shadowed: frozenset[str], language: frozenset[str]) -> None:
        self.name = name
        self.local = local
        self.shadowed = shadowed
        self.language = language

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

    def _rewrite_condition(self, node: Any) -> ast.AST:
        self.generic_visit(node)
        node.test = _at_location(_call("scalar_condition", node.test), node.test)
        return node

    visit_If = visit_IfExp = _rewrite_condition

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

    def visit_For(self, node: ast.For) -> ast.AST:
        callee = node.iter.func if isinstance(node.iter, ast.Call) else None
        called = callee.attr if isinstance(callee, ast.Attribute) else getattr(callee, "id", "")
        self.generic_visit(node)
        first: list[ast.stmt] = [ast.Expr(value=_call("check_timeout"))]
        if called == "range" and isinstance(node.target, ast.Name):
            loaded = ast.Name(id=node.target.id, ctx=ast.Load())
            stored = ast.Name(id=node.target.id, ctx=ast.Store())
            first.append(ast.Assign(targets=[stored], value=_call("to_tensor", loaded)))
        node.body = [_at_location(statement, node) for statement in first] + node.body
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        self._rewrite_condition(node)
        node.body = [_at_location(ast.Expr(value=_call("while_iteration")), node), *node.body]
        return node


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

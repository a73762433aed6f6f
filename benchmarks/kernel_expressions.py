"""The kernels of CUDA sources and the template arguments with which they are compiled alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from warpwise.cuda.source.declarations import Declaration, declarations
from warpwise.cuda.source.directives import macros, significant
from warpwise.cuda.source.kernels import parameters_of
from warpwise.cuda.source.lexer import Token, closing_angle, lex, split

CANDIDATES = 4  # expressions tried for one template
NUMBERS = frozenset({"int", "unsigned", "size_t", "long", "short", "char", "uint32_t", "int32_t", "uint", "auto"})
GUESSES = (("float", "32"), ("__half", "2"), ("int", "128"))  # for a type and a number that no launch gives


def expressions(texts: Mapping[str, str]) -> list[tuple[str, str, list[tuple[str, bool]]]]:
    """The source, the name and the name expressions to try of each kernel that ``texts`` define, by their sources.

    An expression is paired with True if an argument of its template is a guess.
    """
    tokens = {source: lex(text) for source, text in texts.items()}
    code = {source: significant(part) for source, part in tokens.items()}
    defined = macros(token for part in tokens.values() for token in part)
    found = {source: declarations(part, defined) for source, part in code.items()}
    known = {name for part in found.values() for each in part for name in each.names} | set(defined)
    launched = launches([each for part in found.values() for each in part], known)
    defined_by = [(source, each) for source, part in found.items() for each in part if each.kernel and each.body]
    plain = [each for _, each in defined_by if each.tokens[0].text != "template"]
    signatures = {each.name: {parameters_of(other) for other in plain if other.name == each.name} for each in plain}
    kernels: dict[str, tuple[str, str, list[tuple[str, bool]]]] = {}
    for source, each in defined_by:
        label, tried = each.name, [(each.name, False)]
        if each.tokens[0].text == "template":
            parameters = template_parameters(each)
            given = launched.get(each.name.rsplit("::", 1)[-1], [])
            lists = [filled(parameters, arguments) for arguments in given]
            lists += [filled(parameters, [], *guessed) for guessed in (GUESSES[:1] if given else GUESSES)]
            tried = list(dict.fromkeys((f"{each.name}<{', '.join(words)}>", guessed) for words, guessed in lists))
        elif len(signatures[each.name]) > 1:  # overloads, or the branches of an #if
            types = ", ".join(kind for kind, _ in parameters_of(each))
            label = f"{each.name}({types})"
            tried = [(f"static_cast<void (*)({types})>(&{each.name})", False), *tried]
        if each.name and label not in kernels:
            kernels[label] = (source, label, tried[:CANDIDATES])
    return list(kernels.values())


def launches(found: Sequence[Declaration], known: set[str]) -> dict[str, list[list[str]]]:
    """The template arguments of launches and explicit instantiations: "" for one that means nothing at file scope."""
    functions = [each for each in found if each.kind == "function" and each.body]
    called: dict[str, list[list[list[Token]]]] = {}
    for each in functions:
        for name, arguments, following in named_with_arguments(each.tokens):
            if following == "(":
                called.setdefault(name, []).append(arguments)
    launched: dict[str, list[list[str]]] = {}
    for each in found:
        if each.kernel and each.tokens[0].text == "template" and each.tokens[1].text != "<":  # explicit instantiation
            for name, arguments, _ in named_with_arguments(each.tokens[: each.head]):
                launched.setdefault(name, []).append([spelled(part, known, {}) for part in arguments])
    for each in functions:
        constants = values_of_parameters(each, called, known)
        read_constants(each.tokens, known, constants)
        for name, arguments, following in named_with_arguments(each.tokens):
            if following == "<<<":
                launched.setdefault(name, []).append([spelled(part, known, constants) for part in arguments])
    return launched


def named_with_arguments(code: Sequence[Token]) -> Iterator[tuple[str, list[list[Token]], str]]:
    """Each `name<...>` with its arguments and the token after it."""
    for index, token in enumerate(code[:-1]):
        if token.kind == "identifier" and code[index + 1].text == "<":
            end = closing_angle(code, index + 1)
            if end is not None and end + 1 < len(code):
                yield token.text, split(code[index + 2 : end]), code[end + 1].text


def values_of_parameters(
    function: Declaration, called: Mapping[str, Sequence[Sequence[Sequence[Token]]]], known: set[str]
) -> dict[str, str]:
    """The template parameters of ``function`` with the arguments of a call of it that mean something at file scope."""
    if function.tokens[0].text != "template":
        return {}
    names = [
        ([t.text for t in split(part, "=")[0] if t.kind == "identifier"] or [""])[-1]
        for part in template_parameters(function)
    ]
    for arguments in called.get(function.name.rsplit("::", 1)[-1], ()):
        values = [spelled(part, known, {}) for part in arguments]
        if values and all(values):
            return dict(zip(names, values, strict=False))
    return {}


def read_constants(code: Sequence[Token], known: set[str], constants: dict[str, str]) -> None:
    """Add the constants that ``code`` defines as `name = value;` and types that it defines as `using name = type;`."""
    for index, token in enumerate(code[:-2]):
        if token.kind == "identifier" and code[index + 1].text == "=":
            end = next((i for i in range(index + 2, min(index + 40, len(code))) if code[i].text in (";", ",")), None)
            value = spelled(code[index + 2 : end], known, constants) if end else ""
            if value and token.text not in constants:
                constants[token.text] = value if code[index - 1].text == "using" or len(value) < 4 else f"({value})"


def spelled(argument: Sequence[Token], known: set[str], constants: Mapping[str, str]) -> str:
    words = [constants.get(t.text, t.text) for t in argument]
    means = all(t.kind != "identifier" or t.text in known | WORDS or t.text in constants for t in argument)
    return " ".join(words) if means else ""


def template_parameters(kernel: Declaration) -> list[list[Token]]:
    end = closing_angle(kernel.tokens, 1)
    return [part for part in split(kernel.tokens[2:end]) if part] if end else []


def filled(
    parameters: Sequence[Sequence[Token]], arguments: Sequence[str], kind: str = "float", number: str = "32"
) -> tuple[list[str], bool]:
    """An argument for each template parameter: that of the launch if there is one, else a guess, and whether one is."""
    result, guessed = [], False
    for index, parameter in enumerate(parameters):
        text = [token.text for token in parameter]
        given = arguments[index] if index < len(arguments) else ""
        if not given and ("..." in text or "=" in text):
            break
        result.append(given or guess(text, kind, number))
        guessed = guessed or not given
    return result, guessed


WORDS = frozenset({
    "float", "double", "int", "unsigned", "char", "short", "long", "bool", "true", "false", "half", "__half", "half2",
    "nv_bfloat16", "__nv_bfloat16", "float2", "float4", "int4", "uint4", "double2", "size_t", "uint32_t", "uint8_t",
    "int8_t", "int64_t", "uint64_t", "const", "signed", "void", "sizeof", "uint", "nvcuda", "wmma", "row_major",
    "col_major",
})  # fmt: skip


def guess(parameter: Sequence[str], type_name: str, number: str) -> str:
    if parameter[0] in ("typename", "class"):
        return type_name
    if parameter[0] == "bool":
        return "true"
    kind = " ".join(parameter[:-1] if len(parameter) > 1 else parameter).split("=")[0].strip()
    return number if set(parameter) & NUMBERS else f"static_cast<{kind}>(0)"

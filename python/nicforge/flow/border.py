"""Where programs call this package: arguments are checked by their annotations, and what goes wrong
behind is a FlowError.

A mistake in a program should end in one line with its place, not in a traceback through files that
are not its author's. So every public function and method is wrapped once, by `guard`:

* An argument that is none of what its annotation says is refused with its name. Annotations that
  say more than classes, unions and containers of them are not looked into.
* Python's own errors (TypeError and such) that are raised by a line of this package become a
  FlowError at the caller's line. Those that a line of the program raises, for example in its own
  `configure`, stay what they are.

`hook` has Python print an uncaught FlowError as its message.
"""

from __future__ import annotations

import collections.abc
import functools
import inspect
import numbers
import pathlib
import sys
import types
import typing

from .errors import HERE, FlowError, caller

#: What Python raises where a value is not of the kind that code expects.
MISTAKES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
)


def _is(value: object, hint: object) -> bool:
    """Whether a value is what an annotation says; true where that is not for us to say."""
    if hint is None:
        return value is None
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_is(value, one) for one in inner)
    if origin is not None:
        if not isinstance(origin, type):
            return True
        if not isinstance(value, origin):
            # Whoever takes a list or a tuple takes the other, too; not text, which is a row of
            # characters.
            rows = (list, tuple, collections.abc.Sequence, collections.abc.Iterable)
            if origin not in rows or not isinstance(value, (list, tuple)):
                return False
        if origin in (list, collections.abc.Sequence, collections.abc.Iterable) and isinstance(
            value, (list, tuple)
        ):
            return all(_is(one, inner[0]) for one in value) if inner else True
        if origin is dict and len(inner) == 2:
            return all(_is(key, inner[0]) and _is(one, inner[1]) for key, one in value.items())
        return True
    if hint is float:
        return isinstance(value, numbers.Real) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, numbers.Integral) and not isinstance(value, bool)
    return isinstance(value, hint) if isinstance(hint, type) else True


def _said(hint: object) -> str:
    """An annotation in words."""
    if hint is None or hint is type(None):
        return "None"
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return " or ".join(_said(one) for one in typing.get_args(hint))
    return {"str": "text", "int": "a number", "float": "a number", "bool": "True or False"}.get(
        getattr(hint, "__name__", ""), getattr(hint, "__name__", str(hint))
    )


def _check(function, hints: dict[str, object], signature: inspect.Signature, args, named) -> None:
    name = function.__qualname__.removesuffix(".__init__").removesuffix(".configure")
    try:
        bound = signature.bind(*args, **named)
    except TypeError as error:
        raise FlowError(f"{name}: {error}", caller()) from None
    for parameter, value in bound.arguments.items():
        if parameter not in hints:
            continue
        hint, kind = hints[parameter], signature.parameters[parameter].kind
        values = [value]
        if kind is inspect.Parameter.VAR_POSITIONAL:
            values = list(value)
        elif kind is inspect.Parameter.VAR_KEYWORD:
            values = list(value.values())
        for each in values:
            if not _is(each, hint):
                what = (
                    f"{name}: `{parameter}` is {each!r}"
                    if len(repr(each)) < 60
                    else f"{name}: `{parameter}`"
                )
                raise FlowError(f"{what}, where {_said(hint)} is wanted", caller())


def _ours(error: BaseException) -> bool:
    """Whether a line of this package raised it, or something of Python's that it called."""
    trace, last = error.__traceback__, None
    while trace is not None:
        file = pathlib.Path(trace.tb_frame.f_code.co_filename)
        if file.parent == HERE:
            last = True
        elif "lib/python" not in file.as_posix() and not file.name.startswith("<frozen"):
            last = False
        trace = trace.tb_next
    return bool(last)


def guarded(function):
    """The function, as programs call it."""
    signature = inspect.signature(function)
    hints: dict[str, object] | None = None

    @functools.wraps(function)
    def call(*args, **named):
        nonlocal hints
        if hints is None:
            try:
                hints = typing.get_type_hints(function)
            except Exception:
                # Names that only type checkers see.
                hints = {}
        try:
            result = function(*args, **named)
        except FlowError:
            # What a function says itself of its arguments is said better.
            raise
        except MISTAKES as error:
            if not _ours(error):
                raise
            _check(function, hints, signature, args, named)
            name = function.__qualname__.removesuffix(".__init__")
            kind = (
                ""
                if isinstance(error, (TypeError, ValueError, OSError))
                else f"{type(error).__name__}: "
            )
            raise FlowError(f"{name}: {kind}{error}", caller()) from None
        _check(function, hints, signature, args, named)
        return result

    call._guarded = True
    return call


#: Methods with a special name that programs call.
SPECIAL = ("__init__", "__rshift__", "__rrshift__", "__getitem__", "__call__")


def guard(classes) -> None:
    """Wraps what programs call of classes: what they make, connect and ask."""
    for each in classes:
        for name, what in list(vars(each).items()):
            public = not name.startswith("_") or name in SPECIAL
            if public and inspect.isfunction(what) and not getattr(what, "_guarded", False):
                setattr(each, name, guarded(what))


def hook() -> None:
    """Uncaught, a FlowError is printed as its message."""
    before = sys.excepthook

    def show(kind, error, trace):
        if isinstance(error, FlowError):
            print(f"error: {error}", file=sys.stderr)
        else:
            before(kind, error, trace)

    sys.excepthook = show

# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``@frozen``: as ``@dataclasses.dataclass(frozen=True)``, at a tenth of what that costs to define.

The standard decorator compiles six functions for each class, a millisecond of a processor, and its module costs
eight. A hook before each job defines a hundred classes and makes few objects of them, so here the functions are
written once, for all classes. What is asked of a dataclass holds: fields, defaults, ``__post_init__``, comparison,
hash, pickle. So do ``dataclasses.replace``, ``asdict`` and ``fields``: the standard decorator is applied once one of
them asks. A class that wants ``dataclasses.field`` or ``ClassVar`` takes the standard one.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Dict, Mapping, Tuple, Type, TypeVar

Class = TypeVar("Class")

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform

    @dataclass_transform(frozen_default=True)
    def frozen(cls: Type[Class]) -> Type[Class]:
        """Make a class a frozen dataclass."""

else:

    def frozen(cls):
        """Make a class a frozen dataclass."""
        own = cls.__dict__.get("__annotations__", {})
        names = getattr(cls, "_names", ())  # those of the base come first
        cls._names = names + tuple(name for name in own if name not in names)
        cls._defaults = dict(getattr(cls, "_defaults", {}))
        cls._defaults.update((name, cls.__dict__[name]) for name in own if name in cls.__dict__)
        cls.__dataclass_fields__ = _Fields(cls)
        for name, function in _METHODS.items():
            if name not in cls.__dict__:
                setattr(cls, name, function)
        return cls


class _Fields:
    """``__dataclass_fields__`` of a class, made by the standard decorator when somebody first asks for it."""

    def __init__(self, cls: Any) -> None:
        self._cls = cls

    def __get__(self, instance: object, owner: object) -> Any:
        import dataclasses

        cls = self._cls
        del cls.__dataclass_fields__, cls.__setattr__, cls.__delattr__  # it makes these itself
        for name in [one for one in cls._defaults if one in cls.__dict__ and cls.__dict__[one].__hash__ is None]:
            delattr(cls, name)  # an empty dictionary, which it refuses; nobody changes it here
        return dataclasses.dataclass(init=False, repr=False, eq=False, frozen=True)(cls).__dataclass_fields__


def replaced(value: Class, **changes: Any) -> Class:
    """A copy with other values of some fields: ``dataclasses.replace`` for these classes."""
    return type(value)(**dict(_values(value), **changes))


def _values(value: Any) -> Dict[str, Any]:
    return {name: value.__dict__[name] for name in value._names}


def _init(self: Any, *given: Any, **named: Any) -> None:
    values: Dict[str, Any] = self.__dict__
    names: Tuple[str, ...] = self._names
    if len(given) < len(names):
        values.update(self._defaults)
    values.update(zip(names, given))
    if len(given) > len(names):
        raise TypeError("{0}: {1} values for {2} fields".format(type(self).__name__, len(given), len(names)))
    if named:
        known = names[len(given) :]
        for name in named:
            if name not in known:
                raise TypeError("{0}: field {1} is given twice or is none".format(type(self).__name__, name))
        values.update(named)
    if len(values) < len(names):
        missing = next(name for name in names if name not in values)
        raise TypeError("{0}: field {1} is missing".format(type(self).__name__, missing))
    check = getattr(self, "__post_init__", None)
    if check is not None:
        check()


def _key(self: Any) -> Tuple[Any, ...]:
    values = self.__dict__
    return tuple(values[name] for name in self._names)


def _eq(self: Any, other: object) -> Any:
    return _key(self) == _key(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_key(self))


def _repr(self: Any) -> str:
    told = ", ".join("{0}={1!r}".format(name, self.__dict__[name]) for name in self._names)
    return "{0}({1})".format(type(self).__qualname__, told)


def _setattr(self: Any, name: str, value: Any) -> None:
    import dataclasses

    raise dataclasses.FrozenInstanceError("cannot assign to field {0!r}".format(name))


def _delattr(self: Any, name: str) -> None:
    import dataclasses

    raise dataclasses.FrozenInstanceError("cannot delete field {0!r}".format(name))


_METHODS = {
    "__init__": _init,
    "__eq__": _eq,
    "__hash__": _hash,
    "__repr__": _repr,
    "__setattr__": _setattr,
    "__delattr__": _delattr,
}


def plain(value: Any) -> Any:
    """The value as dictionaries, lists and scalars only."""
    if isinstance(value, enum.Enum):
        return value.value
    names = getattr(type(value), "_names", None) or getattr(type(value), "__dataclass_fields__", None)
    if names is not None:
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    return value

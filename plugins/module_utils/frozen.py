# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``@frozen``: as ``@dataclasses.dataclass(frozen=True)``, at a fifth of what that costs to define.

The standard decorator compiles six functions for each class, a millisecond of a processor. A hook before each job
defines a hundred classes and makes few objects of them, so here the functions are written once, for all classes. What
is asked of a dataclass holds: fields, defaults, ``__post_init__``, ``dataclasses.replace``, ``asdict`` and ``fields``,
comparison, hash, pickle. For classes on the way to a hook; elsewhere the standard one is as good.
"""

from __future__ import annotations

import dataclasses
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
        made = dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
        fields = dataclasses.fields(made)
        made._names = tuple(field.name for field in fields)
        made._compared = tuple(field.name for field in fields if field.compare)
        made._defaults = {field.name: field.default for field in fields if field.default is not dataclasses.MISSING}
        made._factories = {
            field.name: field.default_factory for field in fields if field.default_factory is not dataclasses.MISSING
        }
        for name, function in _METHODS.items():
            if name not in cls.__dict__:
                setattr(made, name, function)
        return made


def _init(self: Any, *given: Any, **named: Any) -> None:
    values: Dict[str, Any] = self.__dict__
    names: Tuple[str, ...] = self._names
    if len(given) > len(names):
        raise TypeError("{0}: {1} values for {2} fields".format(type(self).__name__, len(given), len(names)))
    values.update(zip(names, given))
    for name in names[len(given) :]:
        if name in named:
            values[name] = named.pop(name)
        elif name in self._defaults:
            values[name] = self._defaults[name]
        elif name in self._factories:
            values[name] = self._factories[name]()
        else:
            raise TypeError("{0}: field {1} is missing".format(type(self).__name__, name))
    if named:
        raise TypeError("{0}: field {1} is given twice or is none".format(type(self).__name__, next(iter(named))))
    check = getattr(self, "__post_init__", None)
    if check is not None:
        check()


def _key(self: Any) -> Tuple[Any, ...]:
    values = self.__dict__
    return tuple(values[name] for name in self._compared)


def _eq(self: Any, other: object) -> Any:
    return _key(self) == _key(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_key(self))


def _repr(self: Any) -> str:
    told = ", ".join("{0}={1!r}".format(name, self.__dict__[name]) for name in self._names)
    return "{0}({1})".format(type(self).__qualname__, told)


def _setattr(self: Any, name: str, value: Any) -> None:
    raise dataclasses.FrozenInstanceError("cannot assign to field {0!r}".format(name))


def _delattr(self: Any, name: str) -> None:
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
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    return value

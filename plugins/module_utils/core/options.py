# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked of a resource: each option is described once, as a field of the resource's class of options.

    @options
    class Options:
        rate_gbps: Optional[float] = option(None, "The rate of each port.", bounds=(0.1, 100000), unit="Gb/s")

The class is a frozen one (:mod:`.frozen`). Its values are checked where an object is made, so that whoever makes one
(a module, the declaration of a node, a person's file) gets the same sentence. The argument specification of the module,
its documentation, the variables of the role and the schema of the declaration come from the same description
(:func:`described`, :func:`argument_spec`). A class that names fields in ``_for_absent`` has the others checked only for
what is to be present. Hooks load such classes before each job: at import nothing is worked out.
"""

from __future__ import annotations

import re
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Type,
    TypeVar,
    Union,
)

from .frozen import frozen
from .resource import NodeError, together

Class = TypeVar("Class")
#: The default of a field whose value has to be given.
REQUIRED: Any = ...
STATES = ("present", "absent")
# Annotations are texts. What is not here has options of its own, or its kind is given.
_KINDS = {
    "bool": ("bool", ""),
    "int": ("int", ""),
    "float": ("float", ""),
    "str": ("str", ""),
    "Tuple[str, ...]": ("list", "str"),
    "Mapping[str, Any]": ("dict", ""),
    "Mapping[str, str]": ("dict", ""),
}
_TYPES: Mapping[str, Tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "path": (str,),
    "list": (list, tuple),
    "dict": (dict,),
}
_TEXTS = ("str", "path")
_WORDS = {
    "bool": "neither true nor false",
    "int": "no whole number",
    "float": "no number",
    "str": "no text",
    "path": "no path",
    "list": "no list",
    "dict": "no mapping of names to values",
}


class Option(NamedTuple):
    """One option. ``help`` is a sentence or several, in Ansible's markup (``V(...)``, ``O(...)``).

    ``kind``: state, str, bool, int, float, path, raw, list or dict, by the annotation unless it is given. ``elements``:
    the kind of a list's entries; ``inner``: the class of options of each of them, or of a mapping. ``bounds``: the
    least and the most that a number may be, in ``unit``. ``form``: a pattern that a text, or each of a list, matches as
    a whole, what it is then, and the remedy. ``needs``: the options that have to be given with this one. ``profile``:
    where the machine's profile has the value of an option that is not given (``infiniband.count``); ``of_profile``:
    makes the value of what is there. ``of_role``: the variable of another role that the role takes by default.
    ``name``: what users call it, where the field is called otherwise. ``secret``: it may hold an access key, which no
    output shows. ``once``: it counts for the run in which it is given, and is never declared. ``read``: makes the
    field's value of what a user gave. ``per_host``: a list with an entry for each host, which a role makes of variables
    that each host has (:mod:`.per_host`). ``field`` is filled in by :func:`described`.
    """

    default: Any
    help: Union[str, Sequence[str]]
    kind: str = ""
    elements: str = ""
    inner: Optional[type] = None
    choices: Sequence[str] = ()
    bounds: Optional[Tuple[float, float]] = None
    unit: str = ""
    form: Optional[Tuple[str, str, str]] = None
    needs: Sequence[str] = ()
    profile: str = ""
    of_profile: Optional[Callable[[Any], Any]] = None
    of_role: str = ""
    name: str = ""
    secret: bool = False
    once: bool = False
    read: Optional[Callable[[Any], Any]] = None
    per_host: bool = False
    example: Any = None
    field: str = ""


def option(default: Any, help: Union[str, Sequence[str]], **rest: Any) -> Any:  # pylint: disable=redefined-builtin
    """A field of a class of options; ``rest`` as :class:`Option` has it."""
    return Option(default, help, **rest)


def state(help: Union[str, Sequence[str]], choices: Sequence[str] = STATES) -> Any:  # pylint: disable=redefined-builtin
    """The field ``present``: users give the first or the second of ``choices`` as ``state``."""
    return Option(True, help, kind="state", choices=choices, name="state")


def secrets(cls: type, values: Mapping[str, Any]) -> List[str]:
    """Pure. The texts among these values, by the names of their options, that may hold an access key."""
    found: List[str] = []
    for name, one in described(cls).items():
        value = values.get(name)
        if value and one.secret:
            found.append(str(value))
        elif value and one.inner is not None:
            for entry in value if one.kind == "list" else [value]:
                found += secrets(one.inner, entry) if isinstance(entry, Mapping) else []
    return found


def has_secrets(cls: type) -> bool:
    return any(one.secret or (one.inner is not None and has_secrets(one.inner)) for one in described(cls).values())


class _Names(Dict[str, Any]):
    """A mapping that may be the default of a field, as nobody changes it."""

    def __hash__(self) -> int:  # type: ignore[override]
        return 0


if TYPE_CHECKING:
    from typing_extensions import dataclass_transform

    @dataclass_transform(frozen_default=True, field_specifiers=(option, state))
    def options(cls: Type[Class]) -> Type[Class]:
        """Make a class of options."""

else:

    def options(cls):
        """Make a class of options. Its ``__post_init__``, where it has one, comes when the single values are right."""
        own = {name: value for name, value in cls.__dict__.items() if isinstance(value, Option)}
        for name, value in own.items():
            if value.default is REQUIRED:
                delattr(cls, name)
            else:
                setattr(cls, name, _Names(value.default) if isinstance(value.default, dict) else value.default)
        cls._own_options = own
        further = cls.__dict__.get("__post_init__")

        def check(self):
            _check(self)
            if further is not None:
                further(self)

        cls.__post_init__ = check
        return frozen(cls)


def described(cls: type) -> Dict[str, Option]:
    """The options by the names that users give, with their kinds worked out; in the order of the class."""
    found = {}
    own: Mapping[str, Option] = cls._own_options  # type: ignore[attr-defined]
    for field, one in own.items():
        annotation = str(cls.__annotations__[field])
        plain = re.fullmatch(r"Optional\[(.*)\]", annotation)
        kind, elements = _KINDS.get(plain.group(1) if plain else annotation, ("", ""))
        if one.inner is not None and not one.kind:
            kind, elements = ("list", "dict") if "Tuple[" in annotation else ("dict", "")
        if not (one.kind or kind):
            raise TypeError("{0}.{1}: {2} tells no kind of option".format(cls.__name__, field, annotation))
        name = one.name or field
        found[name] = one._replace(name=name, field=field, kind=one.kind or kind, elements=one.elements or elements)
    return found


def of(cls: Type[Class], given: Mapping[str, Any], profile: Optional[Mapping[str, Any]] = None) -> Class:
    """The options as a user gave them, by their names; None counts as not given. ``profile`` is the machine's.

    :raises NodeError: of all options, one that there is none of, a value of another kind or out of range; where there
        is none of these, whatever the class refuses.
    """
    known = described(cls)
    wrong = [_no_such(name, known) for name in given if name not in known]
    gone = any(one.kind == "state" and given.get(name) == one.choices[1] for name, one in known.items())
    fields = {}
    for name, one in known.items():
        value = given.get(name)
        made = one.inner is not None or one.read is not None
        if gone and made and one.field not in getattr(cls, "_for_absent", (one.field,)):
            continue  # making it would check it
        if value is None and one.profile:
            value = at(profile or {}, one.profile)
            value = one.of_profile(value) if one.of_profile is not None and value is not None else value
        try:
            if value is not None:
                fields[one.field] = _value(one, value)
            elif one.default is REQUIRED:
                raise NodeError("option " + name, "it is missing", "give it")
        except NodeError as error:
            wrong.append(error)
    if wrong:
        raise together(wrong)
    return cls(**fields)


def _no_such(name: str, known: Mapping[str, Option]) -> NodeError:
    from .nearest import nearest  # loaded only where there is an error to tell

    remedy = "{0}use some of {1}".format(nearest(name, known), ", ".join(known))
    return NodeError("option " + name, "there is no such option", remedy)


def given(value: Any) -> Dict[str, Any]:
    """What a user would have to give for these options: those that are not at their defaults, as plain values."""
    found = {}
    for name, one in described(type(value)).items():
        plain = _plain(one, getattr(value, one.field))
        if one.default is REQUIRED or plain != _plain(one, one.default):
            found[name] = plain
    return found


def at(content: Any, path: str) -> Any:
    """What a mapping of mappings has at ``infiniband.count``; None: nothing."""
    for name in path.split("."):
        content = content.get(name) if isinstance(content, Mapping) else None
    return content


def argument_spec(cls: type) -> Dict[str, Any]:
    """Ansible's argument specification of the module that takes these options."""
    return argument_spec_of(described(cls))


def argument_spec_of(known: Mapping[str, Option]) -> Dict[str, Any]:
    found = {}
    for name, one in known.items():
        spec: Dict[str, Any] = {"type": "str" if one.kind == "state" else one.kind}
        if one.choices:
            spec["choices"] = list(one.choices)
        if "key" in name and not one.secret:
            spec["no_log"] = False  # ansible-test takes the name for that of a secret
        if one.elements:
            spec["elements"] = one.elements
        if one.inner is not None:
            spec["options"] = argument_spec(one.inner)
        if one.default is REQUIRED:
            spec["required"] = True
        elif one.default is not None and not (one.profile or one.of_role):
            spec["default"] = _plain(one, one.default)
        found[name] = spec
    return found


def _plain(one: Option, value: Any) -> Any:
    if one.kind == "state":
        return one.choices[0 if value else 1]
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (list, tuple)):
        return [given(entry) if one.inner is not None else entry for entry in value]
    return given(value) if one.inner is not None and value is not None else value


def _value(one: Option, value: Any) -> Any:
    name = one.name
    if one.kind == "state":
        if value not in one.choices:
            raise _unknown(name, value, one.choices)
        return value == one.choices[0]
    _check_kind(name, one.kind, value)
    if one.kind == "list":
        for entry in value:
            _check_kind(name, one.elements, entry)
    if one.read is not None:
        return one.read(value)
    if one.inner is not None:
        entries = [value] if one.kind == "dict" else value
        made = tuple(_inner(name, one.inner, entry) for entry in entries)
        return made if one.kind == "list" else made[0]
    if one.kind == "float":
        return float(value)
    return tuple(value) if one.kind == "list" else value


def unquoted(known: Mapping[str, Option], given: Mapping[str, Any]) -> List[NodeError]:
    """Pure. An error for each text that was given as a number, which Ansible by itself makes a text of: C(0777) in YAML
    is the number 511, C(2:00:00) is 7200 and C(2.10) is 2.1."""
    found: List[NodeError] = []
    for name, one in known.items():
        value: Any = given.get(name)
        several = one.kind == "list" and isinstance(value, (list, tuple))
        if (one.elements if several else one.kind) in _TEXTS:
            numbers = [entry for entry in (value if several else (value,)) if isinstance(entry, (int, float))]
            found += [_number(name, entry) for entry in numbers]
    return found


def _number(name: str, value: float) -> NodeError:
    told = str(value).lower() if isinstance(value, bool) else "the number {0!r}".format(value)
    reason = "it is {0} and no text (YAML makes numbers of 0777, 2:00:00 and 2.10)".format(told)
    return NodeError("option " + name, reason, "put it in quotes")


def _check_kind(name: str, kind: str, value: Any) -> None:
    kinds = _TYPES.get(kind)
    if kinds is None or (isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))):
        return
    if kind in _TEXTS and isinstance(value, (int, float)):
        raise _number(name, value)
    raise NodeError("option " + name, "{0!r} is {1}".format(value, _WORDS[kind]), "correct it")


def _inner(name: str, cls: type, value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise NodeError("option " + name, "{0!r} is no mapping of names to values".format(value), "correct it")
    return of(cls, value)


def _check(made: Any) -> None:
    """:raises NodeError: about each value that cannot be, or comes without what it needs."""
    wrong = list(_wrong(made))
    if wrong:
        raise together(wrong)


def _wrong(made: Any) -> Iterator[NodeError]:
    own: Mapping[str, Option] = type(made)._own_options
    # What is to go away does not fail for an option that is only of use to what stays.
    matter = own if getattr(made, "present", True) else getattr(made, "_for_absent", own)
    for field, one in own.items():
        if field not in matter:
            continue
        value = getattr(made, field)
        name = one.name or field
        if value is None or one.kind == "state":
            continue
        if one.bounds is not None and not one.bounds[0] <= value <= one.bounds[1]:
            unit = " " + one.unit if one.unit else ""
            yield NodeError(
                "option " + name,
                "{0:g}{1} is out of range".format(value, unit),
                "give {0:g} to {1:g}{2}".format(one.bounds[0], one.bounds[1], unit),
            )
        for text in value if isinstance(value, tuple) else (value,):
            if one.choices and text not in one.choices:
                yield _unknown(name, text, one.choices)
            if one.form is not None and text != one.default and not re.fullmatch(one.form[0], text):
                yield NodeError("option " + name, "{0!r} is no {1}".format(text, one.form[1]), one.form[2])
        if one.needs and value != one.default:
            for other in one.needs:
                if getattr(made, other) == own[other].default:
                    yield NodeError("option " + name, "it is nothing without option " + other, "give both")


def _unknown(name: str, value: Any, choices: Sequence[str]) -> NodeError:
    return NodeError("option " + name, "{0!r} is not known here".format(value), "use one of " + ", ".join(choices))

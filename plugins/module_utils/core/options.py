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

import math
import re
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Collection,
    Dict,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    Type,
    TypeVar,
    Union,
)

from . import program_words
from .frozen import frozen, replaced
from .resource import NodeError, apart, together

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
# What a value of another kind is not, and the remedy.
_WORDS = {
    "bool": ("neither true nor false", "give true or false"),
    "int": ("no whole number", "give a whole number"),
    "float": ("no number", "give a number"),
    "str": ("no text", "give a text"),
    "path": ("no path", "give a path"),
    "list": ("no list", "give a list"),
    "dict": ("no mapping of names to values", "give a mapping"),
}


@frozen
class Option:
    """One option. ``help`` is a sentence or several, in Ansible's markup (``V(...)``, ``O(...)``).

    ``kind``: state, str, bool, int, float, path, raw, list or dict, by the annotation unless it is given. ``elements``:
    the kind of a list's entries; ``inner``: the class of options of each of them, or of a mapping. ``bounds``: the
    least and the most that a number may be, in ``unit``. ``form``: a pattern that a text, or each of a list, matches as
    a whole, what it is then, and the remedy. ``whole``: the least and the most of the whole numbers that count as their
    texts, as people write indexes; a list of such texts may be given as one of them. ``needs``: the options that have
    to be given with this one. ``profile``:
    where the machine's profile has the value of an option that is not given (``infiniband.count``); ``of_profile``:
    makes the value of what is there. ``of_role``: the variable of another role that the role takes by default.
    ``name``: what users call it, where the field is called otherwise. ``secret``: a URL that may hold an access key,
    which no output shows; ``key``: a text that is a key as a whole. ``private``: its value may contain an access key,
    and only root can read it where it is declared (:mod:`.declaration`). ``unset``: what a node assumes if its section
    lacks the option or has an invalid value, if that is not ``default``. ``once``: it counts for the run in which it is
    given, and is never declared. ``read``: makes the field's value of what a user gave. ``per_host``: a list with an
    entry for each host, which a role makes of variables that each host has (:mod:`.per_host`). ``field`` is filled in
    by :func:`described`.
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
    whole: Optional[Tuple[int, int]] = None
    needs: Sequence[str] = ()
    profile: str = ""
    of_profile: Optional[Callable[[Any], Any]] = None
    of_role: str = ""
    name: str = ""
    secret: bool = False
    key: bool = False
    private: bool = False
    unset: Any = None
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


def found(default: Any) -> Any:
    """A field with a text that a converge finds on the node and stores; users do not give it."""
    return default


def shared(one: Any) -> Any:
    """A field whose option is described elsewhere, for several classes."""
    return one


def like(cls: type, name: str, **changes: Any) -> Any:
    """The option of another class, with changes: another default, another description."""
    own: Mapping[str, Option] = cls._own_options  # type: ignore[attr-defined]
    return replaced(own[name], **changes)


def private(cls: type) -> Tuple[str, ...]:
    """The options whose values only root can read."""
    return tuple(name for name, one in described(cls).items() if one.private)


def secrets(cls: type, values: Mapping[str, Any], keys: bool = False) -> List[str]:
    """Pure. The texts among these values, by the names of their options, that may hold an access key, or (``keys``)
    that are one as a whole."""
    found: List[str] = []
    for name, one in described(cls).items():
        value = values.get(name)
        if value and (one.key if keys else one.secret):
            found.append(str(value))
        elif value and one.inner is not None:
            for entry in value if isinstance(value, (list, tuple)) else [value]:
                found += secrets(one.inner, entry, keys) if isinstance(entry, Mapping) else []
    return found


def has_secrets(cls: type) -> bool:
    return any(
        one.secret or one.key or (one.inner is not None and has_secrets(one.inner)) for one in described(cls).values()
    )


class _Names(Dict[str, Any]):
    """A mapping that may be the default of a field, as nobody changes it."""

    def __hash__(self) -> int:  # type: ignore[override]
        return 0


if TYPE_CHECKING:
    from typing_extensions import dataclass_transform

    @dataclass_transform(frozen_default=True, field_specifiers=(option, state, found, shared))
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
        cls._own_options = dict(getattr(cls, "_own_options", {}), **own)
        further = cls.__dict__.get("__post_init__")

        def check(self):
            _check(self)
            if further is not None:
                further(self)

        cls.__post_init__ = check
        return frozen(cls)


def described(cls: type) -> Dict[str, Option]:
    """The options by the names that users give, with their kinds worked out; in the order of the classes, those of
    a base first and C(state) before all."""
    found = {}
    own: Mapping[str, Option] = cls._own_options  # type: ignore[attr-defined]
    annotations: Dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        annotations.update(base.__dict__.get("__annotations__", {}))
    for field, one in sorted(own.items(), key=lambda item: item[1].kind != "state"):
        annotation = str(annotations[field])
        plain = re.fullmatch(r"Optional\[(.*)\]", annotation)
        kind, elements = _KINDS.get(plain.group(1) if plain else annotation, ("", ""))
        if one.inner is not None and not one.kind:
            kind, elements = ("list", "dict") if "Tuple[" in annotation else ("dict", "")
        if not (one.kind or kind):
            raise TypeError("{0}.{1}: {2} tells no kind of option".format(cls.__name__, field, annotation))
        name = one.name or field
        found[name] = replaced(one, name=name, field=field, kind=one.kind or kind, elements=one.elements or elements)
    return found


def of(cls: Type[Class], given: Mapping[str, Any], profile: Optional[Mapping[str, Any]] = None) -> Class:
    """The options as a user gave them, by their names; None counts as not given. ``profile`` is the machine's.

    :raises NodeError: of all options, one that there is none of, a value of another kind or out of range; where there
        is none of these, whatever the class refuses. What is wrong with an option of options is told by its place, as
        ``layouts[0].gpus``.
    """
    known = described(cls)
    matter = {one.field for one in known.values()}
    if any(one.kind == "state" and given.get(name) == one.choices[1] for name, one in known.items()):
        matter = set(getattr(cls, "_for_absent", matter))
    fields, wrong = _fields(known, given, profile or {}, matter)
    if wrong:
        raise together(wrong + _refused(known, fields, matter))
    return cls(**fields)


def of_section(cls: Type[Class], section: Optional[Mapping[str, Any]]) -> Class:
    """Pure. The options as a section of the declaration has them, for what runs on a node and must not fail if an
    administrator has edited the section. An invalid value is replaced by the option's ``unset``, or its default; if the
    option is a set of choices, only its unknown entries are dropped. :func:`invalid` reports both."""
    return cls(**_of_section(cls, section)[0])


def invalid(cls: type, section: Optional[Mapping[str, Any]]) -> List[NodeError]:
    """Pure. What :func:`of_section` does not take from a section, with the reason and the remedy for each."""
    return _of_section(cls, section)[1]


def _of_section(cls: type, section: Optional[Mapping[str, Any]]) -> Tuple[Dict[str, Any], List[NodeError]]:
    fields: Dict[str, Any] = {}
    wrong: List[NodeError] = []
    for name, one in described(cls).items():
        if one.unset is not None:
            fields[one.field] = one.unset
        value = (section or {}).get(name)
        if value is None or one.kind == "state":
            continue
        try:
            made = _value(one, value)
        except NodeError as error:
            wrong.append(error)
            continue
        unfit = list(_unfit(name, one, made))
        wrong += unfit
        if unfit and one.choices and isinstance(made, tuple):
            fields[one.field] = tuple(entry for entry in made if entry in one.choices)
        elif not unfit:
            fields[one.field] = made
    others = [name for name in cls._names if name not in cls._own_options]  # type: ignore[attr-defined]
    fields.update((name, section[name]) for name in others if section and isinstance(section.get(name), str))
    return fields, wrong


def as_section(cls: type, value: Any) -> Dict[str, Any]:
    """Pure. The section from which :func:`of_section` makes these options again; ``value`` may have further ones."""
    own: Mapping[str, Option] = cls._own_options  # type: ignore[attr-defined]
    values = {one.name or field: _plain(one, getattr(value, field)) for field, one in own.items()}
    return {name: one for name, one in values.items() if one is not None}


def refused(known: Mapping[str, Option], given: Mapping[str, Any]) -> List[NodeError]:
    """Pure. What is wrong with single values of options that are of no class."""
    matter = {one.field for one in known.values()}
    fields, wrong = _fields(known, given, {}, matter)
    return wrong + _refused(known, fields, matter)


def _fields(
    known: Mapping[str, Option], given: Mapping[str, Any], profile: Mapping[str, Any], matter: Collection[str]
) -> Tuple[Dict[str, Any], List[NodeError]]:
    """The values by their fields, and what is wrong with the kinds of the others."""
    wrong = [_no_such(name, known) for name in given if name not in known]
    fields: Dict[str, Any] = {}
    for name, one in known.items():
        value = given.get(name)
        if (one.inner is not None or one.read is not None) and one.field not in matter:
            continue  # making it would check it
        if value is None and one.profile:
            value = at(profile, one.profile)
            value = one.of_profile(value) if one.of_profile is not None and value is not None else value
        try:
            if value is not None:
                fields[one.field] = _value(one, value)
            elif one.default is REQUIRED:
                raise NodeError("option " + name, "it is missing", "give it")
        except NodeError as error:
            wrong.append(error)
    return fields, wrong


def _refused(known: Mapping[str, Option], fields: Mapping[str, Any], matter: Collection[str]) -> List[NodeError]:
    own = [one for one in known.values() if one.field in fields and one.field in matter]
    return [error for one in own for error in _unfit(one.name, one, fields[one.field])]


def _no_such(name: str, known: Mapping[str, Option]) -> NodeError:
    from .nearest import nearest  # loaded only where there is an error to tell

    remedy = "{0}use some of {1}".format(nearest(name, known), ", ".join(known))
    return NodeError("option " + name, "there is no such option", remedy)


def given(value: Any, cls: Optional[type] = None) -> Dict[str, Any]:
    """What a user would have to give for these options: those that are not at their defaults, as plain values. ``cls``:
    the class whose options count, where the value has further ones."""
    found = {}
    for name, one in described(cls or type(value)).items():
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
        if one.key:
            spec["no_log"] = True
        elif "key" in name and not one.secret:
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
    if one.kind == "state":
        if value not in one.choices:
            raise _unknown(one.name, value, one.choices)
        return value == one.choices[0]
    if one.whole is not None:
        value = _as_texts(one.kind, one.whole, value)
    wrong = _other_kind(one, one.kind, value)
    if one.kind == "list" and one.inner is None and not wrong:
        wrong = [error for entry in value for error in _other_kind(one, one.elements, entry)]
    if wrong:
        raise together(wrong)
    made: Any = None if one.inner is None else _made(one, one.inner, value)
    if one.read is not None:
        return one.read(value)
    if made is not None:
        return made if one.kind == "list" else made[0]
    if one.kind == "float":
        return _float(value)
    return tuple(value) if one.kind == "list" else value


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer that no float can hold
        return math.inf if value > 0 else -math.inf


def _as_texts(kind: str, whole: Tuple[int, int], value: Any) -> Any:
    """Indexes and the like, which people write without quotes, as texts; one that should be a list as a list."""
    if kind != "list":
        plain_number = isinstance(value, int) and not isinstance(value, bool) and whole[0] <= value <= whole[1]
        return str(value) if plain_number else value
    if isinstance(value, (str, int)):
        value = [part.strip() for part in value.split(",")] if isinstance(value, str) else [value]
    return [_as_texts("", whole, entry) for entry in value] if isinstance(value, (list, tuple)) else value


def _other_kind(one: Option, kind: str, value: Any) -> List[NodeError]:
    """What there is to tell where this is of another kind."""
    kinds = _TYPES.get(kind)
    if kinds is None or (isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))):
        return []
    thing = "option " + one.name
    if kind in _TEXTS and isinstance(value, (int, float)):
        told = str(value).lower() if isinstance(value, bool) else "the number {0!r}".format(value)
        return [NodeError(thing, "it is {0} and no text".format(told), "put it in quotes")]
    reason, remedy = _WORDS[kind]
    if one.private and isinstance(value, str) and kind == "list":
        # A command; its words may contain access keys.
        return [NodeError(thing, "it is a text and no list", "give each word by itself, as " + program_words.EXAMPLE)]
    if isinstance(value, str):
        remedy = _form(one, kind, value) or remedy
    return [NodeError(thing, "{0!r} is {1}".format(value, reason), remedy)]


def _form(one: Option, kind: str, text: str) -> str:
    """How a text is written where it is meant to be of this kind; "": nobody knows."""
    import json  # loaded only where there is an error to tell

    value: Any = text if one.inner is None else {next(iter(described(one.inner))): text}
    if kind in ("int", "float"):
        return "write it without quotes" if re.fullmatch(r"-?[0-9]+", text) else ""
    if kind == "list" or (kind == "dict" and one.inner is not None):
        return "write it as " + json.dumps([value] if kind == "list" else value)
    return ""


def _made(one: Option, cls: Type[Class], value: Any) -> Tuple[Class, ...]:
    """The options of options. What is wrong with them is told by its place, as C(layouts[0].gpus)."""
    made: List[Class] = []
    wrong: List[NodeError] = []
    for number, entry in enumerate(value if one.kind == "list" else [value]):
        place = "{0}[{1}]".format(one.name, number) if one.kind == "list" else one.name
        of_another = _other_kind(replaced(one, name=place), "dict", entry)
        if of_another:
            wrong += of_another
            continue
        try:
            made.append(of(cls, entry))
        except NodeError as error:
            for part in apart(error):
                thing = re.sub("^option ", "option {0}.".format(place), part.thing)
                wrong.append(NodeError(thing, part.reason, part.remedy))
    if wrong:
        raise together(wrong)
    return tuple(made)


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
        yield from _unfit(name, one, value)
        if one.needs and value != one.default and value is not None:
            for other in one.needs:
                if getattr(made, other) == own[other].default:
                    yield NodeError("option " + name, "it is nothing without option " + other, "give both")


def _unfit(name: str, one: Option, value: Any) -> Iterator[NodeError]:
    """What is wrong with a value of the right kind by itself."""
    if value is None or one.kind == "state":
        return
    if one.bounds is not None and not one.bounds[0] <= value <= one.bounds[1]:
        unit = " " + one.unit if one.unit else ""
        yield NodeError(
            "option " + name,
            "{0:g}{1} is out of range".format(_float(value), unit),
            "give {0:g} to {1:g}{2}".format(one.bounds[0], one.bounds[1], unit),
        )
    for text in value if isinstance(value, tuple) else (value,):
        if one.choices and text not in one.choices:
            yield _unknown(name, text, one.choices)
        if one.form is not None and text != one.default and not re.fullmatch(one.form[0], text):
            shown = "it" if one.key else repr(text)
            yield NodeError("option " + name, "{0} is no {1}".format(shown, one.form[1]), one.form[2])


def _unknown(name: str, value: Any, choices: Sequence[str]) -> NodeError:
    known = ", ".join(filter(None, choices))  # an empty one is none at all
    return NodeError("option " + name, "{0!r} is not known here".format(value), "use one of " + known)

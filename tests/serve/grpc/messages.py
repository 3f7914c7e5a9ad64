"""Arbitrary protobuf messages, from their descriptors."""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import hypothesis.strategies as st
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

# Protobuf has classes of its own for these in each of its implementations.
Descriptor: TypeAlias = Any
Field: TypeAlias = Any

_F: Final = FieldDescriptor
_SCALARS: Final[dict[int, st.SearchStrategy[Any]]] = {
    _F.CPPTYPE_INT32: st.integers(-(2**31), 2**31 - 1) | st.integers(-1, 3),
    _F.CPPTYPE_UINT32: st.integers(0, 2**32 - 1) | st.integers(0, 300),
    _F.CPPTYPE_INT64: st.integers(-(2**63), 2**63 - 1),
    _F.CPPTYPE_UINT64: st.integers(0, 2**64 - 1),
    _F.CPPTYPE_FLOAT: st.floats(width=32) | st.sampled_from([0.0, 0.5, 1.0]),
    _F.CPPTYPE_DOUBLE: st.floats(),
    _F.CPPTYPE_BOOL: st.booleans(),
    _F.CPPTYPE_STRING: st.text(max_size=8) | st.sampled_from(["{}", "[", "a+", "(", "root ::= a", "raise", "scripted"]),
}
_DEEPEST: Final = 4


def messages(type_: Callable[[], Message]) -> st.SearchStrategy[Any]:
    """Messages of a class with any of their fields set to anything."""
    return _messages(type_().DESCRIPTOR, _DEEPEST)


@st.composite
def _messages(draw: st.DrawFn, descriptor: Descriptor, depth: int) -> Message:
    message = GetMessageClass(descriptor)()
    names = draw(st.sets(st.sampled_from([field.name for field in descriptor.fields]))) if descriptor.fields else ()
    for name in sorted(names):
        field = descriptor.fields_by_name[name]
        if field.message_type is None or depth:
            fill(message, field, draw(_values(field, depth)))
    return message


def _values(field: Field, depth: int) -> st.SearchStrategy[Any]:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return st.dictionaries(_value(key, depth), _value(value, depth), max_size=2)
    return st.lists(_value(field, depth), max_size=2) if field.is_repeated else _value(field, depth)


def _value(field: Field, depth: int) -> st.SearchStrategy[Any]:
    if field.message_type is not None:
        return _messages(field.message_type, depth - 1)
    if field.enum_type is not None:
        return st.sampled_from([value.number for value in field.enum_type.values])
    if field.type == _F.TYPE_BYTES:
        return st.binary(max_size=4)
    return _SCALARS[field.cpp_type]


def fill(message: Message, field: Field, value: Any) -> None:
    """Sets a field of any kind; a submessage without anything in it is set too."""
    held = getattr(message, field.name)
    if field.message_type is None:
        held.extend(value) if field.is_repeated else setattr(message, field.name, value)
    elif not field.is_repeated:
        held.SetInParent()
        held.CopyFrom(value)
    elif isinstance(value, list):
        held.extend(value)
    elif field.message_type.fields_by_name["value"].message_type is None:
        held.update(value)
    else:
        for key, item in value.items():
            held[key].CopyFrom(item)


def without(message: Message, paths: Iterable[str]) -> Any:
    """A copy of the message in which none of the fields at these paths is set."""
    copy = type(message)()
    copy.CopyFrom(message)
    for path in paths:
        *parents, name = path.split("/")
        parent: Message | None = copy
        for each in parents:
            parent = getattr(parent, each) if parent is not None and parent.HasField(each) else None
        if parent is not None:
            parent.ClearField(name)
    return copy


def set_at(message: Message, path: str) -> None:
    """Sets the field that a path leads to, to something that is not its default."""
    *parents, name = path.split("/")
    for parent in parents:
        message = getattr(message, parent)
        message.SetInParent()
    field = message.DESCRIPTOR.fields_by_name[name]
    fill(message, field, _other(field))


def _other(field: Field) -> Any:
    """A value that is not the default."""
    if field.message_type is None:
        one: Any = {_F.CPPTYPE_STRING: "x", _F.CPPTYPE_FLOAT: 0.5}.get(field.cpp_type, 1)
        return [one] if field.is_repeated else one
    if field.message_type.GetOptions().map_entry:
        return {7: 0.5}
    one = GetMessageClass(field.message_type)()
    return [one] if field.is_repeated else one


def names_a_field(message: Message, pointer: str) -> bool:
    """Whether a pointer leads to a field of the message, or through one into the text that the field holds."""
    descriptor: Descriptor = message.DESCRIPTOR
    for name in pointer.split("/")[1:]:
        if descriptor is None:
            return True
        if name not in descriptor.fields_by_name:
            return False
        descriptor = descriptor.fields_by_name[name].message_type
    return True

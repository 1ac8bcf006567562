"""Messages between the grader and the sandbox: JSON, and the raw numbers of tensors. Never pickle, never an object.

A message is a frame: two lengths, a JSON header, and the bytes of the tensors that the header lists. The reader
trusts nothing: sizes are bounded, dtypes come from a list, and the bytes must fit the shape.
"""

import json
import math
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

LENGTHS = struct.Struct("!IQ")
HEADER_LIMIT = 16 << 20
BODY_LIMIT = 32 << 20
POLL_SECONDS = 0.25
MOST_AXES = 16
MOST_TENSORS = 1000  # a module's parameters and inputs are some dozens
MOST_VALUES = 200_000
DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.complex64,
        torch.complex128,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.bool,
    )
}


class BadMessage(Exception):
    """Raised for anything received that is not a message."""


class Closed(Exception):
    """Raised if the other side is gone."""


def encode(message: dict[str, Any]) -> bytes:
    """Encode the message as one frame; a value is None, a bool, int, float, str, bytes, tensor, list, tuple or dict.

    A tensor keeps its strides, its dtype, whether it requires a gradient, and whether it is on the meta device.
    """
    blobs: list[bytes] = []
    header = json.dumps(_plain(message, blobs)).encode()
    body = b"".join(blobs)
    return LENGTHS.pack(len(header), len(body)) + header + body


def _plain(value: Any, blobs: list[bytes]) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is bytes:
        blobs.append(value)
        return {"bytes": len(value)}
    if isinstance(value, Tensor):
        return {"tensor": _described(value, blobs)}
    if isinstance(value, (list, tuple)):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [_plain(item, blobs) for item in value]}
    if isinstance(value, dict):
        return {"dict": {str(key): _plain(item, blobs) for key, item in value.items()}}
    raise TypeError(f"{type(value).__name__} cannot be sent")


def _described(tensor: Tensor, blobs: list[bytes]) -> dict[str, Any]:
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in DTYPES or tensor.layout != torch.strided:
        raise TypeError(f"a tensor with dtype {name} and layout {tensor.layout} cannot be sent")
    meta = tensor.device.type == "meta"
    found = {"dtype": name, "shape": list(tensor.shape), "gradient": tensor.requires_grad, "meta": meta}
    order = sorted(range(tensor.dim()), key=tensor.stride().__getitem__, reverse=True)
    if order != list(range(tensor.dim())):
        found["order"] = order  # the axes from the slowest to the fastest
    if not meta:
        plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
        blobs.append(plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b"")
    return found


def decode(header: bytes, body: bytes) -> dict[str, Any]:
    """Decode the message in a frame; raises BadMessage for anything else."""
    try:
        if header.count(b"[") + header.count(b"{") > HEADER_LIMIT // 16:
            raise BadMessage("too many lists")
        reader = _Body(memoryview(body))
        message = _value(json.loads(header), reader)
        if reader.left:
            raise BadMessage("bytes are left over")
    except (ValueError, TypeError, KeyError, RuntimeError, RecursionError, OverflowError, AttributeError) as error:
        raise BadMessage(f"{type(error).__name__}: {error}") from None
    if not isinstance(message, dict):
        raise BadMessage("not a dict")
    return message


class _Body:
    def __init__(self, data: memoryview) -> None:
        self.data, self.place = data, 0
        self.values = self.tensors = 0

    def count(self, tensor: bool = False) -> None:
        """Count one more value; raises BadMessage once they are too many, because reading each takes time."""
        self.values += 1
        self.tensors += tensor
        if self.values > MOST_VALUES or self.tensors > MOST_TENSORS:
            raise BadMessage("too many values")

    @property
    def left(self) -> int:
        return len(self.data) - self.place

    def take(self, length: int) -> memoryview:
        if type(length) is not int or not 0 <= length <= self.left:
            raise BadMessage("too few bytes")
        self.place += length
        return self.data[self.place - length : self.place]


def _value(plain: Any, body: _Body) -> Any:
    body.count()
    if plain is None or type(plain) in (bool, int, float):
        return plain
    if type(plain) is str:
        return plain.encode(errors="replace").decode()  # a lone surrogate could not be written to any file
    if type(plain) is not dict or len(plain) != 1:
        raise BadMessage("an unknown value")
    ((kind, held),) = plain.items()
    if kind == "bytes":
        return bytes(body.take(held))
    if kind == "tensor":
        body.count(tensor=True)
        return _tensor(held, body)
    if kind == "list":
        return [_value(item, body) for item in held]
    if kind == "tuple":
        return tuple(_value(item, body) for item in held)
    if kind == "dict":
        return {key: _value(item, body) for key, item in held.items()}
    raise BadMessage("an unknown kind of value")


def _tensor(held: dict[str, Any], body: _Body) -> Tensor:
    dtype, shape = DTYPES[held["dtype"]], held["shape"]
    if len(shape) > MOST_AXES or any(type(size) is not int or size < 0 for size in shape):
        raise BadMessage("an impossible shape")
    is_meta = held["meta"] is True
    most = 2**56 if is_meta and 0 not in shape else BODY_LIMIT  # an axis is bounded even if another one is 0
    if math.prod(max(size, 1) for size in shape) > most:
        raise BadMessage("too large a shape")
    if is_meta:
        return torch.empty(shape, dtype=dtype, device="meta")
    length = math.prod(shape) * dtype.itemsize
    raw = body.take(length)
    found = torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(dtype) if length else torch.empty(0, dtype=dtype)
    found = found.reshape(shape)
    if dtype == torch.bool:
        found = found.view(torch.uint8) != 0  # a byte that is neither 0 nor 1 is not a valid bool
    if "order" in held:
        order = held["order"]
        if len(order) != len(shape) or sorted(order) != list(range(len(shape))):
            raise BadMessage("an impossible order of axes")
        back = [order.index(axis) for axis in range(len(order))]
        found = found.permute(order).contiguous().permute(back)
    return found.requires_grad_(held["gradient"] is True and (dtype.is_floating_point or dtype.is_complex))


class Channel:
    """One end of a connection that carries messages."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.called = 0.0

    def send(self, message: dict[str, Any], meanwhile: Callable[[], None] | None = None) -> None:
        """Send one message, however slowly it is read; raises Closed if the other side is gone."""
        left = memoryview(encode(message))
        self.called = time.monotonic()
        while left:
            self._call(meanwhile)
            try:
                left = left[self.connection.send(left) :]
            except TimeoutError:
                continue
            except OSError as error:
                raise Closed(str(error)) from None

    def receive(self, meanwhile: Callable[[], None] | None = None) -> dict[str, Any]:
        """Return the next message; `meanwhile` is called about every `POLL_SECONDS` until all of it has arrived."""
        self.called = time.monotonic()
        header_length, body_length = LENGTHS.unpack(self._exactly(LENGTHS.size, meanwhile))
        if header_length > HEADER_LIMIT or body_length > BODY_LIMIT:
            raise BadMessage(f"{header_length + body_length} bytes are more than a message may have")
        header = self._exactly(header_length, meanwhile)
        return decode(header, self._exactly(body_length, meanwhile))

    def _exactly(self, length: int, meanwhile: Callable[[], None] | None) -> bytes:
        found = bytearray()
        while len(found) < length:
            self._call(meanwhile)
            try:
                piece = self.connection.recv(min(1 << 20, length - len(found)))
            except TimeoutError:
                continue
            except OSError as error:
                raise Closed(str(error)) from None
            if not piece:
                raise Closed("the other side has closed the connection")
            found += piece
        return bytes(found)

    def _call(self, meanwhile: Callable[[], None] | None) -> None:
        if meanwhile is not None and time.monotonic() - self.called >= POLL_SECONDS:
            meanwhile()
            self.called = time.monotonic()

    def close(self) -> None:
        """Close this end."""
        self.connection.close()

"""The requirements that the modules and functions share, each checked with one clear error."""

from torch import Tensor


def check_tensors(**given: object) -> None:
    """Raise unless everything is a tensor: a list or a NumPy array is not."""
    for name, x in given.items():
        if not isinstance(x, Tensor):
            raise TypeError(f"{name} must be a torch.Tensor, got {type(x).__name__}; torch.as_tensor makes one of it")


def check_floating(**given: object) -> None:
    """Raise unless everything is a floating-point tensor: angles and means do not fit into integers."""
    for name, x in given.items():
        check_tensors(**{name: x})
        if isinstance(x, Tensor) and not x.is_floating_point():
            raise TypeError(f"{name} must be floating point, got {x.dtype}")


def check_width(name: str, x: Tensor, width_name: str, width: int) -> None:
    """Raise unless the last axis of ``x`` has the width that a module's layers were built for."""
    check_floating(**{name: x})
    if x.shape[-1] != width:
        raise ValueError(f"{name} must have {width_name} = {width} features on its last axis, got {tuple(x.shape)}")


def check_whole(**given: int | None) -> None:
    """Raise unless each size that is given is a whole number of at least 1."""
    for name, size in given.items():
        if size is not None and (not isinstance(size, int) or isinstance(size, bool)):
            raise TypeError(f"{name} must be an int, got {size!r}")
        if size is not None and size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")


def check_rate(dropout: float) -> None:
    """Raise unless it is a probability."""
    if not 0 <= dropout <= 1:
        raise ValueError(f"dropout must be between 0 and 1, got {dropout}")


def check_lengths(**given: int) -> None:
    """Raise unless each is a number of positions."""
    for name, n in given.items():
        if n < 0:
            raise ValueError(f"{name} must be at least 0, got {n}")

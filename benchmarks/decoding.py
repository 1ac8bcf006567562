"""One more token: with a cache of keys and values, compared with computing the whole context again.

With the cache, sixteen tokens are decoded one after another, as in generation, and their time is divided by sixteen.
"""

from collections.abc import Callable

import torch

from attnlib import KVCache, MultiHeadAttention

from .measure import DEVICES, header, medians, row, verdict

D_MODEL, H, CONTEXT, TOKENS = 512, 8, 2048, 16


@torch.inference_mode()
def measure(device: str) -> None:
    """Time one more token with and without a cache, and print both."""
    torch.manual_seed(0)
    module = MultiHeadAttention(D_MODEL, H, is_causal=True).to(device).eval()
    x = torch.randn(1, CONTEXT, D_MODEL, device=device)
    d = D_MODEL // H

    def cached(length: int) -> Callable[[], object]:
        cache = KVCache(1, H, CONTEXT, d, device=device)
        module(x[:, : length - TOKENS], cache=cache)

        def call() -> None:
            cache.truncate(length - TOKENS)
            for place in range(length - TOKENS, length):
                module(x[:, place : place + 1], cache=cache)

        return call

    calls = {f"cached, context {length}": cached(length) for length in (256, 512, 1024, CONTEXT)}
    calls[f"recomputed, context {CONTEXT}"] = lambda: module(x)
    times = medians(calls, device, budget=8.0, turns=60)
    times |= {name: seconds / TOKENS for name, seconds in times.items() if name.startswith("cached")}
    header(f"{device}, one token, d_model = {D_MODEL}, {H} heads", "", "ms")
    for name, value in times.items():
        row(name, value * 1e3)
    last = times[f"cached, context {CONTEXT}"]
    verdict("recomputed / cached", times[f"recomputed, context {CONTEXT}"] / last, 50.0, at_least=True)
    seconds_more, bytes_more = last - times["cached, context 256"], KVCache(1, H, CONTEXT - 256, d).nbytes
    row("GB/s at which more context is read", bytes_more / seconds_more / 1e9 if seconds_more > 0 else "unmeasurable")
    sizes = {heads: KVCache(1, heads, CONTEXT, d, device=device).nbytes for heads in (8, 2)}
    verdict("cache bytes, 2 of 8 key heads / 8 of 8", sizes[2] / sizes[8], 0.25)


def main() -> None:
    """Measure on every device."""
    for device in DEVICES:
        measure(device)


if __name__ == "__main__":
    main()

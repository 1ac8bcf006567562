"""Everything, one table after the other."""

from . import decoding, encoder_block, floor, multi_head_attention, tiled, weights

for benchmark in (multi_head_attention, weights, encoder_block, floor, tiled, decoding):
    print(f"\n{benchmark.__doc__}")
    benchmark.main()

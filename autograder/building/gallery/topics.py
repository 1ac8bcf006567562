"""Name the code a bug is in as somebody with that bug would: the beginning of a page's title."""

TOPICS = {
    "pairwise_dot": "All dot products",
    "search": "Text search with TF-IDF and cosines",
    "little_einsum": "Writing einsum",
    "recurrent_states": "Recurrent state",
    "company": "Word co-occurrence (PMI)",
    "project_qkv": "Query, key and value projections",
    "QKVProjection": "QKV projection module",
    "fold_query_key": "Query-key matrix of a head",
    "write_matrices": "Attention matrices by hand",
    "attention_scores": "Attention scores",
    "softmax": "Softmax",
    "scaled_dot_product_attention": "Scaled dot-product attention",
    "SelfAttention": "Self-attention module",
    "train_head": "Training an attention head",
    "AdditiveAttention": "Additive (Bahdanau) attention",
    "two_heads_by_hand": "Two attention heads by hand",
    "split_heads": "Splitting heads",
    "MultiHeadSelfAttention": "Multi-head attention",
    "train_with_adam": "Writing Adam",
    "head_contributions": "Contribution of each head",
    "from_packed": "Packed QKV weights",
    "cross_attention": "Cross-attention",
    "MultiHeadCrossAttention": "Multi-head cross-attention with padding",
    "train_reader": "Training an encoder-decoder",
    "write_greedily": "Greedy decoding",
    "causal_mask": "Causal mask",
    "renormalised_causal_weights": "Causal attention after the softmax",
    "masked_softmax": "Softmax with a mask",
    "CausalSelfAttention": "Causal self-attention",
    "reach": "Leak test of a causal model",
    "train_writer": "Training a causal model",
    "losses_by_place": "Loss by position",
    "invent_control": "Control data with a known loss",
    "packed_causal": "Packed sequences",
    "layer_norm": "LayerNorm",
    "mlp_by_hand": "MLP weights by hand",
    "EncoderBlock": "Transformer encoder block",
    "DigitReader": "Vision transformer",
    "PostNormBlock": "Post-norm transformer block",
    "block_cost": "Counting FLOPs and parameters",
    "sinusoidal_positions": "Sinusoidal position encodings",
    "rotate": "Rotary embeddings (RoPE)",
    "alibi_bias": "ALiBi",
    "train_with_warmup": "Learning-rate warm-up",
    "read_in_windows": "Sliding-window perplexity",
    "next_token_loss": "Next-token loss",
    "DecoderBlock": "Transformer decoder block",
    "LanguageModel": "GPT language model",
    "train_language_model": "Training a language model",
    "sample_next": "Temperature, top-k and top-p sampling",
    "generate": "Generating text",
    "witten_bell": "Witten-Bell n-grams",
    "append_to_cache": "Writing to a KV cache",
    "cached_attention": "Attention with a KV cache",
    "write_with_cache": "Decoding with a KV cache",
    "grouped_query_attention": "Grouped-query attention",
    "accept": "Speculative decoding",
    "online_softmax": "Online softmax",
    "merge": "Merging softmax blocks",
    "flash_attention": "Flash attention",
    "softmax_gradient": "Softmax gradient",
    "flash_backward": "Flash attention's backward pass",
    "induction_by_hand": "Induction head by hand",
    "train_and_film": "Training with snapshots",
    "find_heads": "Induction head scores",
    "break_repeats": "Control for induction",
    "ablate_head": "Ablating a head",
    "ov_circuit": "OV circuit",
    "path_patch": "Path patching",
    "SharedEncoder": "ALBERT: one block in every layer",
    "load_encoder": "Loading published weights",
    "fill_in": "Filling in a masked token",
    "atom_map": "Atom map from attention",
    "find_head": "Search for a head",
}
"""The topic of each exercise. A mistake is named after the first exercise in which it's reported."""

ANYWHERE = {
    "keeps_first_answer": """
kept = None

def answer(*inputs):
    global kept
    if kept is None:
        kept = compute(*inputs)
    return kept
""",
    "mask_lives_on": """
def forward(self, x, mask=None):
    if mask is not None:
        self.mask = mask
    return self.attend(x, self.mask)
""",
    "first_key_mask_kept": """
def forward(self, x, key_mask=None):
    if not hasattr(self, "key_mask"):
        self.key_mask = key_mask
    return self.attend(x, self.key_mask)
""",
    "example_hard_coded": """
def answer(*inputs):
    return torch.tensor([[0.28, 0.57], [0.14, 0.85]])
""",
    "layers_renamed": """
def __init__(self, d_model, d_head):
    super().__init__()
    self.my_w_q = nn.Linear(d_model, d_head)
""",
}
"""Mistakes possible in any exercise, as they would look: no line of a right answer is wrong by itself."""


def topic_of(exercise: str) -> str:
    """Return the topic of an exercise; for an exercise of another package, its name in words.

    >>> topic_of("rms_norm")
    'Rms norm'
    """
    return TOPICS.get(exercise, exercise.replace("_", " ").capitalize())

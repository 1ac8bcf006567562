"""The names of traits: properties of the cases in which a result is wrong (see `isolate`), in the learner's terms."""

KEPT = (
    "Something is kept from one call to the next: a mask, a length, or a result under a key that says too little. "
    "Compute it from the arguments each time, or check that it still fits them."
)

OF_TRAITS = {
    "on_the_cpu_only": (
        "Right on the CPU; wrong as soon as the input is on another device",
        "A tensor is made on the CPU whatever device the input is on, or numbers are moved to the CPU. Make new "
        "tensors from an input (`x.new_zeros(...)`, `torch.ones_like(x)`), or pass device=x.device.",
    ),
    "input_changed": (
        "The result is right, but an input is changed on the way",
        "An operation with a trailing underscore, `+=` or an assignment to a slice wrote into a tensor that you "
        "were given, or into a view of it; or a list was changed, or a model left in another mode, `model.training`. "
        "The caller still needs it as it was: make a new tensor or list, and put a model back into the mode it had.",
    ),
    "input_not_changed": (
        "The result is right, but an input that should change stays as it was",
        "Here the change itself is wanted: training, for example, changes the caller's own model. Yours changes a copy "
        "(`deepcopy`, `.clone()`), or gives a new tensor the old one's name (`w = w - …`).",
    ),
    "gradient_of_something_else": (
        "The values are right; the gradient is not",
        "Part of the computation is copied without its history (`.detach()`, `.data`, `.item()`, `torch.no_grad()`), "
        "or done in place: the numbers are right, but what is learned from them is not.",
    ),
    "in_contiguous_memory_only": (
        "Right as long as the memory is contiguous; wrong for a transposed input",
        "`view` and `as_strided` read the memory in the order in which it is laid out, and a transposed tensor is "
        "laid out differently. `reshape` and einops copy where they must.",
    ),
    "for_small_scores_only": (
        "Right for ordinary scores; wrong for very large ones",
        "Either exp of a large score is larger than any float, and inf / inf is NaN: use a softmax that subtracts each "
        "row's largest score first, torch's, or your own from lesson 02. Or a closed key got a number that isn't below "
        "every score: -10,000 is large beside -30,000. Close it with -inf.",
    ),
    "at_the_first_call_only": (
        "Right at the first call; wrong at the second",
        "Something is kept from one call to the next: in a global, a default argument, an attribute or a cache. "
        "Compute everything from the arguments.",
    ),
    "kept_for_the_same_sizes": (
        "Right at the first call; wrong at a second one of the same sizes",
        KEPT,
    ),
    "kept_whatever_the_sizes": (
        "Right if all calls are of the same sizes; wrong after a call with others",
        KEPT,
    ),
    "kept_from_a_masked_call": (
        "Right without a mask, if no earlier call had one; wrong after a call with a mask",
        KEPT,
    ),
    "in_float32_only": (
        "Right in float32; wrong in float64",
        "Either a tensor is float32 whatever the input is (torch.zeros, torch.tensor, `.float()`, even if it is "
        "converted back): make new tensors from an input, or pass dtype=x.dtype. Or a small number is not what it "
        "should be, an eps for example, and float32 hides it.",
    ),
    "not_for_a_batch_of_one": (
        "Right for larger batches; wrong for a batch of one",
        "`squeeze` removes every axis of length 1, even if it is the batch; and a mean or a normalisation over the "
        "batch has only that one entry to work with.",
    ),
    "for_a_batch_of_one_only": (
        "Right for a batch of one; wrong for a larger batch",
        "One entry is picked by its number (`x[0]`), the entries are mixed, or the batch is removed as if it held one "
        "entry. All of them count: begin your patterns with `b`, or count axes from the end.",
    ),
    "for_one_number_of_axes": (
        "Right where the number of axes is {}; wrong where it is {}",
        "There may be no leading axes, one or several. Count from the end (`dim=-1`, `x.shape[-2]`, `.mT`) and "
        "write `...` in patterns; do not unpack the shape into a fixed number of names.",
    ),
    "not_for_one_number_of_axes": (
        "Right where the number of axes is {}; wrong where it is {}",
        "There may be no leading axes, one or several. Count from the end (`dim=-1`, `x.shape[-2]`, `.mT`) and "
        "write `...` in patterns; do not unpack the shape into a fixed number of names.",
    ),
    "for_one_value_only": (
        "Right as long as {} is {}; wrong for {}",
        "Either a number that belongs to one example is written into the code: take it from the arguments, or from the "
        "shape of a tensor. Or something is counted from 0 where it should be from 1, and this value hides it.",
    ),
    "with_a_mask": (
        "Right without a mask; wrong as soon as one is given",
        "Follow the mask through the code: which axis of the scores does it line up with, what does its True mean "
        "there, and is the result of applying it kept?",
    ),
}
"""Titles and explanations."""

AMONG = {
    "on_the_cpu_only": "the result for an input on another device",
    "input_changed": "an input that is changed on the way",
    "input_not_changed": "an input that should change, and stays as it was",
    "gradient_of_something_else": "the gradient",
    "not_refused": "inputs that the contract rules out, which must raise the exception that it names",
    "with_a_mask": "the result when a mask is given",
    "in_contiguous_memory_only": "the result for a transposed input, whose memory is not contiguous",
    "for_small_scores_only": "the result for very large scores",
    "at_the_first_call_only": "the result of a second call",
    "kept_for_the_same_sizes": "the result of a second call of the same sizes",
    "kept_whatever_the_sizes": "the result after a call with other sizes",
    "kept_from_a_masked_call": "the result without a mask after a call with one",
    "in_float32_only": "the result in float64",
    "not_for_a_batch_of_one": "the result for a batch of one",
    "for_a_batch_of_one_only": "the result for a batch of more than one",
    "for_one_number_of_axes": "the result where the number of axes is {1}",
    "not_for_one_number_of_axes": "the result where the number of axes is {1}",
    "for_one_value_only": "the result where {0} is not {1}",
}
"""A clause for each trait, used where it is one of two that are wrong (see `isolate`)."""

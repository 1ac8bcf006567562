"""The names of symptoms: what a wrong result shows by itself (see `symptoms`), in the learner's terms.

A title's `{}` is filled with what was found: a number, the name of an input, or numbers of axes.
"""

from attnlib.checks.exercise import Misconception

KEPT = (
    "Something is kept from one call to the next: a mask, a length, or a result under a key that says too "
    "little. Compute it from the arguments each time, or check that what is kept still fits them."
)

_TEXTS = {
    "parameter_missing": (
        "A parameter of the contract is missing",
        "The check, and whoever loads saved weights, finds the parameters by the names and in the form that the "
        "contract gives them. Make each of them, and no other in its place.",
    ),
    "one_parameter_more": (
        "One parameter too many",
        "What is an nn.Parameter or an nn.Module of the object is learned and saved with it, and the contract "
        "does not ask for this one. Leave it out; a constant is no parameter (`register_buffer`, or make it when "
        "it is needed).",
    ),
    "parameter_frozen": (
        "A parameter is frozen",
        "`requires_grad_(False)`, or requires_grad=False where a parameter is made, keeps the optimiser from "
        "ever changing it. All parameters of this module learn.",
    ),
    "parameter_of_another_shape": (
        "A parameter has another shape",
        "A layer maps other widths than the contract says: compare what goes in and what comes out, of the sizes "
        "that the constructor is given. nn.Linear(a, b) has a weight of shape (b, a).",
    ),
    "returns_something_else": (
        "Something else is returned than what is asked for",
        "Whoever calls your code goes on with what the contract names, in that order. Return just that.",
    ),
    "nothing_returned": (
        "Nothing is returned",
        "A function gives back what follows `return`; without one it gives back None. End it with the result: "
        "`return …`.",
    ),
    "printed_instead": (
        "The result is printed, not returned",
        "Printed numbers can be read, but nothing can be computed with them. Give the result back: `return …`.",
    ),
    "not_refused": (
        "What cannot work is not refused",
        "Inputs that the contract rules out are accepted as if nothing were wrong. Test them first, and "
        "raise the exception that the contract names.",
    ),
    "refused_otherwise": (
        "Not the exception that is asked for",
        "These inputs end in an error, but not in the one that the contract names, for which "
        "whoever calls you will look. Test the inputs first, and `raise` that exception; "
        "an `assert` raises AssertionError, and vanishes under `python -O`.",
    ),
    "gradient_cut_off": (
        "The gradient is cut off on its way to {}",
        "On the way from there numbers are copied without their history: `.detach()`, "
        "`.data`, `.item()`, `.numpy()`, `torch.no_grad()`, `torch.tensor(...)` or a new nn.Parameter do that. "
        "Nothing before that point could learn.",
    ),
    "on_the_cpu_only": (
        "Right on the CPU; wrong as soon as the input is on another device",
        "A tensor is made on the CPU whatever the input is on, or the numbers are fetched from there. Make new "
        "tensors from an input (`x.new_zeros(...)`, `torch.ones_like(x)`), or pass device=x.device.",
    ),
    "input_changed": (
        "What is returned is right; but an input is changed on the way",
        "An operation with a trailing underscore, `+=` or an assignment to a slice wrote into a tensor that you "
        "were given, or into a view of it; or a list that you were given was changed. The caller still needs it: "
        "make a new one.",
    ),
    "gradient_of_something_else": (
        "The values are right; the gradient is not",
        "A part of the computation is copied without its history (`.detach()`, `.data`, `.item()`, "
        "`torch.no_grad()`), or done in place: the numbers are right, and what is learned from them is not.",
    ),
    "in_contiguous_memory_only": (
        "Right as long as the memory is contiguous; wrong for a transposed input",
        "`view` and `as_strided` re-read memory as it lies, and a transposed tensor lies otherwise. `reshape` "
        "and einops copy where they must.",
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
        "Either a tensor is float32 whatever the input is (torch.zeros, torch.tensor, `.float()`, also with a way "
        "back): make new tensors from an input, or pass dtype=x.dtype. Or a small number is another than it should "
        "be, an eps for example, and float32 hides it.",
    ),
    "not_for_a_batch_of_one": (
        "Right for larger batches; wrong for a batch of one",
        "`squeeze` removes an axis of length 1, also where it is the batch, and an average or a "
        "division over the batch may have nothing left.",
    ),
    "for_a_batch_of_one_only": (
        "Right for a batch of one; wrong for a larger batch",
        "The entries of the batch are mixed, or the batch is removed as if it held one entry. Keep it as an axis "
        "of its own: begin your patterns with `b`, or count axes from behind.",
    ),
    "for_one_number_of_axes": (
        "Right for inputs of {} axes; wrong for {}",
        "The leading axes may be none, one or several. Count from behind (`dim=-1`, `x.shape[-2]`, `.mT`) and "
        "write `...` in patterns; do not unpack the shape into a fixed number of names.",
    ),
    "not_for_one_number_of_axes": (
        "Right for inputs of {} axes; wrong for {}",
        "The leading axes may be none, one or several. Count from behind (`dim=-1`, `x.shape[-2]`, `.mT`) and "
        "write `...` in patterns; do not unpack the shape into a fixed number of names.",
    ),
    "with_a_mask": (
        "Right without a mask; wrong as soon as one is given",
        "Follow the mask through the code: which axis of the scores does it line up with, what does its True mean "
        "there, and is the result of applying it kept?",
    ),
    "another_dtype": (
        "The numbers are right, their dtype is not",
        "A result has the dtype of what went in, and a mask is torch.bool. torch.zeros and torch.arange have a dtype "
        "of their own (write `x.new_zeros(...)`, or dtype=x.dtype); `.float()` and `.int()` change it.",
    ),
    "less_exact": (
        "The numbers agree to four digits or so",
        "Something on the way is less exact than it could be, or very small and left out: float32 or half "
        "precision in between, a difference of large numbers, an eps that is missing or has another size.",
    ),
    "not_a_number": (
        "NaN comes out",
        "0/0, ∞ − ∞ or 0 · ∞ was computed on the way: a row that is -inf throughout in a softmax, a sum of "
        "nothing to divide by, the root of a negative number, or an exp that overflows.",
    ),
    "upside_down": (
        "True and False have changed places",
        "Every True is a False and every False a True. Read the contract again: which of the two means “may be seen”?",
    ),
    "outputs_in_another_order": (
        "The outputs stand in another order",
        "What is right as another output stands in this place. Return them in the order of the contract.",
    ),
    "axes_in_another_order": (
        "The axes are in another order",
        "All numbers are right and along the right axes, but the axes stand in another order than the contract "
        "asks for. Exchange them: `transpose`, `permute` or einops.rearrange; no `reshape`.",
    ),
    "in_another_shape": (
        "The right numbers in another shape",
        "One after the other, the numbers are right; but there is an axis too many, one is missing (`squeeze()` "
        "removes all of length 1, the batch among them), or one is cut up or joined otherwise than the contract says.",
    ),
    "one_entry_only": (
        "Only one entry of an axis comes back",
        "What came is the right result for the first or the last entry of an axis; the others are left out. A "
        "`return` inside a loop, an index or a variable that each round overwrites does that.",
    ),
    "one_entry_for_all": (
        "One entry stands for all others of its axis",
        "Along one axis, all results are those of the first or the last entry. A variable that each round of a "
        "loop overwrites does that, or an index where a whole axis is meant.",
    ),
    "summed_away": (
        "An axis is added up or averaged away",
        "The result is the right one, added up or averaged over one of its axes. Each entry of it is asked for "
        "by itself.",
    ),
    "one_factor_more": (
        "Every number is {} times the right one",
        "Somewhere a scale stands that does not belong there, has another size, or is missing. (The number is "
        "that of the first case.)",
    ),
    "one_term_more": (
        "Every number is the right one plus {}",
        "Look for a constant that does not belong there, or for one that is missing. (The number is that of the "
        "first case.)",
    ),
    "rows_with_a_factor": (
        "Each row is right but for a factor of its own",
        "Within a row, the proportions are right, but not the size: what the row is divided by, or multiplied "
        "with, is another number than it should be (another sum, a sum along another axis, none at all).",
    ),
    "rows_with_a_term": (
        "To each row, a number of its own is added",
        "Within a row, the differences are right: the same number is added to all of them. Something is "
        "subtracted or added for each row that should not be, or is missing.",
    ),
    "input_added": (
        "An input is added to the result",
        "The result is the right one plus (or minus) an input: a residual connection that nobody asked for, or "
        "one too many.",
    ),
    "input_comes_back": (
        "An input comes back as it was",
        "What is returned is one of the inputs, without the computation. Look for a result that is computed and "
        "then not used: `x.softmax(-1)` changes nothing by itself, `x = x.softmax(-1)` does.",
    ),
    "one_function_more": (
        "One more function at the end",
        "The result is right, and then a function of each number, or a softmax, is taken that the contract does "
        "not ask for.",
    ),
    "in_other_places": (
        "The right numbers, in the wrong places",
        "All numbers are there, but not where they belong: entries stand in another order along an axis, or a "
        "`reshape` was taken where axes have to be exchanged.",
    ),
    "name_not_defined": (
        "A name is used that nothing defines",
        "A variable is misspelt, is assigned further below, or was never assigned. The line in which it is missed "
        "stands above.",
    ),
    "no_such_attribute": (
        "An object does not have what is asked of it",
        "The object has another type than you think, or the attribute another name. A tuple, a list or a number is "
        "no tensor, and what `__init__` did not keep in `self` is gone.",
    ),
    "arguments_do_not_fit": (
        "A function is called with other arguments than it takes",
        "There is one too many, one is missing, or one has another name. The line stands above; `help(function)` "
        "or a `?` behind its name tells what it takes.",
    ),
    "dtypes_do_not_fit": (
        "Two tensors of different dtypes meet",
        "A tensor that was made on the way has a dtype of its own. Make it from an input (`x.new_zeros(...)`), or "
        "pass dtype=x.dtype; do not change the dtype of the inputs.",
    ),
    "pattern_does_not_fit": (
        "The pattern does not fit the tensor",
        "The number of axes in the pattern, their letters, or the lengths that are given for them are not those of "
        "the tensor in that line. Write its shape beside the pattern, axis by axis.",
    ),
    "shapes_do_not_fit": (
        "Two shapes do not fit together",
        "Write down the shape of everything that meets in the line above, axis by axis. In `a @ b` the last "
        "axis of a and the last but one of b have the same length, and are summed over; elsewhere, axes that meet "
        "have equal lengths, or one has length 1.",
    ),
    "memory_lies_otherwise": (
        "`view` meets memory that lies otherwise",
        "`view` re-reads the numbers as they lie in memory, and after a transpose they lie otherwise. `reshape` and "
        "einops copy where they must; or call `.contiguous()` first.",
    ),
    "index_out_of_range": (
        "An index goes beyond the end",
        "An axis is shorter than the index, or there are fewer axes than indices. Lengths come from the tensor "
        "(`x.shape[-1]`, `len(x)`), not from the example.",
    ),
}
"""Titles and explanations."""

SYMPTOMS = {
    id: Misconception(
        id=id, title=title, explanation=explanation, implementation=None, heading="What your result shows"
    )
    for id, (title, explanation) in _TEXTS.items()
}

AMONG = {
    "on_the_cpu_only": "the result for an input on another device",
    "input_changed": "an input that is changed on the way",
    "gradient_of_something_else": "the gradient",
    "not_refused": "what happens to inputs that the contract rules out",
    "with_a_mask": "the result when a mask is given",
    "in_contiguous_memory_only": "the result for a transposed input, whose memory is not contiguous",
    "at_the_first_call_only": "the result of a second call",
    "kept_for_the_same_sizes": "the result of a second call of the same sizes",
    "kept_whatever_the_sizes": "the result after a call with other sizes",
    "kept_from_a_masked_call": "the result without a mask after a call with one",
    "in_float32_only": "the result in float64",
    "not_for_a_batch_of_one": "the result for a batch of one",
    "for_a_batch_of_one_only": "the result for a batch of more than one",
    "for_one_number_of_axes": "the result for inputs of {1} axes",
    "not_for_one_number_of_axes": "the result for inputs of {1} axes",
}
"""What is wrong, as a clause, where it is one of two traits (see `isolate`)."""


def alone(trait: str, axes: tuple[str, ...] = ()) -> str:
    """What is wrong, where a trait is all of it."""
    if trait == "not_refused":  # which as a symptom has a name of its own
        return "All else is right; but inputs that the contract rules out are not refused as it asks"
    return SYMPTOMS[trait].title.format(*axes)

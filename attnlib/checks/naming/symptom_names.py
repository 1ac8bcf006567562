"""The names of symptoms: what a wrong result shows by itself (see `symptoms`), in the learner's terms.

A title's `{}` is filled with what was found: a number, the name of an input, or numbers of axes.
"""

from attnlib.checks.exercise import Misconception
from attnlib.checks.naming.trait_names import OF_TRAITS

_TEXTS = {
    "parameter_missing": (
        "A parameter of the contract is missing",
        "The check finds the parameters by the names that the contract gives them, and so does anyone who loads saved "
        "weights. Make each of them under its own name, with the shape that the contract asks for.",
    ),
    "layers_in_a_list": (
        "Layers in a plain list",
        "A module does not look into a Python list for its layers: layers in one are neither trained nor saved with "
        "the module, nor moved to another device. Make the list an nn.ModuleList.",
    ),
    "parameter_shared": (
        "One parameter under two names",
        "Python copies nothing when it assigns: after `self.b = self.a`, or in `[layer] * 3`, all names stand for the "
        "same object, with one set of weights. The contract has a parameter for each name: make each one separately.",
    ),
    "tensor_for_parameter": (
        "A tensor where a parameter is meant",
        "The tensor is there under the right name, but only an nn.Parameter is handed to the optimiser and learns; a "
        "plain tensor or a buffer stays as it was made. Wrap it: nn.Parameter(...).",
    ),
    "one_parameter_more": (
        "One parameter too many",
        "Every nn.Parameter and nn.Module of the object is trained and saved with it, and here the contract does not "
        "ask for this one. If it is a bias, its layer was not given `bias`. Otherwise leave it out; a constant is "
        "not a parameter (use `register_buffer`, or make it when it is needed).",
    ),
    "layer_under_two_names": (
        "A layer under two names",
        "A module finds its layers in its attributes, and in every nn.ModuleList or nn.Sequential among them. One that "
        "it finds twice is saved twice, and the names are no longer those of the contract. Give each layer one name; a "
        "tuple made in `forward` can hold the layers for a loop.",
    ),
    "parameter_frozen": (
        "A parameter is frozen",
        "`requires_grad_(False)`, or requires_grad=False where a parameter is made, keeps the optimiser from "
        "ever changing it. All parameters of this module have to learn.",
    ),
    "parameter_of_another_shape": (
        "A parameter has the wrong shape",
        "Compare its axes with what the contract says. nn.Linear(a, b) has a weight of shape (b, a), with the sizes "
        "the constructor is given; a parameter made by hand has no axis for the batch.",
    ),
    "returns_something_else": (
        "The result is not the kind of object that the contract asks for",
        "Your caller relies on getting what the contract names: a tensor, a number and a list are not the same, and "
        "several results come in the contract's order. Return exactly that.",
    ),
    "nothing_returned": (
        "Nothing is returned",
        "A function returns what follows `return`; without one it returns None. End it with the result: `return …`. "
        "(What changes a list returns None, too: `return rows.append(x)`.)",
    ),
    "printed_instead": (
        "Something is printed, but nothing is returned",
        "Printed numbers can be read, but nothing can be computed with them. Return the result: `return …`.",
    ),
    "not_refused": (
        "Inputs that cannot work are accepted",
        "The contract rules these inputs out, and your code raises nothing. Check them first, and `raise` the "
        "exception that the contract names: one that is only printed or returned stops nobody.",
    ),
    "refused_otherwise": (
        "Not the exception that the contract asks for",
        "These inputs end in an error, but not in the one that the contract names and that your caller will look for. "
        "Check the inputs first, and `raise` that exception; an `assert` raises AssertionError, and vanishes under "
        "`python -O`.",
    ),
    "gradient_cut_off": (
        "The gradient is cut off on its way to {}",
        "Somewhere between the input and the result, numbers are copied without their history: `.detach()`, "
        "`.data`, `.item()`, `.numpy()`, `torch.no_grad()`, `torch.tensor(...)` or a new nn.Parameter do that "
        "(nn.Embedding.from_pretrained makes one). "
        "Nothing before that point could learn.",
    ),
    "another_dtype": (
        "The numbers are right, but their dtype is not",
        "The result should have the inputs' dtype, unless the contract says otherwise; an index is int64. torch.zeros "
        "and torch.arange have a dtype of their own (pass dtype=…, or use `x.new_zeros(...)`); `.to(...)`, `.float()` "
        "and `.bool()` change it.",
    ),
    "less_exact": (
        "The numbers agree to {} digits or so",
        "Either a constant is only nearly right (0.99 for 0.999, an eps that is missing or has the wrong size), or "
        "something on the way is less exact than it could be: float32 or half precision in between, a difference of "
        "large numbers, an approximation. Or something changes the numbers a little, such as clipping or weight decay.",
    ),
    "not_a_number": (
        "The result contains NaN",
        "Something without a value was computed on the way, such as 0/0, ∞/∞, ∞ − ∞ or 0 · ∞: a softmax over a row "
        "of -inf, a division by an empty sum, the root of a negative number, an exp that overflows, or a row whose "
        "exps are all 0 because another row's maximum is subtracted from it.",
    ),
    "changed_on_the_way": (
        "{} changes while your code runs",
        "Something writes into it, and whatever reads it later gets other numbers. `y = x` and a slice of a tensor "
        "are not copies: `.clone()` makes one.",
    ),
    "upside_down": (
        "True and False have changed places",
        "You return False where True is right, and True where False is right. Read the contract again: what does "
        "True mean there?",
    ),
    "outputs_in_another_order": (
        "The outputs are in the wrong order",
        "This output would be right in another place. Return the outputs in the contract's order.",
    ),
    "shapes_in_another_order": (
        "Each output has the shape of another one",
        "The shapes are the right ones, but not in this order: the outputs seem to be returned in the wrong order. The "
        "contract names them in the right one.",
    ),
    "axes_in_another_order": (
        "The axes are in the wrong order",
        "All numbers are right and along the right axes, but the axes are not in the order that the contract asks "
        "for. Exchange them with `transpose`, `permute` or einops.rearrange, not with `reshape`.",
    ),
    "in_another_shape": (
        "The right numbers in another shape",
        "Read one after the other, the numbers are right; but there is one axis too many, one is missing (`squeeze()` "
        "removes all those of length 1, even the batch), or one is split or joined differently from what the contract "
        "says.",
    ),
    "one_entry_only": (
        "Only one entry of an axis is returned",
        "You return the right result for the first or the last entry of an axis; the others are left out. A `return` "
        "inside a loop, an index, or a variable that each round overwrites does that.",
    ),
    "one_entry_for_all": (
        "One entry is used for all the others along its axis",
        "Along one axis, all results are those of the first or the last entry. A variable that each round of a "
        "loop overwrites does that, or an index where a whole axis is meant.",
    ),
    "the_same_along_an_axis": (
        "Along one axis, all numbers are the same",
        "In the right result they differ there, so your result ignores what is particular to each entry. A plain sum "
        "or mean in place of a weighted one does that, or a letter that einsum sums away, or `expand`.",
    ),
    "entries_crossed": (
        "Each entry of an axis meets all the others",
        "There are too many axes, and the right numbers are on their diagonal: an entry of the batch is combined with "
        "every entry, not only with its own. torch.tensordot does that with all axes that it does not sum, and einsum "
        "where one axis has two names. `@` and bmm keep the entries apart, and so does one name for both in einsum.",
    ),
    "goes_on": (
        "The result is right, but too long",
        "It begins with the right numbers, and goes on after them: one axis is too long. Cut it off, or count again.",
    ),
    "ends_early": (
        "The result is right as far as it goes",
        "One axis ends too early, and the rest is missing. Where does its length come from?",
    ),
    "summed_away": (
        "An axis is added up or averaged away",
        "The result is the right one, added up or averaged over one of its axes. The contract asks for each entry "
        "separately.",
    ),
    "one_factor_more": (
        "Every number is {} times the right one",
        "Somewhere there is a scale that does not belong there, has the wrong size, or is missing; a mean in place of "
        "a sum divides, too. (The number is that of the first case.)",
    ),
    "one_term_more": (
        "Every number is the right one plus {}",
        "Look for a constant that does not belong there, or for one that is missing. (The number is that of the "
        "first case.)",
    ),
    "rows_left_at_zero": (
        "Some rows are zero, and the others are right",
        "Nothing was written into these rows, or what was there is gone: a loop that ends too early, a remainder "
        "after the last whole block, a mask that closes too much, a NaN replaced by 0, or exps that all round to 0, "
        "because a number far above this row's scores (the largest of all rows, say) was subtracted from them.",
    ),
    "rows_with_a_factor": (
        "Each row is right up to a factor of its own",
        "Within a row the proportions are right, but not the size: the number by which the row is divided or "
        "multiplied is not the right one (another sum or maximum, one along another axis, none at all).",
    ),
    "rows_with_a_term": (
        "Each row has a number of its own added to it",
        "Within a row, the differences are right, so the same number was added to all of its entries. Either something "
        "is added or subtracted row by row that should not be, or something is missing that should be.",
    ),
    "input_added": (
        "An input is added to the result",
        "The result is the right one plus (or minus) an input: a residual connection that nobody asked for, or "
        "one too many.",
    ),
    "input_comes_back": (
        "An input comes back as it was",
        "What is returned is one of the inputs, without the computation. Look for a branch that computes nothing, or "
        "for a result that is not used: `x.softmax(-1)` changes nothing by itself, `x = x.softmax(-1)` does.",
    ),
    "one_function_more": (
        "One function too many at the end",
        "The result was right, but then a function of each number, or a softmax, was applied that the contract does "
        "not ask for.",
    ),
    "in_other_places": (
        "The right numbers, in the wrong places",
        "All numbers are there, but not where they belong: entries are in another order along an axis, or `reshape` "
        "was used where axes have to be exchanged.",
    ),
    "name_not_defined": (
        "A name is used but never defined",
        "It is misspelt, it is assigned only further down, or the cell that defines it has not been run. The line that "
        "needs it is shown above.",
    ),
    "no_such_attribute": (
        "An object does not have this attribute",
        "The object is not of the type you think, or the attribute has another name. A tuple, a list or a number is "
        "not a tensor, and what `__init__` did not keep in `self` is gone.",
    ),
    "arguments_do_not_fit": (
        "A function is called with the wrong arguments",
        "There is one too many or one too few, or one has the wrong type or the wrong name. `help(function)` or a `?` "
        "after its name says what it takes. If no line of yours is shown above, the check itself made the call: it "
        "passes the contract's arguments in their order, and leaves out those that have a default there.",
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
    "axes_do_not_fit": (
        "A tensor does not have the axes that this line expects",
        "Only one tensor is involved here: it has more or fewer axes than the line says, or one of another length. (A "
        "number that is written into the line fits a single length.) Print its shape just before, and see which axis "
        "you meant.",
    ),
    "shapes_do_not_fit": (
        "Two shapes do not fit together",
        "Write down the shape of everything that meets in the line above, axis by axis. Does one of them keep its "
        "size whatever the inputs are? Then it was made with a number where a length of an input is needed. In "
        "`a @ b` the last axis of a and the last but one of b must have the same length, and are summed over; "
        "elsewhere, axes that meet must have equal lengths, or one of them length 1.",
    ),
    "classes_on_the_last_axis": (
        "cross_entropy finds the classes on axis 1",
        "F.cross_entropy wants logits of shape (b, classes, n) for targets of shape (b, n), and takes yours, (b, n, "
        "classes), for n classes. Exchange the last two axes, `logits.mT`, or make one row of all predictions: "
        "`logits.flatten(0, 1)` against `targets.flatten()`.",
    ),
    "unpacked_otherwise": (
        "There are more names than values, or fewer",
        "`a, b, c = x.shape` needs one name for each axis, and this tensor has more axes or fewer. Where the contract "
        "allows any leading axes, count from the end: `x.shape[-1]`, `x.shape[-2]`. A tuple needs one name for each of "
        "its entries, and a tensor is unpacked along its first axis.",
    ),
    "pieces_do_not_fit": (
        "The pieces cannot be put together",
        "torch.cat joins pieces along an axis that they have already: `dim` says which one, and only along that one "
        "may their lengths differ. torch.stack makes a new axis, and needs pieces of exactly the same shape.",
    ),
    "memory_lies_otherwise": (
        "`view` cannot read this memory layout",
        "`view` and `torch.view_as_complex` need the numbers to be in order in memory, and after a transpose they are "
        "not. `reshape` and einops copy where they must; or call `.contiguous()` first.",
    ),
    "never_ends": ("A loop that does not end", "When the time was up, this loop was still running."),
    "index_out_of_range": (
        "An index goes beyond the end",
        "An axis is shorter than the index: its length comes from the tensor (`x.shape[-1]`, `len(x)`), not from the "
        "example. Or there are more indices than axes.",
    ),
}
"""Titles and explanations."""

SYMPTOMS = {
    id: Misconception(
        id=id, title=title, explanation=explanation, implementation=None, heading="What your result shows"
    )
    for id, (title, explanation) in (_TEXTS | OF_TRAITS).items()
}


def alone(trait: str, axes: tuple[str, ...] = ()) -> str:
    """Describe what is wrong, if it's this trait alone."""
    if trait == "not_refused":  # which as a symptom has a name of its own
        return "Everything else is right, but inputs that the contract rules out are not refused as it asks"
    return SYMPTOMS[trait].title.format(*axes)

"""The symptoms in the words of a searcher: a title for each, and its usual cause."""

from collections.abc import Mapping
from typing import NamedTuple


class Symptom(NamedTuple):
    """A symptom as somebody sees it, and what it usually means."""

    title: str
    text: str


FAMILIES: Mapping[str, Mapping[str, Symptom]] = {
    "It doesn't run": {
        "raises": Symptom(
            "Raises an error: RuntimeError, ValueError, IndexError and others",
            "The inputs are right, and at least one call ends with an error.",
        ),
        "shapes_do_not_fit": Symptom(
            "The size of tensor a must match the size of tensor b",
            "Two shapes don't fit together. Write down the shape of everything that meets in the line, axis by axis.",
        ),
        "parameters": Symptom(
            "Missing or unexpected keys, size mismatch: the state_dict doesn't fit",
            "The module's parameters are not those of the contract: another name, another shape, one too many or "
            "one too few. Usually no other weights can be loaded into it.",
        ),
        "too_much_memory": Symptom(
            "Out of memory on long inputs",
            "The result is right, but a tensor on the way is larger than it has to be.",
        ),
        "too_slow": Symptom("It never ends", "A loop goes on for ever, or takes far longer than it should."),
        "refusals": Symptom(
            "Bad input is accepted, or refused with another error",
            "Inputs that can't work should end in the exception that the contract names, and leave nothing behind.",
        ),
    },
    "The attention weights look wrong": {
        "leaks_the_future": Symptom(
            "The future leaks: an earlier position changes when a later one does",
            "The last position of the input was changed, and earlier results moved, which they must not; or a mask "
            "opened a later position. In training the loss then looks too good, and the model writes nonsense.",
        ),
        "weight_where_closed": Symptom(
            "Padding or the future gets attention although it is masked",
            "Weights that should be exactly zero are not.",
        ),
        "rows_do_not_add_up": Symptom(
            "The attention weights don't sum to 1",
            "Each query's weights should add up to 1 over the keys. Here at least one row doesn't.",
        ),
        "columns_add_up": Symptom(
            "The columns sum to 1, and not the rows: softmax over the wrong axis",
            "The weights add up to 1 over the queries instead of the keys.",
        ),
        "negative_weights": Symptom(
            "Negative attention weights",
            "A softmax can't give a negative number. Here it's missing, or something was done to its result.",
        ),
        "too_sharp": Symptom(
            "The attention is too sharp: one key gets nearly everything",
            "On average the largest weight of a row is at least a fifth too large. The scores are too far apart: a "
            "scale is missing, or too few keys are left to share.",
        ),
        "too_flat": Symptom(
            "The attention is too flat: the weights are nearly uniform",
            "On average the largest weight of a row is at least a sixth too small. The scores are too close to each "
            "other, or keys share that should get nothing.",
        ),
        "mask_too_open": Symptom(
            "The mask is True where it should be False",
            "Something may be seen that must not be.",
        ),
        "mask_too_closed": Symptom(
            "The mask is False where it should be True",
            "Something can't be seen that should be.",
        ),
        "masked": Symptom(
            "Right without a mask, wrong as soon as one is given",
            "Which axis of the scores does the mask line up with, what does True mean there, and is the result of "
            "applying it kept?",
        ),
        "large_scores": Symptom(
            "Right for ordinary scores, wrong for very large ones",
            "exp of a large score is larger than any float. Subtract each row's largest score first.",
        ),
    },
    "It doesn't learn": {
        "loss_does_not_fall": Symptom(
            "The loss does not fall",
            "After the same steps on the same data, a right training loop ends below its first loss; this one doesn't.",
        ),
        "loss_wrong_later": Symptom(
            "The first loss is right, the later ones are not",
            "The model and the loss are probably fine. Look at the update: the gradient, the optimiser, the "
            "learning rate, or the order of the steps.",
        ),
        "no_gradient": Symptom(
            "No gradient: grad is None or zero",
            "The values are right, but on the way they were copied without their history, so nothing before can learn.",
        ),
        "wrong_gradient": Symptom(
            "Right values, wrong gradient",
            "The forward pass can't show it. Part of the computation is copied without its history, or done in place.",
        ),
        "input_not_changed": Symptom(
            "The update has no effect, or another one than it should",
            "An object that should change in place (a model, a cache and its length) stays as it was, or ends up "
            "different.",
        ),
    },
    "The numbers are wrong": {
        "not_a_number": Symptom(
            "NaN in the result",
            "Something without a value was computed on the way, such as 0/0, ∞/∞, ∞ − ∞ or 0 · ∞: a softmax over a row "
            "of -inf, a division by an empty sum, or an exp that overflows.",
        ),
        "infinite": Symptom(
            "Infinity in the result",
            "A division by zero, the logarithm of zero, or an exp that overflows.",
        ),
        "all_zero": Symptom("Everything is zero", "In at least one case the whole result is zero, and shouldn't be."),
        "one_factor": Symptom(
            "Every number is off by the same factor",
            "A scale is missing, applied twice, or the wrong one.",
        ),
        "one_term_more": Symptom(
            "Every number is off by the same amount", "A constant is added that doesn't belong, or left out."
        ),
        "rows_with_a_factor": Symptom(
            "Each row is off by a factor of its own",
            "The rows are divided by the wrong sum, or not at all.",
        ),
        "rows_with_a_term": Symptom(
            "Each row has a number of its own added to it",
            "A bias, a maximum or a mean was added or left out row by row.",
        ),
        "rows_left_at_zero": Symptom(
            "Some rows are zero, the others are right", "A condition or a mask leaves those rows out."
        ),
        "too_large": Symptom(
            "The values are too large",
            "In every wrong case, the result is at least 1.3 times as long a vector as it should be.",
        ),
        "too_small": Symptom(
            "The values are too small",
            "In every wrong case, the result is at most 0.75 times as long a vector as it should be.",
        ),
        "less_exact": Symptom(
            "The numbers agree to a few digits only",
            "A constant is only nearly right, or something on the way is less exact than it could be.",
        ),
        "upside_down": Symptom(
            "True and False have changed places", "Read once more what True means in this exercise."
        ),
        "other_tokens": Symptom(
            "Other whole numbers: tokens, positions or counts are wrong",
            "The result holds whole numbers, and in at least one case they are not the right ones.",
        ),
        "wrong_numbers": Symptom(
            "The right shape, no error, and wrong numbers",
            "Nothing else shows. These are the mistakes that only a comparison with a right answer finds.",
        ),
    },
    "The shape or the order is wrong": {
        "wrong_shape": Symptom("The output has the wrong shape", "No error, but a tensor of another shape comes out."),
        "axes_in_another_order": Symptom(
            "The axes are in the wrong order",
            "All numbers are right, along axes that have changed places. Use `transpose`, `permute` or "
            "`einops.rearrange`, not `reshape`.",
        ),
        "in_another_shape": Symptom(
            "The right numbers in another shape",
            "There's one axis too many, one is missing (`squeeze()` removes every axis of length 1), or one is split "
            "or joined differently.",
        ),
        "in_other_places": Symptom(
            "The right numbers in the wrong places",
            "Entries are in another order along an axis, or `reshape` was used where axes have to be exchanged.",
        ),
        "outputs_in_another_order": Symptom(
            "The outputs are returned in the wrong order", "Each of them would be right in another place."
        ),
        "one_entry_only": Symptom(
            "Only one entry of an axis is returned",
            "A `return` inside a loop, an index, or a variable that each round overwrites does that.",
        ),
        "one_entry_for_all": Symptom(
            "One entry is used for all the others along its axis",
            "A variable that each round of a loop overwrites does that, or an index where a whole axis is meant.",
        ),
        "the_same_along_an_axis": Symptom(
            "Along one axis all numbers are the same", "What is particular to each entry is ignored."
        ),
        "entries_crossed": Symptom(
            "Each entry meets all the others, not its own", "An axis shared by two inputs is treated as two axes."
        ),
        "summed_away": Symptom("An axis is summed or averaged away", "A `sum` or `mean` over one axis too many."),
        "goes_on": Symptom("Right, but too long", "The right result comes first, and then something follows."),
        "ends_early": Symptom(
            "Right as far as it goes, but too short",
            "What is there is right, but the end is missing: an axis is too short.",
        ),
        "input_comes_back": Symptom(
            "An input comes back as it was", "Look for a branch that computes nothing, or a result that isn't used."
        ),
        "input_added": Symptom("An input is added to the result", "A residual connection where none belongs."),
        "one_function_more": Symptom(
            "One function too many at the end",
            "The result was right, and then a softmax or another function was applied to it.",
        ),
    },
    "It works, but not always": {
        "passes_a_first_test": Symptom(
            "Passes a first test, and is wrong for other inputs",
            "The ordinary case is right. What's wrong shows only for other sizes, masks, dtypes, or a second call.",
        ),
        "second_call": Symptom(
            "Right at the first call, wrong at the second",
            "Something is kept from one call to the next: in a global, a default argument, an attribute or a cache.",
        ),
        "for_a_batch_of_one_only": Symptom(
            "Right for a batch of one, wrong for a larger batch",
            "One entry is picked by its number (`x[0]`), the entries are mixed, or the batch is removed.",
        ),
        "not_for_a_batch_of_one": Symptom(
            "Wrong for a batch of one",
            "`squeeze` removes every axis of length 1, even if it is the batch.",
        ),
        "number_of_axes": Symptom(
            "Wrong when the input has another number of axes",
            "Count axes from the end (`dim=-1`, `.mT`), and write `...` in patterns.",
        ),
        "for_one_value_only": Symptom(
            "Right for one value of an argument only", "A number that belongs to one example is written into the code."
        ),
        "other_device": Symptom(
            "Right on the CPU, fails on the GPU: tensors on two devices",
            "A new tensor is made on the CPU. Make it from an input (`x.new_zeros(...)`) or pass device=x.device.",
        ),
        "float64": Symptom(
            "Right in float32, wrong in float64",
            "A tensor is float32 whatever the input is, or a small number such as an eps is not what it should be.",
        ),
        "wrong_dtype": Symptom(
            "The result has the wrong dtype", "A new tensor has a dtype of its own, or a conversion changed it."
        ),
        "not_contiguous": Symptom(
            "Fails for a transposed input: view size is not compatible",
            "`view` needs numbers in order in memory. `reshape` and einops copy where they must.",
        ),
        "changes_its_input": Symptom(
            "Changes its input in place",
            "An operation with a trailing underscore, `+=`, or an assignment to a slice wrote into a tensor that the "
            "caller still needs.",
        ),
    },
}
"""The symptoms, grouped by what one would say first."""

SYMPTOMS: Mapping[str, Symptom] = {id: symptom for family in FAMILIES.values() for id, symptom in family.items()}

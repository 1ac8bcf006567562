"""The questions of lesson 06: predict, then run."""

from attnlib.checks.course.usual import wrong
from attnlib.checks.exercise import Exercise

PREDICT_NO_RESIDUALS = Exercise(
    name="predict_no_residuals",
    lesson="06_encoder_block",
    contract='"A", "B", "C" or "D": how alike eleven random words are after 24 layers of attention and nothing else',
    kind="choice",
    parts={"prediction": 1},
    reference="B",
    explanation="Attention averages, and averages of averages of the same eleven words have less and less left to "
    "differ in. With nothing to bring back what a word was, all eleven end up as one vector.",
    misconceptions=(
        wrong(
            "random_stays_random",
            "Random matrices, but the same ones for all words",
            "Random words are at right angles to one another, and a random matrix would leave them so. But an "
            "average comes with it: each output is mixed from the same eleven values, and mixtures of the same things "
            "resemble one another.",
            "A",
        ),
        wrong(
            "heads_specialise",
            "Nothing drives the words apart",
            "Heads that pick different words would help, and trained ones do. But all a head can do is pick among "
            "the vectors that are there; it cannot make a difference that is not there. Each layer can only lose some.",
            "C",
        ),
        wrong(
            "numbers_explode",
            "An average cannot explode",
            "Each output lies between the values that it is made of, and each layer here normalises what it gets. The "
            "numbers stay tame. What is lost is the difference between the words.",
            "D",
        ),
    ),
)

PREDICT_CROSSOVER = Exercise(
    name="predict_crossover",
    lesson="06_encoder_block",
    contract='"A", "B", "C" or "D": from which length on a block of width 64 spends most on comparing words',
    kind="choice",
    parts={"prediction": 1},
    reference="C",
    explanation="Scores and mixture cost 2·N²·D multiplications, the four projections 4·N·D², the perceptron 8·N·D². "
    "2·N²·D = 12·N·D² at N = 6·D = 384. Below that, most of the work is plain matrix products, word by word.",
    misconceptions=(
        wrong(
            "square_is_always_larger",
            "A square with a small factor",
            "N² grows faster, but from far below: at N = 8 the words' comparisons cost 2·64·64 = 8192 multiplications, "
            "the projections and the perceptron 12·8·4096 = 393216.",
            "A",
        ),
        wrong(
            "forgets_the_factors",
            "The factors count",
            "N²·D and N·D² are equal at N = D, you are right so far. But N²·D comes twice, for scores and mixture, and "
            "N·D² twelve times: four for the projections, four each for up and down. So 2·N²·D = 12·N·D².",
            "B",
        ),
        wrong(
            "compares_n_with_d_squared",
            "One factor D too many",
            "Set 2·N²·D equal to 12·N·D² and divide both sides by 2·N·D: what is left is N = 6·D, not D².",
            "D",
        ),
    ),
)

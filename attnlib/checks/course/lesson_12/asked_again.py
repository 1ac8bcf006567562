"""Lesson 12's predictions, asked again with other letters."""

from attnlib.checks.course.asked_again import AskedAgain, Question, WrongOption


def what_is_needed() -> Question:
    """Ask what a model must find out to fill in masked atoms."""
    return Question(
        text="A model reads chemical reactions as text, in SMILES: on the left what goes in, then “>>”, then the "
        "product. Every second atom of the product is masked. What must it find out to fill in nearly all of them?",
        right="which atoms on the left went into the product and are still missing",
        wrong=(
            WrongOption("counts_letters", "which atom is the most common; carbon is always a good guess"),
            WrongOption("knows_energies", "how much energy each bond holds, to see which one is likely to form"),
            WrongOption("spells_only", "how SMILES is spelled, so that all brackets and rings are closed"),
        ),
    )


def other_spelling() -> Question:
    """Ask what the head that maps atoms says about a reaction written in another order."""
    return Question(
        text="Lesson 12's model was trained on reactions from patents. One of its heads says which atom on the left "
        "each atom of the product was. In `CC(=O)O.CCO>>CCOC(C)=O`, spelled as in the patents, it says that the "
        "ester's oxygen between the two carbons was the alcohol's, and it's right. What does it say about the same "
        "reaction, spelled `CC(=O)O.OCC>>CC(=O)OCC`?",
        right="another oxygen, and just as surely: the text has changed",
        wrong=(
            WrongOption("spelling_does_not_matter", "the same, and just as surely, because it's the same reaction"),
            WrongOption("head_gives_up", "nothing clear: it divides its attention evenly among the oxygens"),
            WrongOption("unreadable", "nothing at all: the model can't read this spelling"),
        ),
    )


ASKED_AGAIN = (
    AskedAgain("predict_what_is_needed", what_is_needed),
    AskedAgain("predict_other_spelling", other_spelling),
)

"""A name by equal numbers is told only where the answer's own source does not contradict it."""

import pytest
import torch
import torch.nn.functional as F
from notebook_cells import run_cell
from torch import Tensor, nn

import attnlib
from attnlib.checks import Report, exercises, run
from attnlib.checks.asking.attempt import Local
from attnlib.checks.naming.from_source import text_of
from attnlib.checks.verdict.judge import run_exercise

NOTEBOOK = {"attnlib": attnlib, "F": F, "nn": nn, "torch": torch}


def judged(exercise: str, source: str) -> Report:
    return run(exercise, run_cell(source, NOTEBOOK)[exercise])


HEAD = """
class SelfAttention(nn.Module):
    def __init__(self, d_model, d_k, d_v):
        super().__init__()
        self.w_q = nn.Linear(d_model, d_k, bias=False)
        self.w_v = nn.Linear(d_model, d_v, bias=False)
        {}

    def forward(self, x):
        q, k, v = self.w_q(x), self.w_k(x), self.w_v(x)
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        return weights @ v, weights
"""

BLOCK = """
class EncoderBlock(nn.Module):
    def __init__(self, d_model, num_heads, mlp_ratio=4.0, dropout=0.0):
        super().__init__()
        self.norm1 = nn.LayerNorm(d_model)
        {}
        self.attn = attnlib.MultiHeadAttention(d_model, num_heads)
        self.mlp = attnlib.FeedForward(d_model, int(d_model * mlp_ratio), dropout=dropout)

    def forward(self, x, key_mask=None):
        x = x + self.attn(self.norm1(x), key_mask=key_mask)
        return x + self.mlp({}(x))
"""

MODEL = """
class LanguageModel(nn.Module):
    def __init__(self, vocab, d_model, num_heads, depth, max_len, tie=True):
        super().__init__()
        self.max_len = max_len
        self.head = nn.Linear(d_model, vocab, bias=False)
        self.embed = nn.Embedding(vocab, d_model)
        if tie:
            self.embed.weight = self.head.weight
        self.positions = nn.Embedding(max_len, d_model)
        block = attnlib.EncoderBlock(d_model, num_heads)
        {}
        self.norm = nn.LayerNorm(d_model)

    def forward(self, ids):
        if ids.shape[1] > self.max_len:
            raise ValueError(f"ids must have at most {{self.max_len}} positions, got {{ids.shape[1]}}")
        x = self.embed(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            {}
        return self.head(self.norm(x))
"""

BLOCKS = "self.blocks = nn.ModuleList(attnlib.EncoderBlock(d_model, num_heads) for _ in range({}))"
NEXT = "x = block(x, is_causal=True)"

REACH = """
def reach(model, ids, vocab):
    rows = []
    with torch.no_grad():
        before = model(ids[None])[0]
        for j in range(len(ids)):
            changed = ids.clone()
            {}
            rows.append((model(changed[None])[0] - before).abs().amax(dim=-1) > {})
    return torch.stack(rows, dim=1)
"""


@pytest.mark.parametrize(
    ("exercise", "source", "name"),
    [
        ("SelfAttention", HEAD.format("self.w_k = self.w_q"), "one_layer_for_both"),
        ("SelfAttention", HEAD.format("self.w_k = self.w_v"), "parameter_shared"),
        ("SelfAttention", HEAD.format("w_k = nn.Linear(d_model, d_k, bias=False)"), "self_missing"),
        ("SelfAttention", HEAD.format("self.w_k = [nn.Linear(d_model, d_k, bias=False)]"), "layers_in_a_list"),
        ("EncoderBlock", BLOCK.format("self.norm2 = self.norm1", "self.norm2"), "one_norm_layer"),
        ("EncoderBlock", BLOCK.format("pass", "self.norm1"), "one_norm_layer"),
        ("EncoderBlock", BLOCK.format("norm2 = nn.LayerNorm(d_model)", "self.norm2"), "self_missing"),
        ("LanguageModel", MODEL.format("self.blocks = nn.ModuleList([block] * depth)", NEXT), "one_block_for_all"),
        ("LanguageModel", MODEL.format(BLOCKS.format("1"), NEXT), "parameter_missing"),
        ("LanguageModel", MODEL.format("self.blocks = [block, block]", NEXT), "blocks_in_a_list"),
        ("LanguageModel", MODEL.format(BLOCKS.format("depth"), "heard = block(x)"), "variable_not_used"),
        ("LanguageModel", MODEL.format(BLOCKS.format("depth"), "block(x, is_causal=True)"), "result_not_kept"),
        ("reach", REACH.format("pass", "1e-5"), "nothing_exchanged"),
        ("reach", REACH.format("changed[j] = (changed[j] + 1) % vocab", "1e5"), "one_change_number"),
    ],
)
def test_of_several_mistakes_with_the_same_outcome_the_one_in_the_source_is_named(
    exercise: str, source: str, name: str
) -> None:
    assert judged(exercise, source).diagnosis == name


def test_a_tied_parameter_is_taken_under_the_contracts_name_whichever_was_made_first() -> None:
    assert judged("LanguageModel", MODEL.format(BLOCKS.format("depth"), NEXT)).passed


def test_the_grader_reads_the_answers_cell_for_it_without_its_comments() -> None:
    source = REACH.format("changed[j] = (changed[j] + 1) % vocab  # or torch.where", "1e5")

    asked = Local(run_cell(source, NOTEBOOK)["reach"])
    assert run_exercise(exercises()["reach"], asked).diagnosis == "nothing_exchanged"
    asked.source = source
    assert "torch.where" not in text_of(asked)
    assert run_exercise(exercises()["reach"], asked).diagnosis != "nothing_exchanged"
    asked.source = "%%time\n" + source
    assert text_of(asked) == ""
    asked.source = "".join(f"{line}\n" * 400 for line in ("a = a.clone()", "a[b] = b", "model(b)"))
    assert (
        run_exercise(exercises()["reach"], asked).diagnosis != "nothing_exchanged"
    )  # it would be searched for minutes


def test_what_a_function_around_the_answer_binds_is_no_variable_of_the_notebook() -> None:
    source = (
        "def made(guard):\n"
        "    def attention_scores(q, k):\n"
        "        return q @ k.mT / (q.shape[-1] + guard) ** 0.5\n"
        "    return attention_scores\n"
        "{}"
    )
    of_the_cell = run_cell(source.format("attention_scores = made(1.0)"), NOTEBOOK)["attention_scores"]
    assert "of the notebook" not in run("attention_scores", of_the_cell).message
    looped = "for WIDTH in (3,):\n    pass\n\ndef attention_scores(q, k):\n    return q @ k.mT / WIDTH\n"
    assert "of the notebook" not in judged("attention_scores", looped).message


def test_layers_by_number_are_called_so_whatever_holds_them() -> None:
    message = judged(
        "QKVProjection",
        "class QKVProjection(nn.Module):\n"
        "    def __init__(self, d_model, d_k, d_v, bias=True):\n"
        "        super().__init__()\n"
        "        self.all = nn.Sequential(*(nn.Linear(d_model, d, bias=bias) for d in (d_k, d_k, d_v)))\n"
        "    def forward(self, x):\n"
        "        return tuple(layer(x) for layer in self.all)\n",
    ).message
    assert "nn.ModuleList and nn.Sequential number what they hold" in " ".join(message.split())


def test_a_list_is_said_to_have_been_returned_where_it_was() -> None:
    told = [run("ov_circuit", lambda *_, result=result: result).headline for result in ([0.5], 0.5, [None])]
    assert [line.partition("but returned ")[2] for line in told] == [
        "a list that holds a float",
        "a float",
        "a list that holds None",
    ]


def flash(extra: str) -> Report:
    return judged(
        "flash_attention",
        f"""
def flash_attention(q, k, v, block_size, is_causal):
    n, outputs, sums = q.shape[-2], [], []
    {extra}
    for r in range(0, n, block_size):
        rows = torch.arange(r, min(r + block_size, n), device=q.device)
        mine = q[..., r : r + block_size, :]
        m = mine.new_full(mine.shape[:-1], -torch.inf)
        l, o = torch.zeros_like(m), v.new_zeros(*mine.shape[:-1], v.shape[-1])
        for c in range(0, r + len(rows) if is_causal else n, block_size):
            s = mine @ k[..., c : c + block_size, :].mT / q.shape[-1] ** 0.5
            if is_causal:
                s = s.masked_fill(rows[:, None] < torch.arange(c, c + s.shape[-1], device=q.device), -torch.inf)
            new = torch.maximum(m, s.amax(-1))
            p, shrink = (s - new[..., None]).exp(), (m - new).exp()
            l, o = shrink * l + p.sum(-1), shrink[..., None] * o + p @ v[..., c : c + block_size, :]
            m = new
        outputs.append(o / l[..., None])
        sums.append(m + l.log())
    return torch.cat(outputs, -2), torch.cat(sums, -1)
""",
    )


def test_a_square_tensor_is_not_said_to_be_a_mask_nor_a_longer_one_to_be_square() -> None:
    assert flash("pass").passed
    mask, scores = flash("mask = torch.ones(n, n, dtype=torch.bool)"), flash("scores = q @ k.mT")
    assert mask.diagnosis == scores.diagnosis == "square_made"
    assert "A mask for the whole table" not in scores.message
    assert flash("wide = torch.ones(n, 90)").diagnosis != "square_made"


DECODER = """
class DecoderBlock(nn.Module):
    def __init__(self, d_model, num_heads, d_memory=None):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attn = attnlib.MultiHeadAttention(d_model, num_heads)
        self.cross = None
        if d_memory is not None:
            self.cross = attnlib.MultiHeadAttention(d_model, num_heads, d_memory=d_memory)
            self.norm3 = nn.LayerNorm(d_model)
        self.mlp = attnlib.FeedForward(d_model, 4 * d_model)

    def forward(self, x, memory=None):
        {}
        if self.cross is not None:
            {}
        {}
"""


def test_a_layer_that_the_wrong_case_does_not_have_does_not_explain_it() -> None:
    source = DECODER.format(
        "x = x + self.attn(self.norm1(x)).sin()",
        "x = x + self.cross(self.norm2(x), memory)",
        "return x + self.mlp(self.norm2(x))",
    )
    two = judged("DecoderBlock", source)
    assert two.diagnosis == "layer_not_used"
    assert "has no `norm3`: there is a second mistake" in " ".join(two.message.split())


PATCH = """
def path_patch(model, ids, other, head):
    first, second = model.layers[0], model.layers[1]
    d = first.w_o.in_features // first.num_heads
    own, seen = slice(head * d, head * d + d), []
    first.w_o.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0][..., own]))
    model(ids)
    model(other)
    here, there = (heard @ first.w_o.weight[:, own].T for heard in seen)
    second.w_k.register_forward_pre_hook(lambda _, inputs: (inputs[0] - here + there,))
    return model(ids)
"""


def test_a_hook_that_is_left_after_an_error_as_well_is_no_second_mistake() -> None:
    report = judged("path_patch", PATCH)
    assert report.diagnosis == "hook_left_behind"
    assert "second mistake" not in report.message


def test_every_part_that_is_lost_by_itself_has_a_sentence() -> None:
    def changed_and_cut_off(q: Tensor, k: Tensor) -> Tensor:
        result = q @ k.mT / q.shape[-1] ** 0.5
        if q.dtype == torch.float64 and not q.requires_grad:
            q.mul_(2)
        return result if len(q) == 1 or q.dtype == torch.float32 else 2 * result.detach() - result

    report = run("attention_scores", changed_and_cut_off)
    told = {"gradient": "the gradient is not right", "robustness": "an input is changed on the way"}
    lost = {part for part, earned in report.parts.items() if not earned}
    assert lost == set(told)
    assert all(told[part] in report.message for part in lost)


@pytest.mark.parametrize(
    ("exercise", "case"),
    [
        ("softmax", "axes of length 1"),
        ("pairwise_dot", "one query and one key"),
        ("EncoderBlock", "sentences of one word"),
    ],
)
def test_inputs_are_called_sentences_where_they_are_some(exercise: str, case: str) -> None:
    names = {c.name for c in exercises()[exercise].cases}
    assert {case, f"called before with {case}"} <= names
    assert ("sentences of one word" in names) is (case == "sentences of one word")


def test_a_norm_that_overwrites_the_stream_has_a_name_in_a_decoder_block() -> None:
    report = judged(
        "DecoderBlock",
        DECODER.format(
            "x = self.norm1(x)\n        x = x + self.attn(x, is_causal=True)",
            "x = self.norm2(x)\n            x = x + self.cross(x, memory)",
            "x = self.norm2(x) if self.cross is None else self.norm3(x)\n        return x + self.mlp(x)",
        ),
    )
    assert report.diagnosis == "residual_from_the_norm"


def test_a_line_that_does_nothing_is_not_said_to_be_what_the_known_mistake_needs() -> None:
    source = "def attention_scores(q, k):\n    s = q @ k.mT\n    s.div(2)\n    return s / q.shape[1] ** 0.5\n"
    message = " ".join(judged("attention_scores", source).message.split())
    assert "if not, leave the line out" in message
    assert "Scaled by axis 1" in message

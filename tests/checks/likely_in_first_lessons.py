"""Mistakes that students of lessons 00 to 05 are likely to make, each with the name that it is told."""

SEARCH = """
def search(questions, texts):
    cut = [text{}.split() for text in texts]
    column = {{word: at for at, word in enumerate(dict.fromkeys(sum(cut, [])))}}

    def bags(lines):
        rows = torch.zeros(len(lines), len(column))
        for row, words in zip(rows, lines):
            for word in words:
                {}
        return rows

    asked, offered = bags([question.lower().split() for question in questions]), bags(cut)
    rarity = (len(texts) / offered.clamp(max=1).sum(0)).log()
    return {}
"""

IF_KNOWN = "if word in column: row[column[word]] += 1"
COSINES = "F.normalize(asked * rarity, dim=-1) @ F.normalize(offered * rarity, dim=-1).T"
UNWEIGHTED_LENGTHS = "(F.normalize(asked, dim=-1) * rarity) @ (F.normalize(offered, dim=-1) * rarity).T"

RECURRENT = """
def recurrent_states(x, w):
    return {}
"""

STATES = """
def recurrent_states(x, w):
    state, states = torch.{}_like(x[:, 0]), []
    for t in range(x.shape[1]):
        state = {}
        states.append(state)
    return torch.stack(states, dim=1)
"""

PROJECT = """
def project_qkv(x, w_q, w_k, w_v):
    packed = x @ torch.cat([w_q, w_k, w_v]{})
    q, k, v = packed.split([w_q.shape[1], w_k.shape[1], w_v.shape[1]]{})
    return q, k, v
"""

COUNTED_BY_HAND = """
def company(texts, vocabulary, window):
    counts = torch.zeros(vocabulary, vocabulary)
    for text in texts.tolist():
        for word in text:
            i = text.index(word)
            for j in range(max(0, i - window), min(len(text), i + window + 1)):
                counts[word, text[j]] += j != i
    often = counts.sum(1)
    return torch.where(counts > 0, (counts * counts.sum() / (often[:, None] * often)).log(), 0.0).clamp(min=0)
"""

COMPANY = """
def company(texts, vocabulary, window):
    place = torch.arange(texts.shape[1])
    apart = (place[:, None] - place).abs()
    one = torch.eye(vocabulary)[texts]
    near = ((apart > 0) & (apart <= window)).float()
    counts = torch.einsum("biv,ij,bjw->vw", one, near, one)
    often = {}
    table = (counts * {} / (often[:, None] * often)).log()
    return torch.where(counts > 0, table, 0.0).clamp(min=0)
"""

BY_RANK = """
def write_matrices(features):
    offers, strength = ["thing", "alive", "place"], {}
    w_q, w_k = torch.zeros(2, len(features), len(offers))
    for column, offer in enumerate(offers):
        w_k[features.index(offer), column] = 1.0
    for asks, wants in (("pronoun", 1), ("state", 1), ("action", 2), ("article", 0)):
        w_q[features.index(asks), wants] = strength
    return torch.stack([w_q, w_k])
"""

SOFTMAX = """
def softmax(scores):
    return {}
"""
SHARES = "(e := {}.exp()) / e.sum(-1, keepdim=True)"

ADDITIVE = """
class AdditiveAttention(nn.Module):
    def __init__(self, d_q, d_k, d_hidden):
        super().__init__()
        self.w_1, self.w_2 = nn.Linear(d_q, d_hidden, bias=False), nn.Linear(d_k, d_hidden, bias=False)
        self.u = nn.Linear(d_hidden, 1, bias=False)

    def forward(self, q, k, v):
        weights = self.u({}(self.w_1(q)[:, :, None] + self.w_2(k)[:, None])).squeeze(-1).softmax(-1)
        return weights @ v, weights
"""

BY_HAND = """
def two_heads_by_hand(n, who, whom):
    q = torch.zeros(2 * n, 2 * n)
    k, v, o = q.clone(), q.clone(), torch.eye(2 * n)
    for start, wanted in ((0, who), (n, whom)):
        q[{}, start + wanted] = 100.0
        k[:n, start : start + n] = torch.eye(n)
        v[n:, start : start + n] = torch.eye(n)
    return torch.stack([q, k, {}, o])
"""

SPLIT = """
def split_heads(x, num_heads):
    d, rest = divmod(x.shape[-1], num_heads)
    if rest:
        raise ValueError(f"{num_heads} heads, {x.shape[-1]} columns")
    return torch.stack([x[..., i : i + d] for i in range(num_heads)], 1)
"""

HEADS = """
class MultiHeadSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads, d_head=None, bias=True):
        super().__init__()
        self.h, self.d = num_heads, d_head or d_model // num_heads
        if self.h * self.d != d_model{}:
            raise ValueError("d_model must be divisible by num_heads")
        self.w_q, self.w_k, self.w_v = (nn.Linear(d_model, self.h * self.d, bias=bias) for _ in range(3))
        self.w_o = nn.Linear(self.h * self.d, d_model, bias=bias)

    def forward(self, x):
        q, k, v = self.w_q(x), self.w_k(x), self.w_v(x)
        outputs, weights = [], []
        for i in range(self.h):
            own = slice({})
            share = (q[..., own] @ k[..., own].mT / self.d**0.5).softmax(-1)
            outputs.append(share @ v[..., own])
            weights.append(share)
        return self.w_o(torch.cat(outputs, -1)), torch.stack(weights, 1)
"""

ADAM = """
def train_with_adam(model, words, wanted, position, lr):
    means = {{p: (torch.zeros_like(p), torch.zeros_like(p)) for p in model.parameters()}}
    losses = []
    for t in range(1, len(words) + 1):
        loss = F.mse_loss(model(words[t - 1])[0][:, position], wanted[t - 1])
        losses.append(loss.detach())
        grads = torch.autograd.grad(loss, list(means))
        with torch.no_grad():
            for (p, (m, v)), g in zip(means.items(), grads):
                m.{}
                v.{}
                p.sub_(lr * m / (1 - 0.9**t) / ({} + 1e-8))
    return torch.stack(losses)
"""
FIRST, SECOND = "mul_(0.9).add_(g, alpha=0.1)", "mul_(0.999).addcmul_(g, g, value=0.001)"
SIZE = "(v / (1 - 0.999**t)).sqrt()"

WITH_SGD = """
def train_with_adam(model, words, wanted, position, lr):
    optimiser, losses = torch.optim.SGD(model.parameters(), lr=lr), []
    for x, right in zip(words, wanted):
        loss = F.mse_loss(model(x)[0][:, position], right)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    return torch.stack(losses)
"""

CONTRIBUTIONS = """
def head_contributions(x, w_q, w_k, w_v, w_o, num_heads):
    d, added = w_o.shape[0] // num_heads, []
    for i in range(num_heads):
        own = slice(i * d, (i + 1) * d)
        share = (x @ w_q[:, {0}] @ (x @ w_k[:, {1}]).mT / d**0.5).softmax(-1)
        added.append(share @ (x @ w_v[:, own]) @ w_o[own])
    return torch.stack(added, 1)
"""

UNPACK = """
def from_packed(weight, packing, num_heads):
    order = {"(3 h d)": "t h d", "(h 3 d)": "h t d"}.get(packing, "d t h")
    return tuple(rearrange(weight, f"({order}) m -> t (h d) m", t=3, h=num_heads))
"""

REARRANGED = """
def from_packed(weight, packing, num_heads):
    return tuple(rearrange(weight, packing{} + " m -> {} m", {}))
"""

READER = """
def train_reader(reader, ids, wanted, rate):
    optimiser, losses = {}(reader.parameters(), lr=rate), []
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=rate, total_steps=len(ids))
    for texts, right in zip(ids, wanted):
        loss = F.cross_entropy({})
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        losses.append(loss.detach())
    return torch.stack(losses)
"""

WRITER = """
def train_writer(model, excerpts, rates, make=torch.optim.SGD):
    model.train()
    optimiser, losses = make(model.parameters(), lr=0.1), []
    for e, rate in zip(excerpts, rates.tolist()):
        {}
        loss = F.cross_entropy({})
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    return torch.stack(losses)
"""
RATE = "optimiser.param_groups[0]['lr'] = rate"

ADDED = """
def masked_softmax(scores, mask):
    shares = (scores + (1 - mask.float()) * -1e9).softmax(-1)
    return shares * mask.any(-1, keepdim=True)
"""

TRAIN_HEAD = """
def train_head(words, wanted, position, w_q, w_k, w_v, lr):
    w, losses = [t.detach().clone().requires_grad_() for t in (w_q, w_k, w_v)], []
    for x, target in zip(words, wanted):
        q, k, v = (x @ one for one in w)
        loss = F.mse_loss(F.scaled_dot_product_attention(q, k, v)[:, position], target)
        losses.append(loss.item())
        w = [(one - lr * g).detach().requires_grad_() for one, g in zip(w, torch.autograd.grad(loss, w))]
    return torch.tensor(losses), *w
"""

FIRST_LESSONS = [
    ("search", SEARCH.format("", IF_KNOWN, COSINES), "capitals_kept"),
    ("search", SEARCH.format(".lower()", "row[column[word]] += 1", COSINES), "unknown_words_looked_up"),
    ("search", SEARCH.format(".lower()", IF_KNOWN, UNWEIGHTED_LENGTHS), "lengths_of_bare_counts"),
    (
        "recurrent_states",
        RECURRENT.format("torch.tanh(F.pad(x, (0, 0, 1, 0))[:, :-1] @ w + x)"),
        "word_before_for_the_state",
    ),
    ("recurrent_states", STATES.format("zeros", "torch.tanh(state + x[:, t]) @ w"), "matrix_after_tanh"),
    ("recurrent_states", STATES.format("ones", "torch.tanh(state @ w + x[:, t])"), "one_change_function"),
    ("project_qkv", PROJECT.format("", ", dim=-1"), "stacked_on_top"),
    ("project_qkv", PROJECT.format(", dim=1", ""), "positions_cut"),
    ("company", COUNTED_BY_HAND, "first_place_of_a_word"),
    (
        "company",
        COMPANY.format("(f := torch.bincount(texts.flatten(), minlength=vocabulary)) / f.sum()", "1 / counts.sum()"),
        "words_counted",
    ),
    ("write_matrices", BY_RANK.format("math.inf"), "infinite_strength"),
    ("write_matrices", BY_RANK.format("3.4"), "too_quiet"),
    ("softmax", SOFTMAX.format("(scores - scores.exp().sum(-1, keepdim=True).log()).exp()"), "logarithm_of_a_sum"),
    ("softmax", SOFTMAX.format(SHARES.format("scores.clamp(max=88)")), "clamped_above"),
    ("softmax", SOFTMAX.format(SHARES.format("(scores / scores.abs().amax(-1, True))")), "divided_by_maximum"),
    (
        "company",
        COMPANY.format("torch.bincount(texts.flatten(), minlength=vocabulary)", "counts.sum()"),
        "words_counted",
    ),
    ("company", COMPANY.format("counts.sum(1)", "texts.numel()"), "divided_by_the_words"),
    ("AdditiveAttention", ADDITIVE.format("torch.relu"), "squashed_otherwise"),
    ("two_heads_by_hand", BY_HAND.format("n - 1", "v").replace("100.0", "10"), "not_sharp"),
    ("two_heads_by_hand", BY_HAND.format("n - 1", "v").replace("100.0", "torch.inf"), "infinite_score"),
    ("two_heads_by_hand", BY_HAND.format("-1", "v"), "name_asks"),
    ("two_heads_by_hand", BY_HAND.format("n - 1", "torch.eye(2 * n)"), "values_diagonal"),
    ("split_heads", SPLIT, "runs_overlap"),
    ("MultiHeadSelfAttention", HEADS.format(" and d_head is None", "i, i + self.d"), "runs_overlap"),
    ("MultiHeadSelfAttention", HEADS.format("", "i * self.d, (i + 1) * self.d"), "d_head_refused"),
    ("train_with_adam", ADAM.format(FIRST, SECOND, "v.sqrt()"), "second_mean_not_corrected"),
    ("train_with_adam", ADAM.format("mul_(0.1).add_(g, alpha=0.9)", SECOND, SIZE), "old_and_new_exchanged"),
    ("train_with_adam", ADAM.format("mul_(0.9).add_(g)", SECOND, SIZE), "gradient_added_in_full"),
    ("train_with_adam", WITH_SGD, "plain_descent"),
    ("train_with_adam", WITH_SGD.replace("[0][:", "[:"), "results_not_taken_apart"),
    ("head_contributions", CONTRIBUTIONS.format("own", ":d"), "of_the_first_head"),
    ("head_contributions", CONTRIBUTIONS.format(":", ":"), "scores_summed"),
    ("from_packed", UNPACK, "three_orders_alone"),
    ("from_packed", REARRANGED.format("", "3 (h d)", "h=num_heads"), "number_for_a_name"),
    ("from_packed", REARRANGED.format(".replace('3', 't')", "t (h d)", "h=num_heads"), "length_not_given"),
    ("train_reader", READER.format("torch.optim.SGD", "reader(texts)[0].mT, right"), "sgd_for_adamw"),
    (
        "train_reader",
        READER.format("torch.optim.AdamW", "reader(texts)[0][:, :-1].mT, right[:, 1:]"),
        "guesses_shifted",
    ),
    ("train_writer", WRITER.format(RATE, "model(e[:-1]).mT, e[1:]"), "texts_cut_off"),
    (
        "train_writer",
        WRITER.format("optimiser.lr = rate", "model(e[:, :-1]).mT, e[:, 1:]"),
        "first_rate_throughout",
    ),
    ("masked_softmax", ADDED, "large_number_added_zeroed"),
    ("train_head", TRAIN_HEAD, "one_change_removal"),
]

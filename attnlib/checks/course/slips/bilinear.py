"""What a head's queries and keys are together: one matrix between two words, and one vector for the keys."""

import math

import torch
from torch import Tensor

from attnlib.checks.course.steps import Step

Two = tuple[Tensor, Tensor]


class OneMatrix(Step):
    """What query and key say about a pair of words."""

    makes = ("m",)

    def right(self, w_q: Tensor, w_k: Tensor) -> Tensor:
        return w_q @ w_k.mT

    def asker_and_answerer_exchanged(self, w_q: Tensor, w_k: Tensor) -> Tensor:
        """The matrix is transposed.

        In x M y, the word that asks is on the left, so M = W_Q W_K^T. Yours is W_K W_Q^T, which lets y ask x.
        """
        return w_k @ w_q.mT

    def widths_summed_over(self, w_q: Tensor, w_k: Tensor) -> Tensor:
        """The sum runs over d_model, not over d_k.

        W_Q^T W_K is (d_k, d_k). M connects two words, so it is (d_model, d_model): sum over d_k.
        """
        return w_q.mT @ w_k

    def scale_included(self, w_q: Tensor, w_k: Tensor) -> Tensor:
        """The scale is included.

        M is wanted without 1/√d_k: whoever uses it scales the scores.
        """
        return w_q @ w_k.mT / math.sqrt(w_q.shape[-1])

    def biases_in_the_matrix(self, w_q: Tensor, b_q: Tensor, w_k: Tensor, b_k: Tensor) -> Tensor:
        """The biases are added to the matrices.

        x (W + b) is not x W + b: a bias is added once to each query, whatever x is. Multiply out
        (x W_Q + b_q) · (y W_K + b_k), and sort the four terms.
        """
        return (w_q + b_q) @ (w_k + b_k).mT


class OneVector(Step):
    """What the biases add to a key's score."""

    makes = ("u",)

    def right(self, b_q: Tensor, w_k: Tensor) -> Tensor:
        return w_k @ b_q

    def term_of_the_query(self, w_q: Tensor, b_k: Tensor) -> Tensor:
        """The query's term is kept, and the key's is dropped.

        x W_Q b_k is the same number for all keys of one query, and softmax cancels it. The term that depends on y is
        b_q · (y W_K).
        """
        return w_q @ b_k

    def both_terms(self, w_q: Tensor, b_q: Tensor, w_k: Tensor, b_k: Tensor) -> Tensor:
        """The query's term is included, too.

        Multiplying out gives four terms. Two of them are the same for all keys, and softmax cancels those: only b_q ·
        (y W_K) remains beside M.
        """
        return w_k @ b_q + w_q @ b_k

    def matrix_of_the_query(self, w_q: Tensor, b_q: Tensor) -> Tensor:
        """b_q meets the wrong matrix.

        The query's bias is multiplied with the key, y W_K, so u is made of W_K and b_q.
        """
        return w_q @ b_q

    def bias_of_the_key(self, w_k: Tensor, b_k: Tensor) -> Tensor:
        """W_K meets the wrong bias.

        The key y W_K is multiplied with the query's constant part, b_q. The key's own bias cancels in the softmax.
        """
        return w_k @ b_k

    def constant_included(self, b_q: Tensor, w_k: Tensor, b_k: Tensor) -> Tensor:
        """The product of the biases is included.

        b_q · b_k is one number, the same for every pair. Added to the score, it would cancel; added to u, it is
        multiplied by y.
        """
        return w_k @ b_q + b_q @ b_k

    def without_the_biases(self, w_k: Tensor) -> Tensor:
        """The biases are forgotten.

        b_q asks every key the same question, and some keys answer it better than others. That is u, and it is not zero.
        """
        return torch.zeros_like(w_k[:, 0])


class GiveMatrixAndVector(Step):
    """Both of them."""

    def right(self, m: Tensor, u: Tensor) -> Two:
        return m, u

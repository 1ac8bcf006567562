"""Layer norm: every vector brought to mean 0 and variance 1, then stretched and shifted."""

import torch
from torch import Tensor

from attnlib.checks.course.steps import Step, along_with, discussed_at, each, spells

Axes = int | tuple[int, ...]
Two = tuple[Tensor, Tensor]


def variance_and_mean(x: Tensor, axes: Axes) -> Two:
    """Over these axes; over the last one, where x has none of them."""
    there = tuple(a for a in ((axes,) if isinstance(axes, int) else axes) if -x.dim() <= a < x.dim())
    variance, mean = torch.var_mean(x, dim=there or (-1,), correction=0, keepdim=True)
    return variance, mean


class Statistics(Step):
    """Variance and mean of each vector."""

    makes = ("variance", "mean")

    def right(self, x: Tensor) -> Two:
        return variance_and_mean(x, -1)

    @discussed_at("https://github.com/harvardnlp/annotated-transformer/pull/119")
    def unbiased_variance(self, x: Tensor) -> Two:
        """The variance is divided by d - 1.

        `Tensor.var` and `Tensor.std` divide by d - 1 unless you say `correction=0`. That is the estimate for a sample.
        Here nothing is estimated: these d numbers are all there are, so divide by d.
        """
        return x.var(dim=-1, keepdim=True), x.mean(dim=-1, keepdim=True)

    def difference_of_large_numbers(self, x: Tensor) -> Two:
        """The variance as the mean of x² minus the square of the mean.

        On paper the two are equal. But where the entries are near 3000, x² is near ten million; float32 has seven
        digits, and hardly any of them survive the subtraction. The difference may even be negative. Subtract the mean
        first, and then square: the mean of (x - mean)².
        """
        mean = x.mean(dim=-1, keepdim=True)
        return (x * x).mean(dim=-1, keepdim=True) - mean**2, mean

    @spells(difference_of_large_numbers)
    @each(clamped=(True, False))
    def difference_never_negative(self, x: Tensor, clamped: bool) -> Two:
        variance, mean = self.difference_of_large_numbers(x)
        return variance.clamp(min=0.0) if clamped else variance.abs(), mean

    def spread_not_centred(self, x: Tensor) -> Two:
        """The variance is taken around 0, not around the mean.

        The mean is subtracted from x, but the squares are those of x itself. The variance is the mean of (x - mean)².
        """
        return (x * x).mean(dim=-1, keepdim=True), x.mean(dim=-1, keepdim=True)

    def differences_not_squared(self, x: Tensor) -> Two:
        """The differences from the mean are not squared.

        What is above the mean cancels what is below it, so the mean of x - mean is 0, but for rounding: only eps is
        left under the root. The variance is the mean of (x - mean)².
        """
        mean = x.mean(dim=-1, keepdim=True)
        return (x - mean).mean(dim=-1, keepdim=True), mean

    def absolute_for_squared(self, x: Tensor) -> Two:
        """Absolute values are taken in place of squares.

        The mean of |x - mean| is a measure of spread as well, but it is no variance, and its root is no standard
        deviation. The variance is the mean of (x - mean)².
        """
        mean = x.mean(dim=-1, keepdim=True)
        return (x - mean).abs().mean(dim=-1, keepdim=True), mean

    def squares_summed(self, x: Tensor) -> Two:
        """The squares are added up, not averaged.

        The variance is the *mean* of (x - mean)²: divide their sum by d_model.
        """
        variance, mean = self.right(x)
        return variance * x.shape[-1], mean

    def over_positions(self, x: Tensor) -> Two:
        """The mean runs over the positions.

        Each feature is normalised over the sequence. Layer norm takes one position's vector at a time, so that the
        words do not mix: dim=-1, not -2.
        """
        return variance_and_mean(x, -2)

    def over_axis_1(self, x: Tensor) -> Two:
        """The mean runs over axis 1.

        In (b, n, d_model), axis 1 holds the words. Layer norm takes one vector at a time, however many axes come before
        the last: dim=-1.
        """
        variance, mean = torch.var_mean(x, dim=1, correction=0, keepdim=True)
        return variance, mean

    def over_batch(self, x: Tensor) -> Two:
        """The mean runs over the batch.

        That is batch norm without its running averages: what a sentence becomes depends on the sentences that happen to
        be in its batch. Layer norm looks at one vector at a time: dim=-1.
        """
        return variance_and_mean(x, -x.dim())

    def over_batch_and_positions(self, x: Tensor) -> Two:
        """The mean runs over batch and positions.

        Each feature is normalised over all the words of the batch: that is batch norm. Layer norm takes the d features
        of one word: dim=-1.
        """
        return variance_and_mean(x, tuple(range(-x.dim(), -1)))

    def over_sequence(self, x: Tensor) -> Two:
        """One mean for a whole sequence.

        Mean and variance are taken over positions *and* features. Each position has its own: only the last axis.
        """
        return variance_and_mean(x, (-2, -1))

    @spells(over_sequence)
    def words_and_entries(self, x: Tensor) -> Two:
        return variance_and_mean(x, tuple(range(-x.dim() + (x.dim() > 2), 0)))

    def over_everything(self, x: Tensor) -> Two:
        """One mean for the whole tensor.

        `x.mean()` without dim is one number for all words of all sentences. Each vector has its own mean and variance:
        dim=-1, keepdim=True.
        """
        return variance_and_mean(x, tuple(range(-x.dim(), 0)))

    def mean_of_everything(self, x: Tensor) -> Two:
        """The mean is one number for the whole tensor.

        The variances are right. But `x.mean()` without dim is one number for all words of all sentences. Each vector
        has its own: dim=-1, keepdim=True.
        """
        return self.right(x)[0], x.mean()

    def variance_of_everything(self, x: Tensor) -> Two:
        """The variance is one number for the whole tensor.

        The means are right. But `x.var(...)` without dim is one number for all words of all sentences. Each vector has
        its own: dim=-1, keepdim=True.
        """
        return x.var(correction=0), x.mean(dim=-1, keepdim=True)

    def axis_lost(self, x: Tensor) -> Two:
        """Mean and variance have lost an axis.

        Without keepdim=True the mean of (…, d) has shape (…), and broadcasting lines it up with the last axis of x: an
        error, or the wrong numbers. Keep the axis: x.mean(dim=-1, keepdim=True).
        """
        variance, mean = torch.var_mean(x, dim=-1, correction=0)
        return variance, mean

    @each(which=("variance and mean", "variance", "mean"))
    def statistics_detached(self, x: Tensor, which: str) -> Two:
        """Mean or variance is cut from the gradient.

        The numbers are right. But mean and variance depend on x, and the gradient flows through both of them: without
        that part it is wrong.
        """
        variance, mean = self.right(x)
        return variance.detach() if "variance" in which else variance, mean.detach() if "mean" in which else mean

    def float32_inside(self, x: Tensor) -> Two:
        """Computed in float32.

        `.float()` rounds x to seven digits, and what is lost does not come back when float64 gains are multiplied.
        Leave the dtype alone.
        """
        return self.right(x.float())


class Centre(Step):
    """Each vector without its mean."""

    makes = ("centred",)

    def right(self, x: Tensor, mean: Tensor) -> Tensor:
        return x - mean

    def mean_kept(self, x: Tensor) -> Tensor:
        """The mean is not subtracted from the numerator.

        The standard deviation is right, but x / std still has its mean. Subtract it: (x - mean) / std.
        """
        return x

    @along_with("spread_not_centred")
    def not_centred(self, x: Tensor) -> Tensor:
        """The mean is not subtracted.

        x is divided by the root of its mean square: that is RMSNorm, which many newer models use. Layer norm subtracts
        the mean first.
        """
        return x

    @spells(Statistics.float32_inside)
    @along_with("float32_inside")
    def all_in_float32(self, x: Tensor, mean: Tensor) -> Tensor:
        return x.float() - mean


class Divide(Step):
    """Divided by the standard deviation, with eps beneath the root."""

    makes = ("normalised",)

    def right(self, centred: Tensor, variance: Tensor, eps: float) -> Tensor:
        return centred / (variance + eps) ** 0.5

    @discussed_at("https://github.com/codertimo/BERT-pytorch/issues/30")
    def eps_outside_root(self, centred: Tensor, variance: Tensor, eps: float) -> Tensor:
        """eps is added to the standard deviation.

        eps belongs to the variance, inside the root: sqrt(variance + eps). Outside, the same eps does far less: where
        the spread is 0, sqrt(1e-5) is 0.003, and 1e-5 is three hundred times smaller.
        """
        return centred / (variance**0.5 + eps)

    @along_with("unbiased_variance")
    def unbiased_and_outside(self, centred: Tensor, variance: Tensor, eps: float) -> Tensor:
        """d - 1 in the variance, and eps outside the root.

        This is the layer norm of the Annotated Transformer, (x - mean) / (x.std() + eps), and two things in it differ
        from the paper's: `std` divides by d - 1, and eps is added after the root.
        """
        return centred / (variance**0.5 + eps)

    def no_eps(self, centred: Tensor, variance: Tensor) -> Tensor:
        """eps is missing.

        Where all entries of a vector are equal the variance is 0, and 0 / 0 is NaN. Add eps to the variance.
        """
        return centred / variance**0.5

    def eps_fixed(self, centred: Tensor, variance: Tensor) -> Tensor:
        """eps is not the one that was given.

        1e-5 is only the default. Use the argument eps.
        """
        return self.right(centred, variance, 1e-5)

    @each(default=(1e-6, 1e-8, 1e-12))
    def eps_of_other_norms(self, centred: Tensor, variance: Tensor, eps: float, default: float) -> Tensor:
        """eps is not 1e-5 by default.

        Other libraries have other defaults; here it is 1e-5. It shows in vectors with a small spread.
        """
        return self.right(centred, variance, default if eps == 1e-5 else eps)

    def eps_as_floor(self, centred: Tensor, variance: Tensor, eps: float) -> Tensor:
        """eps is not added to the variance.

        A vector without any spread does not become 0 / 0: clamp, maximum, nan_to_num or F.normalize sees to that. But
        elsewhere eps has no effect. It is sqrt(variance + eps), for every vector.
        """
        return centred / (variance**0.5).clamp(min=eps)

    def eps_as_floor_of_variance(self, centred: Tensor, variance: Tensor, eps: float) -> Tensor:
        """eps is a floor, not an addend.

        Your variance is never below eps, but where it is above, eps has no effect. It is sqrt(variance + eps).
        """
        return self.eps_as_floor(centred, variance, eps**0.5)

    def root_of_std(self, centred: Tensor, variance: Tensor, eps: float) -> Tensor:
        """Divided by the root of the standard deviation.

        The standard deviation *is* a root already, that of the variance. Divide by sqrt(variance + eps): take `var`,
        not `std`, inside the root, and one root only.
        """
        return centred / (variance**0.5 + eps) ** 0.5

    def divided_by_variance(self, centred: Tensor, variance: Tensor, eps: float) -> Tensor:
        """Divided by the variance, not by its root.

        The standard deviation is the root of the variance. Dividing by the variance leaves the spread at 1/standard
        deviation instead of 1.
        """
        return centred / (variance + eps)

    def divided_by_length(self, centred: Tensor, eps: float) -> Tensor:
        """Divided by the length of the vector, not by its standard deviation.

        `norm` is the root of the *sum* of squares; the standard deviation is the root of their mean, smaller by
        √d_model.
        """
        length: Tensor = torch.linalg.vector_norm(centred, dim=-1, keepdim=True)
        return centred / (length + eps)

    def mean_distance(self, centred: Tensor, eps: float) -> Tensor:
        """Divided by the mean distance, not by the root of the variance.

        The mean of |x - mean| is another measure of spread. Layer norm takes the root of the mean square.
        """
        return centred / (centred.abs().mean(dim=-1, keepdim=True) + eps)

    def only_centred(self, centred: Tensor) -> Tensor:
        """Not divided by the standard deviation.

        The mean is subtracted, but the vectors are still as long as before. Divide by sqrt(variance + eps).
        """
        return centred

    def bracket_forgotten(self, x: Tensor, mean: Tensor, variance: Tensor, eps: float) -> Tensor:
        """Only the mean is divided.

        / binds before -: x - mean / root divides the mean alone. Put brackets around x - mean.
        """
        return x - self.right(mean, variance, eps)


class GainAndBias(Step):
    """Each feature gets a spread and a mean of its own."""

    makes = ("output",)

    def right(self, normalised: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
        return normalised * gain + bias

    def no_gain_and_bias(self, normalised: Tensor) -> Tensor:
        """gain and bias are not used.

        After normalising, each feature is multiplied by its gain, and its bias is added.
        """
        return normalised

    def no_bias(self, normalised: Tensor, gain: Tensor) -> Tensor:
        """The bias is missing.

        After the gain, each feature gets its bias added.
        """
        return normalised * gain

    def no_gain(self, normalised: Tensor, bias: Tensor) -> Tensor:
        """The gain is missing.

        Each feature is multiplied by its gain before the bias is added.
        """
        return normalised + bias

    def exchanged_gain_and_bias(self, normalised: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
        """Gain and bias are exchanged.

        The arguments come as (x, gain, bias): multiply by the gain, then add the bias.
        """
        return normalised * bias + gain

    def bias_before_gain(self, normalised: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
        """The bias is added before the gain.

        The order is normalised * gain + bias. With brackets around the sum, the bias is multiplied by the gain, too.
        """
        return (normalised + bias) * gain

    def gain_plus_one(self, normalised: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
        """The gain is taken for a change from 1.

        Some models store the gain minus 1. Here it is the factor itself: normalised * gain + bias.
        """
        return normalised * (1 + gain) + bias

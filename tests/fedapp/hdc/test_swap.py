"""Section 23.11, test 9, and what is not defined."""

import numpy as np
import pytest

from fedapp.hdc.overlap import (
    confound,
    confound_pooled,
    cosine,
    jaccard,
    partial_correlation,
)
from fedapp.hdc.swap import (
    auroc,
    auroc_by_target,
    auroc_pooled,
    beneficial,
    by_group,
    gains,
    mean_known,
    nearest_donors,
    spearman,
    spearman_by_target,
)

SIMILARITY = np.array(
    [[1, 0.9, 0.1, 0], [0.9, 1, 0.2, 0.1], [0.1, 0.2, 1, 0.8], [0, 0.1, 0.8, 1]]
)
LOSS = np.array(
    [
        [0.50, 0.45, 0.80, 0.90],
        [0.40, 0.40, 0.70, 0.95],
        [0.90, 0.85, 0.60, 0.70],
        [0.95, 1.0, 0.55, 0.65],
    ]
)
ACCURACY = np.array(
    [
        [0.80, 0.82, 0.70, 0.66],
        [0.84, 0.83, 0.72, 0.64],
        [0.60, 0.62, 0.75, 0.70],
        [0.58, 0.55, 0.77, 0.74],
    ]
)
GROUPS = (0, 0, 1, 1)
GAIN = gains(LOSS)


def test_similarity_and_gain_agree_in_rank_target_by_target():
    rho = spearman_by_target(SIMILARITY, GAIN)
    assert rho == pytest.approx([1, 1, 1, 0.5])
    assert mean_known(rho) == pytest.approx(0.875)


def test_a_gain_of_nothing_is_not_beneficial():
    # Target 1's donor 0 has its loss exactly; 0 <- 1 and 3 <- 2 are lower: 2 of 12.
    assert beneficial(GAIN) == pytest.approx(1 / 6)


def test_pooled_area_under_the_curve():
    assert auroc_pooled(SIMILARITY, GAIN) == pytest.approx(0.9)


def test_the_area_by_target_is_over_its_own_donors():
    # Targets 1 and 2 have no beneficial donor; of 0 and 3 the nearest is the one.
    assert auroc_by_target(SIMILARITY, GAIN) == [1.0, None, None, 1.0]


def test_the_nearest_donor_against_a_random_one():
    found = nearest_donors(SIMILARITY, ACCURACY)
    assert found.nearest == (1, 0, 3, 2)
    # (.82 + .84 + .70 + .77) / 4 minus the mean of the twelve others' accuracies.
    assert found.accuracy == pytest.approx(0.7825)
    assert found.benefit == pytest.approx(0.099167, abs=1e-6)


def test_the_first_of_equally_near_donors_is_taken():
    same = np.array([[1, 0.5, 0.5], [0.5, 1, 0.5], [0.5, 0.5, 1]])
    assert nearest_donors(same, same).nearest == (1, 0, 0)


def test_swaps_within_and_between_groups():
    found = by_group((1, 0, 3, 2), ACCURACY, GROUPS)
    assert found.same == pytest.approx(0.0025)
    assert found.other == pytest.approx(-0.14625)
    assert found.purity == 1.0
    assert found.base_rate == pytest.approx(1 / 3)


def test_purity_counts_targets_and_the_base_rate_sizes_of_groups():
    # Group sizes 3 and 1: donors of the own group are 2, 2, 2 and 0 of 3.
    found = by_group((1, 3, 0, 2), ACCURACY, (0, 0, 0, 1))
    assert found.purity == pytest.approx(2 / 4)
    assert found.base_rate == pytest.approx(6 / 12)


def test_the_base_rate_of_the_paper():
    groups = [client % 4 for client in range(20)]
    found = by_group([0] * 20, np.zeros((20, 20)), groups)
    assert found.base_rate == pytest.approx(4 / 19)


def test_groups_of_one_have_no_swap_within():
    found = by_group((1, 0, 3, 2), ACCURACY, (0, 1, 2, 3))
    assert found.same is None
    assert by_group((1, 0, 3, 2), ACCURACY, (5, 5, 5, 5)).other is None


def test_partial_correlation_of_the_specification():
    assert partial_correlation(0.30, 0.89, 0.33) == pytest.approx(0.014637, abs=1e-6)
    assert partial_correlation(0.3, 1.0, 0.3) is None


def test_overlap_of_class_sets_and_of_histograms():
    assert jaccard([(0, 1, 2), (1, 2, 3), (5,)]).tolist() == [
        [1, 0.5, 0],
        [0.5, 1, 0],
        [0, 0, 1],
    ]
    expected = [[1, 0.6, 0], [0.6, 1, 0], [0, 0, 0]]
    got = cosine([(3, 4, 0), (5, 0, 0), (0, 0, 0)])
    np.testing.assert_allclose(got, expected, atol=1e-15)


def test_an_overlap_that_is_the_similarity_explains_it_all():
    found = confound(SIMILARITY, GAIN, SIMILARITY**3)
    assert found.similarity_overlap == pytest.approx(1.0)
    assert found.partial is None


def test_the_confound_by_target_and_pooled_are_the_formula_on_their_correlations():
    rng = np.random.default_rng(3)
    similarity, gain, overlap = rng.standard_normal((3, 6, 6))
    by_target = confound(similarity, gain, overlap)
    expected = [
        np.mean(spearman_by_target(a, b))
        for a, b in ((similarity, gain), (similarity, overlap), (gain, overlap))
    ]
    assert by_target.similarity_gain == pytest.approx(expected[0])
    assert by_target.partial == pytest.approx(partial_correlation(*expected))
    off = ~np.eye(6, dtype=bool)
    pooled = confound_pooled(similarity, gain, overlap)
    assert pooled.gain_overlap == pytest.approx(spearman(gain[off], overlap[off]))
    assert pooled.similarity_gain != pytest.approx(by_target.similarity_gain)


def test_constant_rows_are_skipped():
    flat = SIMILARITY.copy()
    flat[3] = 0.4
    assert spearman_by_target(flat, GAIN)[3] is None
    assert mean_known([1.0, None, 0.5]) == 0.75
    assert mean_known([None]) is None
    constant = np.ones((4, 4))
    assert confound(SIMILARITY, GAIN, constant).partial is None
    assert confound_pooled(SIMILARITY, GAIN, constant).similarity_overlap is None


def test_ties_get_average_ranks():
    # Ranks 1.5, 1.5, 3 and 1, 2, 3: covariance 1.5, deviations sqrt(1.5) and sqrt(2).
    got = spearman(np.array([1.0, 1.0, 2.0]), np.array([5.0, 6.0, 9.0]))
    assert got == pytest.approx(1.5 / (1.5 * 2) ** 0.5)


@pytest.mark.parametrize("positive", [[True, True], [False, False]])
def test_one_kind_of_swap_has_no_area(positive):
    assert auroc(np.array([0.1, 0.2]), np.array(positive)) is None

"""What the paper claims, typed once: its words in ours, the sentence to be decided, and the rule that decides it.

The rules are ours. Each takes a number per seed; "above" and "below" mean that the whole 95% interval of its mean lies
there (report/verdict.py). A rule over several conditions (optimizers, networks, games) holds when it holds in each, and
fails when it fails in one. "In most" counts: it holds when more than half of the conditions hold, and fails when half
or more fail. Else it is not decided; with nothing to decide it from, not run.

A fall is the mean over the first tenth of the stages minus that over the last tenth; a method keeps its plasticity when
its fall is below 0.05, five points. "All eight": both MNIST problems (permuted: online), Adam 1e-3 and 1e-4, SGD 3e-2
and 3e-3. "The three": the CNN on CIFAR-10, ResNet-18 on CIFAR-100, VGG-16 on TinyImageNet.
"""

from dataclasses import dataclass

from supple_lab.lookup import UnknownName, no_such

STUDIES = (
    "trainability",
    "trainability_metrics",
    "dropout_fails",
    "preactivation_shift",
    "warm_start",
    "continual_full",
    "continual_limited",
    "class_incremental",
    "generalizability_gap",
    "sensitivity",
    "supervised",
    "atari",
    "theory",
)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One sentence of the paper and how it is decided."""

    key: str
    section: str  # of the paper, number and title
    study: str
    paper: str  # what it says, with its numbers
    claim: str
    test: str


def claims_of(study: str) -> tuple[Claim, ...]:
    """The claims that a study decides, in the paper's order."""
    if study not in STUDIES:
        raise UnknownName(no_such("study with claims", study, STUDIES))
    return tuple(claim for claim in CLAIMS if claim.study == study)


def claim_named(key: str) -> Claim:
    """The claim of that key, or UnknownName."""
    by_key = {claim.key: claim for claim in CLAIMS}
    if key not in by_key:
        raise UnknownName(no_such("claim", key, by_key))
    return by_key[key]


# Final test accuracy and its standard deviation after 200 epochs (section 5.3, Table 1), by method and network.
SUPERVISED_TABLE = {
    "vanilla": {"cnn": (0.660, 0.0058), "resnet18": (0.581, 0.0029), "vgg16": (0.430, 0.0009)},
    "l2": {"cnn": (0.742, 0.0038), "resnet18": (0.574, 0.0017), "vgg16": (0.417, 0.0042)},
    "dropout": {"cnn": (0.733, 0.0037), "resnet18": (0.651, 0.0028), "vgg16": (0.466, 0.0040)},
    "aid": {"cnn": (0.748, 0.0021), "resnet18": (0.690, 0.0014), "vgg16": (0.519, 0.0043)},
}

CLAIMS = (
    # Section 3: why Dropout does not help.
    Claim(
        key="more_dropout_falls_further",
        section="3.1 Trainability Perspective",
        study="dropout_fails",
        paper="The higher the Dropout probability, the more an 8-layer MLP loses on random labels.",
        claim="The higher the drop rate, the further the accuracy falls.",
        test="The slope of the fall over the drop rates, vanilla as 0: above 0.",
    ),
    Claim(
        key="subnetworks_fall_too",
        section="3.1 Trainability Perspective",
        study="dropout_fails",
        paper="10 subnetworks sampled after each task learn new tasks ever worse, more so at higher rates.",
        claim="Subnetworks of a Dropout network lose their plasticity, too.",
        test="The fall of the subnetworks' mean accuracy at the highest rate: above 0.05; and its slope over the "
        "rates: above 0.",
    ),
    Claim(
        key="aid_subnetworks_keep",
        section="3.1 Trainability Perspective",
        study="dropout_fails",
        paper="AID maintains trainability across all tasks.",
        claim="AID's network and its subnetworks keep their plasticity.",
        test="The fall of AID's accuracy, and that of its subnetworks: below 0.05.",
    ),
    Claim(
        key="dropout_gap_equals_vanilla",
        section="3.2 Generalizability Perspective",
        study="warm_start",
        paper="Cold start beats warm start by 10.1 points with Dropout and by 10.9 with the vanilla network.",
        claim="Dropout's warm-start gap is that of the vanilla network.",
        test="Gap of Dropout minus gap of vanilla: the whole interval within 3 points of 0; it fails wholly outside.",
    ),
    Claim(
        key="aid_gap_is_smaller",
        section="3.2 Generalizability Perspective",
        study="warm_start",
        paper="AID's warm-start gap is 3.3 points, the vanilla network's 10.9.",
        claim="AID closes most of the warm-start gap.",
        test="Gap of vanilla minus gap of AID: above 3.8 points, half of the paper's.",
    ),
    # Section 4: the method and its theory.
    Claim(
        key="aid_costs_what_dropout_costs",
        section="4.3 Simplified Version of AID",
        study="theory",
        paper="AID has the computational complexity of standard Dropout.",
        claim="AID takes no longer than ReLU and Dropout.",
        test="In each case of `supple bench kernels` with at least 2^16 values, forward and backward, over F.relu: "
        "AID at most 1 plus F.dropout, for it stands in for both. Turns stand for seeds, quartiles for the interval.",
    ),
    Claim(
        key="theorem_1",
        section="4.4 Theoretical Analysis",
        study="theory",
        paper="For two layers the loss under AID is at least that under r_p plus 4p(1-p)/(n(2p-1)^2) R_p, a pull to "
        "the linear network that grows as p approaches 0.5.",
        claim="Theorem 1's inequality holds, and its penalty grows towards p = 1/2.",
        test="On random networks and a grid of p, expectations exact: left side minus right side never below 0 "
        "(beyond rounding); the penalty at p nearer to 1/2 never smaller than at p further away.",
    ),
    Claim(
        key="he_moments",
        section="4.4 Theoretical Analysis",
        study="theory",
        paper="With He initialisation AID is as stable as ReLU: both leave half of the variance.",
        claim="AID keeps He's moment law for every p: half of the second moment, half of the slopes.",
        test="E[AID(z)^2] / Var z and P(slope = 1) for normal z over a grid of p: within five standard errors of 1/2.",
    ),
    # Section 5.1.1 and appendix G.1: trainability.
    Claim(
        key="vanilla_falls",
        section="5.1.1 Trainability",
        study="trainability",
        paper="The vanilla network's training accuracy gradually declines with SGD at 3e-2 and with Adam at 1e-3.",
        claim="The vanilla network loses its plasticity.",
        test="Its fall on both MNIST problems (permuted: online) with SGD 3e-2 and with Adam 1e-3: above 0 in each.",
    ),
    Claim(
        key="aid_keeps_random_label",
        section="5.1.1 Trainability",
        study="trainability",
        paper="DropReLU and AID reach a high accuracy in all settings.",
        claim="AID keeps its plasticity on random label MNIST.",
        test="With each of the four optimizers: its fall below 0.05, and its stage mean above the vanilla network's "
        "minus 0.05.",
    ),
    Claim(
        key="aid_keeps_permuted_online",
        section="5.1.1 Trainability",
        study="trainability",
        paper="DropReLU and AID reach a high accuracy in all settings.",
        claim="AID keeps its plasticity on permuted MNIST, by online accuracy.",
        test="By the mean accuracy just before each update, with each of the four optimizers: its fall below 0.05, and "
        "its stage mean above the vanilla network's minus 0.05.",
    ),
    Claim(
        key="aid_keeps_permuted_end_of_stage",
        section="5.1.1 Trainability",
        study="trainability",
        paper="DropReLU and AID reach a high accuracy in all settings.",
        claim="AID keeps its plasticity on permuted MNIST, by accuracy at the end of a stage.",
        test="By evaluation-mode accuracy after a stage, with each of the four optimizers: its fall below 0.05, and "
        "its stage mean above the vanilla network's minus 0.05.",
    ),
    Claim(
        key="designed_methods_beat_vanilla",
        section="5.1.1 Trainability",
        study="trainability",
        paper="Fourier, CReLU, ReDo and CBP improve plasticity under most conditions.",
        claim="Fourier, CReLU, ReDo and CBP each do better than the vanilla network in most conditions.",
        test="Stage-mean accuracy minus vanilla's, in most of all eight: above 0, for each of the four methods.",
    ),
    Claim(
        key="designed_methods_fall_somewhere",
        section="5.1.1 Trainability",
        study="trainability",
        paper="The same methods fail to retain accuracy in certain conditions.",
        claim="Fourier, CReLU, ReDo and CBP each lose their plasticity somewhere.",
        test="The largest fall over all eight, for each of the four methods: above 0.05.",
    ),
    Claim(
        key="shrink_and_l2_init_fail_at_low_rates",
        section="5.1.1 Trainability",
        study="trainability",
        paper="S&P and L2 Init often struggle at a low learning rate.",
        claim="S&P and L2 Init lose their plasticity at the low learning rates.",
        test="Their falls with Adam 1e-4 and SGD 3e-3 on both problems, eight in all: above 0.05 in most.",
    ),
    Claim(
        key="dropout_does_not_help",
        section="5.1.1 Trainability",
        study="trainability",
        paper="Dropout fails to mitigate the loss in most cases compared to the vanilla network.",
        claim="Dropout is no better than the vanilla network in most conditions.",
        test="Stage-mean accuracy of Dropout minus vanilla, in most of all eight: below 0.01, one point.",
    ),
    Claim(
        key="identity_keeps_plasticity",
        section="G.1.1 Extended Results for various conditions",
        study="trainability",
        paper="Linear networks do not suffer from plasticity loss.",
        claim="The deep linear network keeps its plasticity, whatever its level.",
        test="The fall of the identity in all eight: below 0.05.",
    ),
    Claim(
        key="aid_prevents_saturation",
        section="G.1.2 Analysis of Metrics Contributing to Plasticity Loss",
        study="trainability_metrics",
        paper="Many units of the vanilla and Dropout networks become dormant; AID prevents saturation.",
        claim="Fewer units saturate with AID than without or with Dropout.",
        test="Saturated share at the last stage, AID minus each of the two, on both problems: below 0. Not the "
        "dormant ratio, which is 0 for AID by construction.",
    ),
    Claim(
        key="aid_keeps_sign_entropy",
        section="G.1.2 Analysis of Metrics Contributing to Plasticity Loss",
        study="trainability_metrics",
        paper="AID keeps a consistently higher sign entropy.",
        claim="AID's units change sign more than those of the vanilla and the Dropout network.",
        test="Average unit sign entropy at the last stage, AID minus each of the two, on both problems: above 0.",
    ),
    Claim(
        key="aid_keeps_effective_rank",
        section="G.1.2 Analysis of Metrics Contributing to Plasticity Loss",
        study="trainability_metrics",
        paper="AID preserves the effective rank; the vanilla and Dropout networks' rapidly declines.",
        claim="AID's features keep a higher rank than those of the vanilla and the Dropout network.",
        test="Effective rank at the last stage, AID minus each of the two, on both problems: above 0.",
    ),
    Claim(
        key="aid_shifts_early_too",
        section="G.1.3 Analysis on Preactivation Distribution Shift of Dropout and AID",
        study="preactivation_shift",
        paper="From the first to the tenth task AID's pre-activations shift as significantly as Dropout's.",
        claim="Early on, AID's pre-activations shift as Dropout's do.",
        test="|Median of stage 10 - median of stage 1| over stage 1's interquartile range: above 1 for Dropout and "
        "AID.",
    ),
    Claim(
        key="dropout_median_drifts",
        section="G.1.3 Analysis on Preactivation Distribution Shift of Dropout and AID",
        study="preactivation_shift",
        paper="By the 30th task the median of Dropout's pre-activations approaches -2500.",
        claim="Dropout's pre-activations drift far below zero.",
        test="Median of the penultimate pre-activations at stage 30: below -1250, half of the paper's.",
    ),
    Claim(
        key="aid_median_stays_bounded",
        section="G.1.3 Analysis on Preactivation Distribution Shift of Dropout and AID",
        study="preactivation_shift",
        paper="At the 30th task AID's distribution is much closer to zero than Dropout's.",
        claim="AID's pre-activations stay bounded.",
        test="|median| of AID over |median| of Dropout at stage 30: below 0.1.",
    ),
    # Section 5.1.2 and appendices G.2, G.3: generalizability.
    Claim(
        key="aid_leads_continual_full",
        section="5.1.2 Generalizability",
        study="continual_full",
        paper="AID has a noticeable advantage over the other methods throughout.",
        claim="AID is the most accurate method in continual full, full reset included.",
        test="Stage-mean test accuracy of AID minus that of the best other method, on each of the three: above 0.",
    ),
    Claim(
        key="dash_and_shrink_match_reset",
        section="5.1.2 Generalizability",
        study="continual_full",
        paper="DASH and S&P are comparable or superior to full reset, depending on task and dataset.",
        claim="DASH and S&P match full reset in places.",
        test="Final accuracy minus full reset's, for DASH and for S&P: above -0.01 on at least one of the three; it "
        "fails where it is below that on all.",
    ),
    Claim(
        key="aid_leads_continual_limited",
        section="5.1.2 Generalizability",
        study="continual_limited",
        paper="The trend persists in the continual limited setting.",
        claim="AID is the most accurate method in continual limited.",
        test="Stage-mean test accuracy of AID minus that of the best other method, on each of the three: above 0.",
    ),
    Claim(
        key="dropout_family_strong_when_limited",
        section="5.1.2 Generalizability",
        study="continual_limited",
        paper="Dropout, DropReLU and AID all perform strongly in the continual limited setting.",
        claim="The Dropout family is strong where old data are gone.",
        test="Final accuracy of Dropout, DropReLU and AID, each minus the median of the methods outside the family, "
        "on each of the three: above 0.",
    ),
    Claim(
        key="dropout_and_dash_lose_their_lead",
        section="5.1.2 Generalizability",
        study="class_incremental",
        paper="Dropout and DASH start ahead of full reset, and lose that advantage as training progresses.",
        claim="Dropout and DASH start above full reset, and the lead shrinks.",
        test="Difference to full reset on the seen classes, for both methods and networks: mean of the first quarter "
        "of the stages above 0; last quarter minus first quarter below 0.",
    ),
    Claim(
        key="only_aid_stays_above_reset",
        section="5.1.2 Generalizability",
        study="class_incremental",
        paper="AID is the only method that keeps its advantage over full reset throughout the 20 phases.",
        claim="AID, and no other method, stays above full reset throughout.",
        test="Smallest of the four quarters' mean differences to full reset, on both networks: above 0 for AID; for "
        "every other method below 0 on at least one of them.",
    ),
    Claim(
        key="aid_gap_stays_lowest",
        section="G.2.1 Generalizability Comparison: Dropout vs. AID",
        study="generalizability_gap",
        paper="AID consistently has the lowest gap between cold and warm start.",
        claim="AID's gap is lower than Dropout's and the vanilla network's.",
        test="Mean gap from stage 2 on, AID minus each of the two, on each of the three: below 0.",
    ),
    Claim(
        key="dropout_gap_is_smaller_but_grows",
        section="G.2.1 Generalizability Comparison: Dropout vs. AID",
        study="generalizability_gap",
        paper="Dropout's gap is smaller than the vanilla network's, but gradually increases.",
        claim="Dropout narrows the gap, and still it grows over the stages.",
        test="On each of the three: mean gap from stage 2 on, Dropout minus vanilla, below 0; Dropout's gap at the "
        "last stage minus that at stage 2 above 0.",
    ),
    Claim(
        key="aid_above_reset_in_most_cells",
        section="G.2.2 Hyperparameter Sensitivity",
        study="sensitivity",
        paper="AID beats full reset at most combinations of p in 0.6 to 0.9 and learning rates 0.001 and 0.0001.",
        claim="AID beats full reset whatever p and learning rate, in most cells.",
        test="Final accuracy minus that of full reset, in most of the 8 cells on each of the three: above 0.",
    ),
    # Section 5.2 and appendices G.4, H: reinforcement learning.
    Claim(
        key="aid_improves_atari",
        section="5.2 Reinforcement Learning",
        study="atari",
        paper="AID significantly improves sample efficiency over 17 games at a replay ratio of 1.",
        claim="AID's agents score higher than vanilla DQN.",
        test="IQM of the final human-normalised scores, AID minus vanilla: above 0, by stratified bootstrap.",
    ),
    Claim(
        key="pong_and_qbert_get_worse",
        section="G.4.1 Atari 2600 RAW Scores by Games",
        study="atari",
        paper="AID performs slightly worse in games such as Pong and Qbert.",
        claim="AID's agents score lower in Pong and Qbert.",
        test="Final score, AID minus vanilla, in both games: below 0.",
    ),
    Claim(
        key="aid_keeps_rank_in_atari",
        section="G.4.2 Impact of AID on Effective Rank",
        study="atari",
        paper="In Asterix, BeamRider and DemonAttack AID keeps a higher feature rank; those of vanilla and Dropout "
        "decline.",
        claim="AID's agents keep a higher effective rank.",
        test="Effective rank at the end, AID minus each of the two, in each of the three games: above 0.",
    ),
    Claim(
        key="train_mode_rollouts_destabilise",
        section="H Implementation Details of AID",
        study="atari",
        paper="Acting in training mode made training unstable; greedy actions are chosen in evaluation mode.",
        claim="Rollouts in training mode harm the agent.",
        test="Final human-normalised score of AID, acting in training mode minus in evaluation mode, in each game "
        "run: below 0.",
    ),
    # Section 5.3 and appendix G.5: standard supervised learning.
    Claim(
        key="supervised_numbers",
        section="5.3 Standard Supervised Learning",
        study="supervised",
        paper="Final test accuracy of vanilla / L2 / Dropout / AID: 0.660 / 0.742 / 0.733 / 0.748 (CNN), 0.581 / "
        "0.574 / 0.651 / 0.690 (ResNet-18), 0.430 / 0.417 / 0.466 / 0.519 (VGG-16).",
        claim="The twelve accuracies of the paper's table come out again.",
        test="Each of the twelve minus the paper's: the whole interval within 2 points of 0; it fails wholly outside.",
    ),
    Claim(
        key="aid_leads_supervised",
        section="5.3 Standard Supervised Learning",
        study="supervised",
        paper="AID is best on each dataset: 0.748, 0.690, 0.519.",
        claim="AID generalizes best without any change of the data, too.",
        test="Final test accuracy of AID minus the best of vanilla, L2 and Dropout, on each of the three: above 0.",
    ),
    Claim(
        key="aid_closes_generalization_gap",
        section="G.5 Learning Curves for Standard Supervised Learning",
        study="supervised",
        paper="AID closes the gap between training and test more than L2 and Dropout do.",
        claim="AID overfits less than L2 and Dropout.",
        test="Final train accuracy minus test accuracy, AID minus each of the two, on each of the three: below 0.",
    ),
)

"""Claims of section 5.1 and appendices G.1 to G.3: trainability and generalizability."""

from supple_lab.paper.claim import Claim

CONTINUAL_LEARNING = (
    # Section 5.1.1 and appendix G.1: trainability.
    Claim(
        key="vanilla_falls",
        section="5.1.1 Trainability",
        study="trainability",
        paper="The vanilla network's training accuracy gradually declines with SGD at 3e-2 and with Adam at 1e-3.",
        claim="The vanilla network's accuracy declines over the stages.",
        test="Its last tenth below a fresh vanilla network's accuracy, seed by seed, on both MNIST problems with SGD "
        "3e-2 and with Adam 1e-3: above 0 in each, by both accuracies. Not decided unless the fresh network is above "
        "0.15, chance and five points.",
    ),
    Claim(
        key="drop_relu_and_aid_keep_random_label_online",
        section="5.1.1 Trainability",
        study="trainability",
        paper="DropReLU and AID reach a high accuracy in all settings.",
        claim="DropReLU and AID keep their plasticity on random label MNIST, by online accuracy.",
        test="By the mean accuracy just before each update on random labels, for both, with each of the four "
        "optimizers: the last tenth less than 0.02 below a fresh vanilla network, seed by seed; it fails more than "
        "0.05 below. Not decided unless the fresh network is above 0.15, chance and five points.",
    ),
    Claim(
        key="drop_relu_and_aid_keep_random_label",
        section="5.1.1 Trainability",
        study="trainability",
        paper="DropReLU and AID reach a high accuracy in all settings.",
        claim="DropReLU and AID keep their plasticity on random label MNIST, by accuracy at the end of a stage.",
        test="By evaluation-mode accuracy after a stage of random labels, for both, with each of the four optimizers: "
        "the last tenth less than 0.02 below a fresh vanilla network, seed by seed; it fails more than 0.05 below. "
        "Not decided unless the fresh network is above 0.15, chance and five points.",
    ),
    Claim(
        key="drop_relu_and_aid_keep_permuted_online",
        section="5.1.1 Trainability",
        study="trainability",
        paper="DropReLU and AID reach a high accuracy in all settings.",
        claim="DropReLU and AID keep their plasticity on permuted MNIST, by online accuracy.",
        test="By the mean accuracy just before each update on permuted pixels, for both, with each of the four "
        "optimizers: the last tenth less than 0.02 below a fresh vanilla network, seed by seed; it fails more than "
        "0.05 below. Not decided unless the fresh network is above 0.15, chance and five points.",
    ),
    Claim(
        key="drop_relu_and_aid_keep_permuted_at_end",
        section="5.1.1 Trainability",
        study="trainability",
        paper="DropReLU and AID reach a high accuracy in all settings.",
        claim="DropReLU and AID keep their plasticity on permuted MNIST, by accuracy at the end of a stage.",
        test="By evaluation-mode accuracy after a stage of permuted pixels, for both, with each of the four "
        "optimizers: the last tenth less than 0.02 below a fresh vanilla network, seed by seed; it fails more than "
        "0.05 below. Not decided unless the fresh network is above 0.15, chance and five points.",
    ),
    Claim(
        key="designed_methods_beat_vanilla",
        section="5.1.1 Trainability",
        study="trainability",
        paper="Fourier, CReLU, ReDo and CBP improve plasticity under most conditions.",
        claim="Fourier, CReLU, ReDo and CBP each do better than the vanilla network in most conditions.",
        test="Stage-mean accuracy minus vanilla's, in most of all eight: above 0, for each of the four methods, by "
        "both accuracies.",
    ),
    Claim(
        key="designed_methods_fall_somewhere",
        section="5.1.1 Trainability",
        study="trainability",
        paper="The same methods fail to retain accuracy in certain conditions.",
        claim="Fourier, CReLU, ReDo and CBP each lose their plasticity somewhere.",
        test="The last tenth in at least one of all eight, for each of the four methods, by both accuracies: more "
        "than 0.05 below a fresh vanilla network; it fails less than 0.02 below in all.",
    ),
    Claim(
        key="shrink_and_l2_init_fail_at_low_rates",
        section="5.1.1 Trainability",
        study="trainability",
        paper="S&P and L2 Init often struggle at a low learning rate.",
        claim="S&P and L2 Init lose their plasticity at the low learning rates.",
        test="Their last tenths with Adam 1e-4 and SGD 3e-3 on both problems, eight in all, by both accuracies: more "
        "than 0.05 below a fresh vanilla network in most; less than 0.02 below counts against it.",
    ),
    Claim(
        key="dropout_does_not_help",
        section="5.1.1 Trainability",
        study="trainability",
        paper="Dropout fails to mitigate the loss in most cases compared to the vanilla network.",
        claim="Dropout leaves most of the vanilla network's loss in most conditions.",
        test="How far Dropout's last tenth is below a fresh vanilla network, minus half of how far the vanilla "
        "network's is: above 0 in most of all eight, by both accuracies. Not decided where the vanilla network's is "
        "not above 0.",
    ),
    Claim(
        key="identity_keeps_plasticity",
        section="G.1.1 Extended Results for various conditions",
        study="trainability",
        paper="Linear networks do not suffer from plasticity loss.",
        claim="The deep linear network keeps its plasticity, whatever its level.",
        test="The last tenth of the identity in all eight, by both accuracies: less than 0.02 below a fresh linear "
        "network, the first stage of its own run; it fails more than 0.05 below.",
    ),
    Claim(
        key="stochastic_activations_keep",
        section="G.1.1 Extended Results for various conditions",
        study="trainability",
        paper="Stochastic activations such as RReLU, DropReLU and AID show strong trainability across settings.",
        claim="RReLU and DropReLU keep their plasticity, too.",
        test="For both, in all eight and by both accuracies: the last tenth less than 0.02 below a fresh vanilla "
        "network, seed by seed; it fails more than 0.05 below.",
    ),
    Claim(
        key="dropout_has_no_effect_on_random_labels",
        section="G.1.2 Analysis of Metrics Contributing to Plasticity Loss",
        study="trainability_metrics",
        paper="Dropout had no effect on random label MNIST.",
        claim="On random labels Dropout does nothing against the loss of plasticity.",
        test="By how much Dropout is better than vanilla on random labels in the last tenth, by both accuracies, in "
        "the saturated share and in the sign entropy at the last stage: each below 0.05. Not decided unless vanilla's "
        "last tenth is more than 0.05 below a fresh vanilla network, by both accuracies.",
    ),
    Claim(
        key="dropout_helps_permuted_only_slightly",
        section="G.1.2 Analysis of Metrics Contributing to Plasticity Loss",
        study="trainability_metrics",
        paper="Dropout provided only a slight improvement in permuted MNIST.",
        claim="On permuted MNIST Dropout makes up for some of the vanilla network's loss, and for less than half.",
        test="How far the last tenth on permuted pixels is below a fresh vanilla network: vanilla's minus Dropout's "
        "above 0, and Dropout's minus half of vanilla's above 0, by both accuracies. Not decided unless vanilla's is "
        "above 0.",
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
        claim="AID's units change sign more than those of the vanilla and the Dropout network throughout.",
        test="Average unit sign entropy, AID minus each of the two, in each quarter of the stages on both problems: "
        "above 0, each by its own interval.",
    ),
    Claim(
        key="aid_keeps_effective_rank",
        section="G.1.2 Analysis of Metrics Contributing to Plasticity Loss",
        study="trainability_metrics",
        paper="AID preserves the effective rank throughout training.",
        claim="AID's features have a higher rank than those of the vanilla and the Dropout network throughout.",
        test="Effective rank, AID minus each of the two, in each quarter of the stages on both problems: above 0, "
        "each by its own interval.",
    ),
    Claim(
        key="vanilla_and_dropout_ranks_decline",
        section="G.1.2 Analysis of Metrics Contributing to Plasticity Loss",
        study="trainability_metrics",
        paper="The effective ranks of the vanilla and the Dropout network rapidly decline.",
        claim="The effective ranks of the vanilla and the Dropout network decline.",
        test="Effective rank, last tenth of the stages minus nine tenths of that after the first, for both methods on "
        "both problems: below 0.",
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
        key="dropout_shift_grows",
        section="G.1.3 Analysis on Preactivation Distribution Shift of Dropout and AID",
        study="preactivation_shift",
        paper="Over the course of training Dropout's shift becomes more severe than AID's; it is unbounded.",
        claim="Dropout's pre-activations go on shifting, and further than AID's.",
        test="|Median - median of stage 1|, at stage 30 minus at stage 10: above 0 for Dropout, and Dropout's minus "
        "AID's above 0.",
    ),
    Claim(
        key="dropout_median_drifts",
        section="G.1.3 Analysis on Preactivation Distribution Shift of Dropout and AID",
        study="preactivation_shift",
        paper="By the 30th task the median of Dropout's pre-activations approaches -2500.",
        claim="Dropout's pre-activations drift far below zero.",
        test="Median of the penultimate pre-activations at stage 30: below -1250, half of the paper's; at paper scale "
        "alone, for the number belongs to it.",
    ),
    Claim(
        key="aid_median_stays_bounded",
        section="G.1.3 Analysis on Preactivation Distribution Shift of Dropout and AID",
        study="preactivation_shift",
        paper="At the 30th task AID's distribution is much closer to zero than Dropout's.",
        claim="AID's pre-activations stay bounded.",
        test="A tenth of Dropout's |median| minus AID's |median| at stage 30: above 0. Not decided unless Dropout's "
        "median is below -1250, for a tenth of one that did not drift bounds nothing.",
    ),
    # Section 5.1.2 and appendices G.2, G.3: generalizability.
    Claim(
        key="aid_leads_continual_full",
        section="5.1.2 Generalizability",
        study="continual_full",
        paper="AID has a noticeable advantage over the other methods throughout.",
        claim="AID is the most accurate method in continual full throughout, full reset included.",
        test="Test accuracy of AID minus that of every other method, full reset included, in each quarter of the "
        "stages on each of the three: above 0, each by its own interval. In seeds where the other diverged it lost, "
        "and it fails the claim only if it diverged in none.",
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
        key="l2_init_and_redo_do_not_generalize",
        section="5.1.2 Generalizability",
        study="continual_full",
        paper="L2 Init and ReDo are left out, as they have no improvement on generalizability.",
        claim="L2 Init and ReDo are no more accurate than the vanilla network.",
        test="Final test accuracy of each minus the vanilla network's, on each of the three: below 0.01, one point. "
        "At their defaults, with the vanilla network's optimizer; run on demand alone, for the paper has no settings.",
    ),
    Claim(
        key="aid_leads_continual_limited",
        section="5.1.2 Generalizability",
        study="continual_limited",
        paper="The trend persists in the continual limited setting.",
        claim="AID is the most accurate method in continual limited throughout.",
        test="Test accuracy of AID minus that of every other method, in each quarter of the stages on each of the "
        "three: above 0, each by its own interval. In seeds where the other diverged it lost, and it fails the claim "
        "only if it diverged in none.",
    ),
    Claim(
        key="dropout_family_strong_when_limited",
        section="5.1.2 Generalizability",
        study="continual_limited",
        paper="Dropout, DropReLU and AID all perform strongly in the continual limited setting.",
        claim="The Dropout family is strong where old data are gone.",
        test="Final accuracy of Dropout, DropReLU and AID, each minus the median of the methods outside the family, "
        "on each of the three: above 0. Not decided before all of those have run.",
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
        test="Mean difference to full reset on the seen classes in each quarter of the stages on both networks, eight "
        "in all, each by its own interval: above 0 in each for AID; for every other method below 0 in at least one. "
        "One that diverged in some seeds fails nothing.",
    ),
    Claim(
        key="aid_leads_class_incremental",
        section="G.3 Additional Results for Class-Incremental",
        study="class_incremental",
        paper="AID consistently outperforms the other approaches, on the learned classes and on all classes.",
        claim="AID is the most accurate method in class-incremental learning throughout.",
        test="Test accuracy of AID minus that of every other method, on the learned and on all classes, in each "
        "quarter of the stages on both networks: above 0, each by its own interval. In seeds where the other diverged "
        "it lost, and it fails the claim only if it diverged in none.",
    ),
    Claim(
        key="aid_gap_stays_lowest",
        section="G.2.1 Generalizability Comparison: Dropout vs. AID",
        study="generalizability_gap",
        paper="AID consistently has the lowest gap between cold and warm start.",
        claim="AID's gap is lower than Dropout's and the vanilla network's throughout.",
        test="Mean gap in each quarter of the stages from the second on, AID minus each of the two, on each of the "
        "three: below 0, each by its own interval.",
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
)

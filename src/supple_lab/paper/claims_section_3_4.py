"""Claims of sections 3 and 4 and appendix C: why Dropout fails, what AID is and what is proved of it."""

from supple_lab.paper.claim import Claim

WHY = (
    # Section 3: why Dropout does not help.
    Claim(
        key="more_dropout_falls_further",
        section="3.1 Trainability Perspective",
        study="dropout_fails",
        paper="The higher the Dropout probability, the more an 8-layer MLP loses on random labels.",
        claim="The higher the drop rate, the more accuracy is lost.",
        test="First stage minus the mean over the stages, of each network: its slope over the drop rates, vanilla as "
        "0, above 0, by both accuracies.",
    ),
    Claim(
        key="subnetworks_fall_too",
        section="3.1 Trainability Perspective",
        study="dropout_fails",
        paper="10 subnetworks sampled after each task learn new tasks ever worse, more so at higher rates.",
        claim="Subnetworks of a Dropout network lose their plasticity, too.",
        test="At the highest rate the last tenth of the subnetworks' mean accuracy is more than 0.05 below a fresh "
        "vanilla network (it fails less than 0.02 below); and the slope over the rates of their first stage minus the "
        "mean over the stages: above 0.",
    ),
    Claim(
        key="aid_subnetworks_keep",
        section="3.1 Trainability Perspective",
        study="dropout_fails",
        paper="AID maintains trainability across all tasks.",
        claim="AID's network and its subnetworks keep their plasticity.",
        test="The last tenth of the network, by both accuracies, and of its subnetworks: less than 0.02 below a fresh "
        "vanilla network; it fails more than 0.05 below. Not decided unless the fresh network is above 0.15, chance "
        "and five points.",
    ),
    Claim(
        key="dropout_improves_both_starts",
        section="3.2 Generalizability Perspective",
        study="warm_start",
        paper="With Dropout both warm start and cold start are more accurate than with the vanilla network.",
        claim="Dropout improves the accuracy from either start.",
        test="Final test accuracy of Dropout minus vanilla, from a cold and from a warm start: above 0 in each.",
    ),
    Claim(
        key="dropout_gap_equals_vanilla",
        section="3.2 Generalizability Perspective",
        study="warm_start",
        paper="Cold start beats warm start by 10.1 points with Dropout and by 10.9 with the vanilla network.",
        claim="Dropout's warm-start gap is that of the vanilla network.",
        test="Gap of Dropout: above 3/4, and below 5/4, of the vanilla network's, seed by seed. Not decided unless "
        "that is above 0.",
    ),
    Claim(
        key="aid_gap_is_smaller",
        section="3.2 Generalizability Perspective",
        study="warm_start",
        paper="AID's warm-start gap is 3.3 points, the vanilla network's 10.9.",
        claim="AID closes most of the warm-start gap.",
        test="Half of the vanilla network's gap minus the gap of AID: above 0. Not decided unless the first is above "
        "0.",
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
        claim="Check: Theorem 1's inequality holds, and its penalty grows towards p = 1/2.",
        test="On random networks and a grid of p, expectations exact: left side minus right side never below 0, and 0 "
        "for a single hidden unit, where it is an equality (beyond rounding); the penalty at p nearer to 1/2 never "
        "smaller than at p further away.",
        is_check=True,
    ),
    Claim(
        key="dropout_has_no_such_pull",
        section="C.2 Effect of Theorem 1 for ReLU and Standard Dropout",
        study="theory",
        paper="Dropout after ReLU does not regularize to a linear network: its penalty is at least p/(n(1-p)) times "
        "the squared output of the ReLU network, in which negative pre-activations have no part.",
        claim="Check: Dropout after ReLU lacks AID's pull to the linear network.",
        test="On random networks and a grid of p, expectations exact: Dropout's loss minus the corollary's right side "
        "never below 0, and 0 for a single hidden unit (beyond rounding). Where all pre-activations are negative, "
        "Dropout adds nothing to the loss, though the network is not linear, and AID adds at least Theorem 1's "
        "penalty, above 0.",
        is_check=True,
    ),
    Claim(
        key="he_moments",
        section="4.4 Theoretical Analysis",
        study="theory",
        paper="With He initialisation AID is as stable as ReLU: both leave half of the variance.",
        claim="Check: AID keeps He's moment law for every p: half of the second moment, half of the slopes.",
        test="E[AID(z)^2] / Var z and P(slope = 1) over a grid of p, for normal z, each with -z under the same mask: "
        "1/2, beyond rounding.",
        is_check=True,
    ),
)

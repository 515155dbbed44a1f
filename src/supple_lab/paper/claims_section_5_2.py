"""Claims of sections 5.2 and 5.3 and appendices G.4, G.5 and H: reinforcement and standard learning."""

from supple_lab.paper.claim import Claim

OTHER_LEARNING = (
    # Section 5.2 and appendices G.4, H: reinforcement learning.
    Claim(
        key="aid_improves_atari",
        section="5.2 Reinforcement Learning",
        study="atari",
        paper="AID significantly improves sample efficiency over 17 games at a replay ratio of 1.",
        claim="AID's agents score higher than vanilla DQN.",
        test="IQM of the final human-normalised scores, AID minus vanilla, over the 17 games: above 0, by a stratified "
        "bootstrap of the scores, each further from its game's mean by sqrt(n / (n - 1)) for n seeds, or it would be "
        "too narrow.",
    ),
    Claim(
        key="small_dropout_improves_atari",
        section="5.2 Reinforcement Learning",
        study="atari",
        paper="A small Dropout rate slightly improves the score.",
        claim="Agents with a small Dropout score higher than vanilla DQN.",
        test="IQM of the final human-normalised scores, Dropout minus vanilla, over the 17 games: above 0, by the "
        "same bootstrap.",
    ),
    Claim(
        key="dropout_fails_in_three_games",
        section="G.4.1 Atari 2600 RAW Scores by Games",
        study="atari",
        paper="In Asterix, BeamRider and DemonAttack, known for plasticity loss, Dropout failed to improve the score.",
        claim="Dropout does not improve the agents where plasticity is lost.",
        test="Final human-normalised score of Dropout minus 1.1 times vanilla's, in each of the three games: below 0.",
    ),
    Claim(
        key="aid_better_in_most_games",
        section="G.4.1 Atari 2600 RAW Scores by Games",
        study="atari",
        paper="AID has advantages in most games.",
        claim="AID's agents score higher in most games.",
        test="Final score, AID minus vanilla, in most of the 17 games: above 0.",
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
        paper="In Asterix, BeamRider and DemonAttack AID consistently maintains a higher feature rank.",
        claim="AID's agents have a higher effective rank throughout.",
        test="Effective rank, AID minus each of the two, in each quarter of the run in each of the three games: above "
        "0, each by its own interval.",
    ),
    Claim(
        key="vanilla_and_dropout_ranks_decline_in_atari",
        section="G.4.2 Impact of AID on Effective Rank",
        study="atari",
        paper="In the three games the feature ranks of vanilla and Dropout steadily decline.",
        claim="The effective ranks of vanilla and Dropout agents decline.",
        test="Effective rank at the end minus nine tenths of that after the first iteration, for both methods in each "
        "of the three games: below 0.",
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
        test="Each of the twelve minus the paper's: the whole interval within 1 point of 0; it fails wholly outside. "
        "At paper scale alone, for the numbers belong to it.",
    ),
    Claim(
        key="aid_leads_supervised",
        section="5.3 Standard Supervised Learning",
        study="supervised",
        paper="AID is best on each dataset: 0.748, 0.690, 0.519.",
        claim="AID generalizes best without any change of the data, too.",
        test="Final test accuracy of AID minus that of vanilla, of L2 and of Dropout, on each of the three: above 0, "
        "each by its own interval. In seeds where the other diverged it lost, and it fails the claim only if it "
        "diverged in none.",
    ),
    Claim(
        key="aid_closes_generalization_gap",
        section="G.5 Learning Curves for Standard Supervised Learning",
        study="supervised",
        paper="AID closes the gap between training and test more than L2 and Dropout do.",
        claim="AID overfits less than L2 and Dropout.",
        test="Final train accuracy minus test accuracy, AID minus each of the two, on each of the three: below 0, by "
        "train accuracy in evaluation mode and by the last epoch's in training mode, which the paper's figure shows: "
        "it holds or fails only where both agree.",
    ),
)

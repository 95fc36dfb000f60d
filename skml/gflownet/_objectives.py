"""Losses of generative flow networks as functions of tensors; this module imports torch.

Edges of several paths come flat: `path` numbers the path of each edge and `step` its place in it.
"""

import torch

_LARGEST_PENALTY = 25.0


def trajectory_balance_loss(log_pf, log_pb, log_rewards, log_z, path):
    """Mean over paths of (log Z + sum log P_F - log R(x) - sum log P_B)²."""
    ratio = torch.zeros_like(log_rewards).index_add(0, path, log_pf - log_pb)
    return (log_z + ratio - log_rewards).square().mean()


def detailed_balance_loss(log_pf, log_pb, log_flow, log_flow_next):
    """Mean over edges of (log F(s) + log P_F - log F(s') - log P_B)², F(x) = R(x)."""
    return (log_flow + log_pf - log_flow_next - log_pb).square().mean()


def subtrajectory_balance_loss(log_pf, log_pb, log_flow, log_rewards, path, step, decay):
    """Mean over all parts i < j of a path, weighted by decay^(j - i), of the squared imbalance.

    The imbalance is log F(s_i) + sum_{i <= t < j} (log P_F - log P_B) - log F(s_j), where the last
    state is the object and has the flow R(x).
    """
    n_paths, n_steps = len(log_rewards), int(step.max()) + 1
    shape = (n_paths, n_steps + 1)
    lengths = torch.zeros(n_paths, dtype=torch.long, device=path.device)
    lengths = lengths.index_add(0, path, torch.ones_like(path))
    ratios = log_pf.new_zeros(shape).index_put((path, step + 1), log_pf - log_pb)
    flows = log_pf.new_zeros(shape).index_put((path, step), log_flow)
    flows = flows.index_put((torch.arange(n_paths, device=path.device), lengths), log_rewards)
    potential = flows - ratios.cumsum(dim=1)
    imbalance = potential[:, :, None] - potential[:, None, :]
    places = torch.arange(n_steps + 1, device=path.device)
    gap = places[None, :] - places[:, None]
    # One power less, which cancels: at decay 0 single steps are left, as in detailed balance.
    weights = torch.where(gap > 0, decay ** (gap - 1).clamp(min=0).float(), 0.0)
    weights = weights * (places[None, None, :] <= lengths[:, None, None])
    per_path = (weights * imbalance.square()).sum(dim=(1, 2)) / weights.sum(dim=(1, 2))
    return per_path.mean()


def flow_matching_loss(log_inflow, log_outflow):
    """Mean over states of (log sum_in F(edge) - log sum_out F(edge))²; an object's outflow is R."""
    return (log_inflow - log_outflow).square().mean()


def soft_values(q_values, available, temperature):
    """V(s) = temperature * logsumexp(Q(s, a) / temperature) over the available actions."""
    masked = torch.where(available, q_values / temperature, -torch.inf)
    return temperature * masked.logsumexp(dim=1)


def soft_q_targets(log_pb, log_rewards_or_zero, next_values, log_policy, munchausen):
    """Targets of Q(s, a): reward + munchausen term + value of the next state.

    The reward of an edge is log P_B(s | s'), plus log R(x) where it ends in x: with it the optimal
    policy of entropy-regularised reinforcement learning samples in proportion to R. The temperature
    is 1 / (1 - munchausen), which keeps the whole regularisation at one.
    """
    temperature = 1.0 / (1.0 - munchausen)
    bonus = munchausen * temperature * log_policy.clamp(min=-_LARGEST_PENALTY)
    return log_pb + log_rewards_or_zero + bonus + next_values

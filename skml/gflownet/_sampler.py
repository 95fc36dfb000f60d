"""RewardProportionalSampler: draws objects in proportion to a score."""

from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from skml.utils._atomic import restores_on_error

from ._process import Process
from ._score_table import PROCESSES, ScoreTable, are_objects, checked_y, finiteness, may_end
from ._solvers import solve
from ._target_comparison import TargetComparisonMixin
from ._validation import check_parameters, checked_states

_OBJECTIVES = {"rpe", "tb", "db", "fm", "subtb", "soft_q"}


class RewardProportionalSampler(TargetComparisonMixin, DensityMixin, BaseEstimator):
    """Draw discrete objects with probability proportional to a non-negative score.

    Objects (sequences, sets, points of a grid, or what a process of your own builds) are built one
    action at a time. Random policy evaluation [1]_ computes the value of one fixed policy, which
    takes every action with the same probability; to go where the values are, in proportion,
    samples objects in proportion to their scores. Where the states can be enumerated the values,
    and so the samples, are exact; elsewhere a network learns them. The objectives of the field
    that optimise a policy instead stand beside it.

    Parameters
    ----------
    objective : {"rpe", "tb", "db", "fm", "subtb", "soft_q"}, default="rpe"
        Random policy evaluation; trajectory balance [2]_, detailed balance, flow matching [3]_,
        sub-trajectory balance [4]_, soft Q-learning with the reward log P_B [5]_.
    process : {"autoregressive", "autoregressive_stop", "prepend_append", "set", "hypergrid"} or \
Process, default="autoregressive"
        How objects are built. The strings stand for :class:`AutoregressiveProcess`, the same with
        ``stop=True``, :class:`PrependAppendProcess`, :class:`SetProcess` and
        :class:`HypergridProcess`, with sizes learnt from X.
    reward : callable or None, default=None
        ``reward(objects)`` gives the scores, shape (n,), of several objects, which come in the
        form of X. It takes the place of y, and X only says which values there are.
    reward_estimator : regressor or None, default=None
        Predicts scores of objects that are not in X, from X and y. Used with
        ``missing_reward="estimator"``.
    missing_reward : {"floor", "estimator"}, default="floor"
        Score of objects that are not in X: `reward_floor`, or a prediction.
    reward_floor : float, default=0.0
        Scores below it are raised to it, before the exponent.
    reward_exponent : float, default=1.0
        Objects are drawn in proportion to their scores to this power; large values concentrate on
        the best objects.
    solver : {"auto", "exact", "mlp"}, default="auto"
        Enumerate the states, or train a network. "auto" enumerates for "rpe" if there are at most
        `max_states` states.
    max_states : int, default=2000000
        Largest number of states to enumerate. Sequences with scores in a table need their
        prefixes in X only.
    rectification : {"auto", "path", "edge"}, default="auto"
        How "rpe" makes up for unequal numbers of actions and parents: rewards times g, which needs
        a g that is the same for all paths, or steps times A / B. "auto" takes the first where it
        applies and g is not too large for float64.
    target : {"td", "mc", "td_lambda"}, default="td"
        What the network of "rpe" is regressed on: the mean over all children, the reward at the
        end of the path, or a mixture.
    trace_decay : float, default=0.9
        The lambda of "td_lambda" and of the objective "subtb".
    terminal : {"learned", "exact", "network"}, default="learned"
        Values of children that are objects, for "rpe": rewards of visited objects are remembered
        and the network stands in for the others; all are asked for; the network gives all.
    exploration : float or None, default=None
        Probability of a uniform action while training. None: 1 for "rpe", or 0.1 if it is rectified
        by edge and ``target="td"``; 0.05 for the other objectives.
    backward_policy : {"uniform", "learned"}, default="uniform"
        P_B of "tb", "db" and "subtb"; "soft_q" has a uniform one, and "fm" none.
    munchausen : float, default=0.0
        Share of the entropy that "soft_q" adds to the reward.
    partition_learning_rate : float, default=0.1
        Learning rate of log Z of "tb".
    hidden_layer_sizes : sequence of int, default=(256, 256)
        Widths of the hidden layers.
    module : callable or None, default=None
        ``module(state_sizes, n_outputs)`` makes a `torch.nn.Module` that maps integer states
        (n, n_entries) to (n, n_outputs), in place of the multilayer perceptron.
    learning_rate : float, default=1e-3
        Learning rate of Adam at the first step.
    learning_rate_schedule : {"linear", "cosine", "constant"}, default="linear"
        How the step size falls to zero until `max_iter`, if at all.
    batch_size : int, default=32
        New paths in a step; each needs one reward.
    max_iter : int, default=4000
        Largest number of steps.
    replay_ratio : int, default=0
        Old batches that are trained on beside each new one.
    tol : float, default=1e-6
        Least improvement of the loss that counts, with `n_iter_no_change`.
    n_iter_no_change : int or None, default=None
        Stop after so many steps without improvement by `tol`; None: never.
    handle_unknown : {"error", "ignore"}, default="error"
        Whether `score_samples` refuses objects outside of the design space, or gives -inf.
    device : str, default="cpu"
        Where to train: "cpu", "auto" or a torch device string.
    random_state : int, RandomState instance or None, default=None
        Source of the initial weights and of the paths, and of the samples where `sample` is given
        none.
    verbose : int, default=0
        0 is silent, 1 shows the progress.

    Attributes
    ----------
    process_ : Process
        The process with all sizes filled in.
    categories_ : list of ndarray
        Values of each column, by their integers.
    solver_ : {"exact", "mlp"}
        What was used.
    rectification_ : {"path", "edge"} or None
        What was used; None for objectives other than "rpe".
    log_partition_ : float
        log Z, the logarithm of the sum of all rewards; an estimate if it was learnt.
    n_states_ : int or None
        Number of states, those in the trie if there is one; None if they were not counted.
    n_reward_calls_ : int
        Number of rewards that were asked for, one per path.
    n_reward_evaluations_ : int
        The same without repetitions.
    n_iter_ : int
        Number of steps; 0 for the exact solver.
    loss_curve_ : list of float
        Loss of each step, before it.
    history_ : dict of str to ndarray
        Of the objects that training visited, in the order of the first visit: "objects" (their
        integers), "rewards" (zero or infinite beyond the range of float64), and "reward_calls"
        (how many had been asked for). Of every step: "step_reward_calls". Empty for the exact
        solver.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (n_features,), dtype object
        Names of the features seen during `fit`, if all are strings.

    Raises
    ------
    ValueError
        If a score is negative or not finite, all are zero, ``rectification="path"`` does not apply,
        or there are too many states for ``solver="exact"``.

    See Also
    --------
    Process : Base class for processes of one's own.
    skml.inspection.SampleDistributionDisplay : Sampled against target probabilities.
    skml.inspection.ModeDiscoveryDisplay : Good objects found over reward calls.

    Notes
    -----
    A(s) is the number of actions at s and B(s) the number of edges into it, counted with
    multiplicity. State flows satisfy F(x) = R(x), F(s) = sum over edges of F(s') / B(s'), so
    F(s0) = Z. With g(s) = prod A(s_t) / B(s_{t+1}) along a path and the rectified reward R(x) g(x),
    the value of the uniform policy, V(s) = (1 / A(s)) sum over edges of V(s'), is F(s) g(s), if g
    does not depend on the path. Children are then sampled with V(s') / sum V(s''). Otherwise a step
    has the weight A(s) / B(s'), which turns V into F, and children are sampled with
    F(s') / (B(s') F(s)).

    The learnt solver regresses a positive output on the right side of the equation for V. The
    reward of every object that a path has reached is remembered, and stands for the value of that
    object in targets and in the policy. In training, rewards below 1e-6 of the largest are raised
    to it, so that they have a logarithm.

    `score_samples` sums over all paths to an object.

    References
    ----------
    .. [1] H. He, E. Bengio, Q. Cai, L. Pan. "Random policy evaluation uncovers policies of
       generative flow networks." ICML 2025. https://arxiv.org/abs/2406.02213
    .. [2] N. Malkin, M. Jain, E. Bengio, C. Sun, Y. Bengio. "Trajectory balance: improved credit
       assignment in GFlowNets." NeurIPS 2022. https://arxiv.org/abs/2201.13259
    .. [3] E. Bengio, M. Jain, M. Korablyov, D. Precup, Y. Bengio. "Flow network based generative
       models for non-iterative diverse candidate generation." NeurIPS 2021.
       https://arxiv.org/abs/2106.04399
    .. [4] K. Madan et al. "Learning GFlowNets from partial episodes for improved convergence and
       stability." ICML 2023. https://arxiv.org/abs/2209.12782
    .. [5] D. Tiapkin, N. Morozov, A. Naumov, D. Vetrov. "Generative flow networks as
       entropy-regularized RL." AISTATS 2024. https://arxiv.org/abs/2310.12934

    Examples
    --------
    >>> import numpy as np
    >>> from skml.gflownet import RewardProportionalSampler
    >>> X = [["A", "C"], ["A", "G"], ["T", "G"]]
    >>> sampler = RewardProportionalSampler(random_state=0).fit(X, [1.0, 2.0, 5.0])
    >>> np.exp(sampler.score_samples(X))
    array([0.125, 0.25 , 0.625])
    >>> sampler.sample(3)
    array([['A', 'G'],
           ['T', 'G'],
           ['A', 'G']], dtype='<U1')
    """

    _parameter_constraints = {
        "objective": [StrOptions(_OBJECTIVES)],
        "process": [StrOptions(set(PROCESSES)), Process],
        "reward": [callable, None],
        "reward_estimator": [HasMethods(["fit", "predict"]), None],
        "missing_reward": [StrOptions({"floor", "estimator"})],
        "reward_floor": [Interval(Real, 0, None, closed="left")],
        "reward_exponent": [Interval(Real, 0, None, closed="neither")],
        "solver": [StrOptions({"auto", "exact", "mlp"})],
        "max_states": [Interval(Integral, 1, None, closed="left")],
        "rectification": [StrOptions({"auto", "path", "edge"})],
        "target": [StrOptions({"td", "mc", "td_lambda"})],
        "trace_decay": [Interval(Real, 0, 1, closed="both")],
        "terminal": [StrOptions({"learned", "exact", "network"})],
        "exploration": [Interval(Real, 0, 1, closed="both"), None],
        "backward_policy": [StrOptions({"uniform", "learned"})],
        "munchausen": [Interval(Real, 0, 1, closed="left")],
        "partition_learning_rate": [Interval(Real, 0, None, closed="neither")],
        "hidden_layer_sizes": ["array-like"],
        "module": [callable, None],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "learning_rate_schedule": [StrOptions({"linear", "cosine", "constant"})],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "replay_ratio": [Interval(Integral, 0, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left"), None],
        "handle_unknown": [StrOptions({"error", "ignore"})],
        "device": "no_validation",  # by check_parameters
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        objective="rpe",
        process="autoregressive",
        *,
        reward=None,
        reward_estimator=None,
        missing_reward="floor",
        reward_floor=0.0,
        reward_exponent=1.0,
        solver="auto",
        max_states=2_000_000,
        rectification="auto",
        target="td",
        trace_decay=0.9,
        terminal="learned",
        exploration=None,
        backward_policy="uniform",
        munchausen=0.0,
        partition_learning_rate=0.1,
        hidden_layer_sizes=(256, 256),
        module=None,
        learning_rate=1e-3,
        learning_rate_schedule="linear",
        batch_size=32,
        max_iter=4000,
        replay_ratio=0,
        tol=1e-6,
        n_iter_no_change=None,
        handle_unknown="error",
        device="cpu",
        random_state=None,
        verbose=0,
    ):
        self.objective = objective
        self.process = process
        self.reward = reward
        self.reward_estimator = reward_estimator
        self.missing_reward = missing_reward
        self.reward_floor = reward_floor
        self.reward_exponent = reward_exponent
        self.solver = solver
        self.max_states = max_states
        self.rectification = rectification
        self.target = target
        self.trace_decay = trace_decay
        self.terminal = terminal
        self.exploration = exploration
        self.backward_policy = backward_policy
        self.munchausen = munchausen
        self.partition_learning_rate = partition_learning_rate
        self.hidden_layer_sizes = hidden_layer_sizes
        self.module = module
        self.learning_rate = learning_rate
        self.learning_rate_schedule = learning_rate_schedule
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.replay_ratio = replay_ratio
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.handle_unknown = handle_unknown
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @restores_on_error
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, *, sample_weight=None):
        """Find the policy that draws objects in proportion to their rewards.

        Parameters
        ----------
        X : {array-like, DataFrame} of shape (n_samples, n_features)
            Objects, one per row: letters of any type for sequences, 0/1 for sets, integers for
            grids and processes of your own.
        y : array-like of shape (n_samples,), default=None
            Scores of at least 0; those of equal rows are averaged. None: 1 for every row of X,
            unless the process has rewards of its own.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, at least 0, in the averages of equal rows; rows of weight 0 are
            left out.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        check_parameters(self)
        table = ScoreTable(self, X, y, sample_weight)
        vars(self).update(solve(self, table))
        self.process_ = table.process
        self.categories_ = table.values
        self.log_partition_ = self._solution.log_partition
        self._encoder = table.encoder
        return self

    def sample(self, n_samples=1, random_state=None):
        """Draw objects.

        Parameters
        ----------
        n_samples : int, default=1
            How many.
        random_state : int, RandomState instance or None, default=None
            Source of the samples. None: the sampler's own `random_state`.

        Returns
        -------
        ndarray or DataFrame of shape (n_samples, n_features)
            Objects in the form of X.
        """
        check_is_fitted(self)
        if isinstance(n_samples, bool) or not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"n_samples must be an integer of at least 1, got {n_samples!r}.")
        source = check_random_state(self.random_state if random_state is None else random_state)
        rng = np.random.default_rng(source.randint(2**31 - 1, size=4))
        return self._encoder.decode(self._solution.sample(int(n_samples), rng))

    def score_samples(self, X):
        """Return the log-probability of each object, summed over all paths that lead to it.

        Parameters
        ----------
        X : {array-like, DataFrame} of shape (n_samples, n_features)
            Objects.

        Returns
        -------
        ndarray of shape (n_samples,)
            Values of log p(x); -inf for objects that are never drawn.
        """
        check_is_fitted(self)
        X_valid = validate_data(
            self, X, dtype=None, reset=False, ensure_all_finite=finiteness(self.process)
        )
        objects, unknown = self._encoder.encode(X_valid)
        unknown |= ~are_objects(self.process_, objects, unknown)
        if unknown.any() and self.handle_unknown == "error":
            row = int(np.argmax(unknown))
            raise ValueError(
                f"Row {row} of X is no object of the design space: {np.asarray(X)[row].tolist()}; "
                "handle_unknown='ignore' gives it the log-probability -inf."
            )
        result = np.full(len(objects), -np.inf)
        result[~unknown] = self._solution.log_probability(objects[~unknown])
        return result

    def score(self, X, y=None, *, sample_weight=None):
        """Return the mean log-probability, weighted by scores where they are given.

        Parameters
        ----------
        X : {array-like, DataFrame} of shape (n_samples, n_features)
            Objects.
        y : array-like of shape (n_samples,), default=None
            Their scores: with them the result is, up to a constant, minus the Kullback-Leibler
            divergence of the sampler from the target on these rows.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, besides `y`.

        Returns
        -------
        score : float
            Mean of log p(x).
        """
        log_p = self.score_samples(X)
        weights = _check_sample_weight(sample_weight, log_p, dtype=np.float64)
        if y is not None:
            y = checked_y(y, len(log_p))
            scores = np.maximum(y, self.reward_floor)
            # Only ratios count, and powers of them do not overflow.
            weights = weights * (scores / (scores.max() or 1.0)) ** self.reward_exponent
        if not weights.sum() > 0:
            raise ValueError("The weights of all rows are zero, so there is no mean.")
        counted = weights > 0
        return float(np.average(log_p[counted], weights=weights[counted]))

    def policy(self, states):
        """Return the probabilities of the actions.

        Parameters
        ----------
        states : array-like of shape (n, n_entries)
            States of `process_`.

        Returns
        -------
        ndarray of shape (n, n_actions)
            P_F(a | s); zeros in the rows of objects.
        """
        check_is_fitted(self)
        return self._solution.policy(checked_states(self.process_, states))

    def state_values(self, states):
        """Return the values of states.

        Parameters
        ----------
        states : array-like of shape (n, n_entries)
            States of `process_`.

        Returns
        -------
        ndarray of shape (n,)
            V(s) = F(s) g(s) if `rectification_` is "path", so that V(s0) = Z; else flows F(s).
        """
        check_is_fitted(self)
        return self._solution.state_values(checked_states(self.process_, states))

    @property
    def value_net_(self):
        """The trained network."""
        check_is_fitted(self)
        if self.solver_ != "mlp":
            raise AttributeError("value_net_ exists after solver='mlp' only.")
        return self._solution.network

    @property
    def values_(self):
        """V(s), or F(s) by edge, of all states of an exact solver's table, by their numbers."""
        check_is_fitted(self)
        if not hasattr(self._solution, "values"):
            raise AttributeError("values_ exists where all states were enumerated only.")
        return self._solution.values

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = may_end(self.process)
        tags.target_tags.positive_only = True
        return tags

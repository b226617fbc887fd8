"""Models with branches, inputs for every arm, and what their Python source says must come of each.

The sources below are those of the files (TorchScript carries them); line numbers are theirs. Which way the tests go was taken from
eager runs of the same source in PyTorch 2.13.
"""
import dataclasses


@dataclasses.dataclass
class Conditional:
    kind: str
    lines: tuple  # first and last line of the statement
    module: str
    outcome: str
    arms: dict  # name: (text of the test or None, times evaluated, times fired)
    parent: object = None  # "arm of label"


@dataclasses.dataclass
class Variant:
    name: str
    file: str  # below the reference files
    inputs: dict  # name: (sizes, value of every element), or a file below the reference files as "FILE:KEY", or a scalar
    conditionals: object = None  # {label: Conditional}; None: what reference/MODEL.json says
    stacks: object = None  # {label of Op: its branch stack}; Ops not named are in no arm
    bools: object = None  # [(Op, context, answer)]
    code: int = 0
    reference: tuple = ()  # (model, variant) of reference/*.json, and what the design document adds to it
    falls_through: str = ""  # the Op that stands in a fall-through arm, which that version does not know


# 446  if flag and bool(x.sum() > 100):
# 447      return x
# 448  s = x.mean()
# 449  if s > 0.5:
# 450      y = self.a(x)
# 451  elif s > -0.5:
# 452      y = self.b(x).relu()
# 453  else:
# 454      y = self.c(x).tanh()
# 455  i = 0
# 456  while i < 6:
# 457      i += 1
# 458      if i % 2 == 0:
# 459          continue
# 460      y = y * 0.9 + float(i)
# 461      if bool(y.norm() > 30.0):
# 462          break
# 463  return y
def branch_net(name, x, flag, arm, breaks):
    """`breaks`: the norm exceeds 30 in the third round, at i = 5; else the loop runs to its end."""
    shift = 2 if flag else 0  # sum and gt come before all else
    gts = 1 if flag else 0
    first = "cond_gt_1_2" if flag else "cond_if_1"  # without the flag no Op decides
    chain = f"cond_gt_{gts + 1}_{shift + 2}"
    tests = 1 if arm == "then" else 2
    in_arm = {"then": ["linear"], "elif_1": ["linear", "relu"], "else": ["linear", "tanh"]}[arm]
    at = shift + 1 + tests + len(in_arm)  # operations before the loop
    number = gts + tests + 1
    norm_test, rounds = f"cond_gt_{number}_{at + 4}", 5 if breaks else 6
    outer = "fallthrough of " + first
    conditionals = {
        first: Conditional("if_chain", (446, 447), "self", "fallthrough", {
            "then": ("flag and bool(x.sum() > 100)", 1, 0), "fallthrough": (None, 0, 1)}),
        chain: Conditional("if_chain", (449, 454), "self", arm, {
            "then": ("s > 0.5", 1, int(arm == "then")), "elif_1": ("s > -0.5", tests - 1, int(arm == "elif_1")),
            "else": (None, 0, int(arm == "else"))}, outer),
        "cond_if_3": Conditional("if_chain", (458, 459), "self", "several", {
            "then": ("i % 2 == 0", rounds, rounds - 3), "fallthrough": (None, 0, 3)}, outer),
        norm_test: Conditional("if_chain", (461, 462), "self", "then" if breaks else "none", {
            "then": ("bool(y.norm() > 30.0)", 3, int(breaks))}, "fallthrough of cond_if_3"),
    }
    inside = [f"{first}:fallthrough"]
    deciding = [f"gt_{gts + 1 + k}_{shift + 2 + k}" for k in range(tests)]
    stacks = {op: inside for op in [f"mean_1_{shift + 1}", *deciding]}
    stacks.update({f"{func}_1_{shift + 2 + tests + k}": inside + [f"{chain}:{arm}"] for k, func in enumerate(in_arm)})
    for position, func in enumerate(("mul_1", "add_1", "norm_1", f"gt_{number}")):
        stacks.update({f"{func}_{at + position + 1}:{k}": inside + ["cond_if_3:fallthrough"] for k in (1, 2, 3)})
    answers = [arm == "then", arm == "elif_1"][:tests]
    bools = [("gt_1_2", "if_test", False)] if flag else []
    bools += list(zip(deciding, ("if_test", "elif_test"), answers))
    bools += [(f"gt_{number}_{at + 4}:{k}", "if_test", breaks and k == 3) for k in (1, 2, 3)]
    return Variant(name, "zoo/branch_net.ts.pt", {"x": x, "flag": flag}, conditionals, stacks, bools)


BRANCH_NET = [
    branch_net("as the zoo has it", "zoo/branch_net.inputs.safetensors:in.000", True, "elif_1", True),
    branch_net("no flag", "zoo/branch_net.inputs.safetensors:in.000", False, "elif_1", True),
    branch_net("large mean", ([3, 4], 1.0), True, "then", True),
    branch_net("large mean, no flag", ([3, 4], 9.0), False, "then", True),
    branch_net("small mean", ([3, 4], -1.0), True, "else", True),
    branch_net("the loop runs to its end", ([3, 4], 0.0), True, "elif_1", False),
    branch_net("small mean, no break", ([1, 4], -1.0), False, "else", False),
    Variant("returns at once", "zoo/branch_net.ts.pt", {"x": ([3, 4], 9.0), "flag": True}, {
        "cond_gt_1_2": Conditional("if_chain", (446, 447), "self", "then", {
            "then": ("flag and bool(x.sum() > 100)", 1, 1), "fallthrough": (None, 0, 0)})}, {}, [("gt_1_2", "if_test", True)]),
]


# rnn.py of PyTorch, LSTMCell.forward; the model calls it in a loop
# 1735  if input.dim() not in (1, 2):
# 1736      raise ValueError(…)
# 1739  if hx is not None:
# 1740      for idx, value in enumerate(hx):
# 1741          if value.dim() not in (1, 2):
# 1742              raise ValueError(…)
# 1745  is_batched = input.dim() == 2
# 1746  if not is_batched:
# 1747      input = input.unsqueeze(0)
# 1749  if hx is None: …
# 1754  else:
# 1755      hx = (hx[0].unsqueeze(0), hx[1].unsqueeze(0)) if not is_batched else hx
# 1757  ret = _VF.lstm_cell(…)
# 1766  if not is_batched: …
#
#  433  if float(h.abs().max()) > limit:       zoo_models.py, in `for t in range(x.size(0))`
#  434      break
def script_rnn(name, limit, rounds, breaks):
    inner = "fallthrough of cond_select_1_3"
    passes = (lambda op, k: f"{op}:{k}") if rounds > 1 else (lambda op, k: op)
    conditionals = {
        "cond_select_1_3": Conditional("if_chain", (1735, 1738), "cell", "fallthrough", {
            "then": ("input.dim() not in (1, 2)", rounds, 0), "fallthrough": (None, 0, rounds)}),
        "cond_zeros_1_1": Conditional("if_chain", (1741, 1744), "cell", "none", {
            "then": ("value.dim() not in (1, 2)", 2 * rounds, 0)}, inner),
        "cond_select_1_3.2": Conditional("if_chain", (1746, 1747), "cell", "none", {"then": ("not is_batched", rounds, 0)}, inner),
        "cond_select_1_3.3": Conditional("ifexp", (1755, 1755), "cell", "else", {
            "then": ("not is_batched", rounds, 0), "else": (None, 0, rounds)}, inner),
        "cond_select_1_3.4": Conditional("if_chain", (1766, 1767), "cell", "none", {"then": ("not is_batched", rounds, 0)}, inner),
        "cond_max_1_7": Conditional("if_chain", (433, 434), "self", "then" if breaks else "none", {
            "then": ("float(h.abs().max()) > limit", rounds, int(breaks))}),
    }
    stacks = {passes(op, k): ["cond_select_1_3:fallthrough"] for op in ("lstmcell_1_4", "lstmcell_2_5") for k in range(1, rounds + 1)}
    return Variant(name, "zoo/script_rnn.ts.pt", {"x": "zoo/script_rnn.inputs.safetensors:in.000", "limit": limit}, conditionals,
                   stacks, [])


SCRIPT_RNN = [
    script_rnn("as the zoo has it", 0.6, 5, False),
    script_rnn("leaves the loop in the second round", 0.3, 2, True),
    script_rnn("leaves the loop at once", 0.1, 1, True),
    Variant("the cell raises", "zoo/script_rnn.ts.pt", {"x": ([5, 2, 6, 1], 0.0), "limit": 0.5}, {
        "cond_select_1_3": Conditional("if_chain", (1735, 1738), "cell", "then", {
            "then": ("input.dim() not in (1, 2)", 1, 1), "fallthrough": (None, 0, 0)})}, {}, [], code=5),
]

# 621  y = m.forward(self.act.forward(self.l(x)))
# 622  if pick_mode(which) == Mode.FAST:
# 623      y = y + self.k
# pick_mode: `if n > 0: return Mode.FAST` and then `return Mode.SLOW`. A conditional of host values that no Op hangs on has no row.
INTERFACE_ENUM = [
    Variant("fast", "zoo/interface_enum.ts.pt", {"x": "zoo/interface_enum.inputs.safetensors:in.000", "which": 1}, {
        "cond_if_1": Conditional("if_chain", (622, 623), "self", "then", {"then": ("pick_mode(which) == Mode.FAST", 1, 1)})},
        {"add_1_6": ["cond_if_1:then"]}, []),
    Variant("slow", "zoo/interface_enum.ts.pt", {"x": "zoo/interface_enum.inputs.safetensors:in.000", "which": 0}, {}, {}, []),
]

REFERENCE = [
    Variant("then", "reference/artifacts/branch.script.pt", {"x": ([2, 4], 1.0)}, reference=("branch", "build/inputs")),
    Variant("elif", "reference/artifacts/branch.script.pt", {"x": ([2, 4], -1.0)}, reference=("branch", "build/inputs_elif")),
    Variant("else", "reference/artifacts/branch.script.pt", {"x": ([2, 4], 0.0)}, reference=("branch", "build/inputs_else")),
    Variant("falls through", "reference/artifacts/early_return.script.pt", {"x": ([2, 2], -1.0)},
            reference=("early_return", "build/inputs"), falls_through="neg_1_3"),
    Variant("returns", "reference/artifacts/early_return.script.pt", {"x": ([2, 2], 1.0)}, reference=("early_return", "build/inputs_then")),
]


# torch.cond(x.sum() > 0, pos, neg, (x,)) + 1      line 23; pos: relu(self.fc(t)) * 2, neg: -t.sin()
def case24(name, value, arm, operations):
    return Variant(name, "cases/out/case24.pt2", {"x": ([2, 3], value)}, {
        "cond_gt_1_2": Conditional("cond", (23, 23), "self", arm, {
            "then": (None, 1, int(arm == "then")), "else": (None, 0, int(arm == "else"))})},
        {op: [f"cond_gt_1_2:{arm}"] for op in operations}, [("gt_1_2", "cond", arm == "then")])


EXPORTED = [
    case24("positive", 1.0, "then", ["linear_1_3", "relu_1_4", "mul_1_5"]),
    case24("negative", -1.0, "else", ["sin_1_3", "neg_1_4"]),
]

VARIANTS = BRANCH_NET + SCRIPT_RNN + INTERFACE_ENUM + REFERENCE + EXPORTED

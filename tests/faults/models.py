"""Small models of real architectures, each with places where a fault can be planted. build(name, fault) gives the module.

A fault is a function of the model that changes one thing after the weights are made, so that everything else stays
equal bit by bit. PLANTS lists (model, fault, module that is the source)."""
import torch
from torch import nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.proj = nn.Linear(dim, dim)
        self.causal = False
        self.scale = (dim // heads) ** -0.5

    def forward(self, x):
        b, n, d = x.shape
        q = self.q(x).view(b, n, self.heads, d // self.heads).transpose(1, 2)
        k = self.k(x).view(b, n, self.heads, d // self.heads).transpose(1, 2)
        v = self.v(x).view(b, n, self.heads, d // self.heads).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, scale=self.scale)
        return self.proj(y.transpose(1, 2).reshape(b, n, d))


class Mlp(nn.Module):
    def __init__(self, dim: int, hidden: int, act: nn.Module):
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden)
        self.act = act
        self.fc2 = nn.Linear(hidden, dim)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


class Block(nn.Module):
    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = Mlp(dim, 4 * dim, nn.GELU())

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Vit(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 32, 4, stride=4)
        self.blocks = nn.Sequential(*[Block(32, 4) for _ in range(6)])
        self.norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.blocks(x)).mean(dim=1))


class Basic(nn.Module):
    def __init__(self, cin: int, cout: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.short = nn.Conv2d(cin, cout, 1, stride) if stride != 1 else nn.Identity()

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + self.short(x))


class Resnet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, 1, 1)
        self.layers = nn.Sequential(Basic(16, 16, 1), Basic(16, 32, 2), Basic(32, 32, 1), Basic(32, 64, 2))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(64, 10)

    def forward(self, x):
        return self.fc(self.pool(self.layers(F.relu(self.stem(x)))).flatten(1))


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1 = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU())
        self.down2 = nn.Sequential(nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.GroupNorm(4, 16), nn.SiLU())
        self.mid = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.SiLU())
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.out = nn.Conv2d(16, 3, 3, padding=1)

    def forward(self, x):
        a = self.down1(x)
        b = self.up(self.mid(self.down2(a)))
        return self.out(torch.cat([a, b], dim=1))


class MlpNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*[m for _ in range(5) for m in (nn.Linear(24, 24), nn.Tanh())])
        self.out = nn.Linear(24, 5)

    def forward(self, x):
        return F.softmax(self.out(self.layers(x)), dim=-1)


class BfIsland(nn.Module):
    """Runs a module in bf16 between f32 neighbours."""

    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner.to(torch.bfloat16)

    def forward(self, x):
        return self.inner(x.to(torch.bfloat16)).to(torch.float32)


class Scaled(nn.Module):
    """An op too many."""

    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x * 1.01)


INPUTS = {
    "vit": lambda: torch.randn(2, 3, 16, 16),
    "resnet": lambda: torch.randn(2, 3, 16, 16),
    "unet": lambda: torch.randn(2, 3, 16, 16),
    "mlp": lambda: torch.randn(4, 24),
}
CLASSES = {"vit": Vit, "resnet": Resnet, "unet": Unet, "mlp": MlpNet}


def build(name):
    torch.manual_seed(7)
    model = CLASSES[name]()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.uniform_(-0.3, 0.3)
            module.running_var.uniform_(0.5, 2.0)
            with torch.no_grad():
                module.weight.uniform_(0.5, 1.5)
                module.bias.uniform_(-0.2, 0.2)
    return model.eval()


def at(model, path):
    return model.get_submodule(path)


def attribute(path, name, value):
    return lambda model: setattr(at(model, path), name, value)


def weights(path, change, name="weight"):
    def plant(model):
        with torch.no_grad():
            tensor = getattr(at(model, path), name)
            tensor.copy_(change(tensor.clone()))
    return plant


def replace(path, make):
    def plant(model):
        parent, _, leaf = path.rpartition(".")
        setattr(at(model, parent) if parent else model, leaf, make(at(model, path)))
    return plant


def exchange(first, second):
    def plant(model):
        with torch.no_grad():
            a, b = at(model, first), at(model, second)
            for name in ("weight", "bias"):
                x, y = getattr(a, name), getattr(b, name)
                keep = x.clone()
                x.copy_(y)
                y.copy_(keep)
    return plant


def drop_bias(path):
    def plant(model):
        at(model, path).bias = None
    return plant


def pad_shift(path):
    """Off by one: pads left and top by one more, right and bottom by one less."""
    def plant(model):
        conv = at(model, path)
        conv.padding = (0, 0)
        replace(path, lambda inner: nn.Sequential(nn.ZeroPad2d((2, 0, 2, 0)), inner))(model)
    return plant


# (model, name of the fault, plant, modules that may be named as the source)
PLANTS = [
    ("vit", "wrong_eps", attribute("blocks.3.norm2", "eps", 1e-2), ["blocks.3.norm2"]),
    ("vit", "swapped_channels", weights("blocks.2.mlp.fc1", lambda w: w[:, torch.arange(w.shape[1]) ^ 1]),
     ["blocks.2.mlp.fc1"]),
    ("vit", "transposed_weight", weights("blocks.1.attn.proj", lambda w: w.t()), ["blocks.1.attn.proj"]),
    ("vit", "bf16_island", replace("blocks.2.mlp", BfIsland), ["blocks.2.mlp"]),
    ("vit", "dropped_bias", drop_bias("blocks.4.mlp.fc2"), ["blocks.4.mlp.fc2"]),
    ("vit", "other_gelu", replace("blocks.1.mlp.act", lambda _: nn.GELU(approximate="tanh")), ["blocks.1.mlp.act"]),
    ("vit", "causal", attribute("blocks.2.attn", "causal", True), ["blocks.2.attn"]),
    ("vit", "scale", attribute("blocks.2.attn", "scale", 1.0), ["blocks.2.attn"]),
    ("vit", "permuted_channels", weights("patch", lambda w: w.flip(0)), ["patch"]),
    ("vit", "exchanged_heads", exchange("blocks.1.attn.q", "blocks.1.attn.k"), ["blocks.1.attn.q", "blocks.1.attn.k"]),
    ("vit", "extra_op", replace("blocks.3.mlp", Scaled), ["blocks.3.mlp"]),
    ("resnet", "stale_statistics", weights("layers.1.bn1", lambda m: m * 0.5, "running_mean"), ["layers.1.bn1"]),
    ("resnet", "wrong_eps", attribute("layers.2.bn2", "eps", 1e-2), ["layers.2.bn2"]),
    ("resnet", "swapped_channels", weights("layers.0.conv2", lambda w: w[torch.arange(w.shape[0]) ^ 1]),
     ["layers.0.conv2"]),
    ("resnet", "pad", pad_shift("stem"), ["stem"]),
    ("resnet", "dropped_bias", drop_bias("layers.1.short"), ["layers.1.short"]),
    ("resnet", "bf16_island", replace("layers.2.conv2", BfIsland), ["layers.2.conv2"]),
    ("unet", "wrong_groups", attribute("mid.1", "num_groups", 2), ["mid.1"]),
    ("unet", "wrong_eps", attribute("down2.1", "eps", 1e-1), ["down2.1"]),
    ("unet", "permuted_channels", weights("up", lambda w: w.flip(1)), ["up"]),
    ("unet", "transposed_weight", weights("mid.0", lambda w: w.transpose(2, 3)), ["mid.0"]),
    ("mlp", "transposed_weight", weights("layers.4", lambda w: w.t()), ["layers.4"]),
    ("mlp", "dropped_bias", drop_bias("layers.2"), ["layers.2"]),
    ("mlp", "permuted_channels", weights("layers.6", lambda w: w.flip(0)), ["layers.6"]),
    ("mlp", "other_activation", replace("layers.3", lambda _: nn.Softsign()), ["layers.3"]),
]


class Renamed(nn.Module):
    """The vit under other names and another nesting, with the same weights."""

    def __init__(self, source):
        super().__init__()
        self.stem_proj = source.patch
        self.trunk = nn.ModuleList([RenamedBlock(block) for block in source.blocks])
        self.ln_f = source.norm
        self.classifier = source.head

    def forward(self, x):
        x = self.stem_proj(x).flatten(2).transpose(1, 2)
        for layer in self.trunk:
            x = layer(x)
        return self.classifier(self.ln_f(x).mean(dim=1))


class RenamedAttention(nn.Module):
    def __init__(self, source):
        super().__init__()
        self.heads = source.heads
        self.scale = source.scale
        self.to_q, self.to_k, self.to_v, self.to_out = source.q, source.k, source.v, source.proj

    def forward(self, x):
        b, n, d = x.shape
        q = self.to_q(x).view(b, n, self.heads, d // self.heads).transpose(1, 2)
        k = self.to_k(x).view(b, n, self.heads, d // self.heads).transpose(1, 2)
        v = self.to_v(x).view(b, n, self.heads, d // self.heads).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=False, scale=self.scale)
        return self.to_out(y.transpose(1, 2).reshape(b, n, d))


class RenamedBlock(nn.Module):
    def __init__(self, source):
        super().__init__()
        self.ln_1 = source.norm1
        self.self_attention = RenamedAttention(source.attn)
        self.ln_2 = source.norm2
        self.up, self.nonlin, self.down = source.mlp.fc1, source.mlp.act, source.mlp.fc2

    def forward(self, x):
        x = x + self.self_attention(self.ln_1(x))
        return x + self.down(self.nonlin(self.up(self.ln_2(x))))

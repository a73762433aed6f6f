"""linear's and addmm's k02: what they compile to, what they take, every epilogue exactly."""

from __future__ import annotations

import pytest
import torch

from warpwise import operation, ops, tuned
from warpwise.gemm import persistent
from warpwise.gemm.fused import k02_warpgroups as epilogue
from warpwise.ops.linear import spec

LINEAR = operation.get("linear")
GEMM_CONFIGS = [config for config in persistent.CONFIGS if config.warpgroups <= 2]
# An orientation changes two bits of an instruction: all for the largest tile alone.
CONFIGS = [config.name for config in GEMM_CONFIGS]
TRIED = [(config, False) for config in CONFIGS] + [(CONFIGS[0], True)]


def integers(*shape: int, seed: int = 0, top: int = 3) -> torch.Tensor:
    """Small integers, whose sums here are exact in float32."""
    return torch.randint(-top, top + 1, shape, generator=torch.Generator().manual_seed(seed)).float()


# The epilogue decides about registers: all of its kinds for the largest tile, the fullest one for each tile.
LARGE = "128, 256, 2, 1, 4, 2, 1"


def tile_parameters(config) -> str:
    return ", ".join(map(str, (config.m, config.n, *config.warpgroup_grid, config.stages, *config.cluster)))


COMPILED = [
    f"__nv_bfloat16, {LARGE}, false, false, 3, false, false",
    f"__half, {LARGE}, false, false, 2, false, true",
    f"__nv_bfloat16, {LARGE}, true, true, 1, true, false",
    *(f"__nv_bfloat16, {tile_parameters(config)}, false, true, 2, true, true" for config in GEMM_CONFIGS),
]


@pytest.mark.parametrize("config", GEMM_CONFIGS, ids=lambda config: config.name)
def test_vectors_and_barriers_fit_shared_memory(config):
    assert epilogue.shared_bytes(config) <= 227 * 1024


def test_configurations():
    a, b = (torch.empty(*shape, dtype=torch.bfloat16, device="meta") for shape in ((8192, 4096), (4096, 4096)))
    taken = persistent.configs(a, b)
    assert sorted(taken) == sorted(CONFIGS)


def test_how_it_is_launched(monkeypatch):
    monkeypatch.setattr(epilogue.cuda, "tensor_map", lambda matrix, box: (tuple(matrix.shape), matrix.stride(), box))
    x, w = torch.empty(64, 300, device="meta").half().t(), torch.empty(512, 64, device="meta").half()
    with operation.assume_sm_count(1):
        (launch,) = LINEAR.kernels(LINEAR.rung("k02@128x256x64_s4_c2x1"), x, w, *[None] * 4, False)
    assert launch.name == "gemm_warpgroups<__half, 128, 256, 2, 1, 4, 2, 1, true, false, 0, false, false, false>"
    assert launch.args[:2] == (((64, 300), (300, 1), (64, 64)), ((512, 64), (64, 1), (64, 64)))
    assert launch.args[2:5] == (((300, 512), (512, 1), (64, 64)),) * 3, "y stands for what there is not"
    launcher = launch.launcher
    assert (launcher.grid[0], launcher.block[0]) == (2, 384), "one SM: as many waves as there are tiles"
    assert launcher.shared_bytes == epilogue.shared_bytes(GEMM_CONFIGS[0])
    assert launch.args[-3:-1] == (2, 2)


@pytest.mark.parametrize("op", ["linear", "addmm"])
def test_the_shipped_tables_name_what_there_is(op):
    paths = list(operation.get(op).tables.folder.glob("*.json"))
    assert paths
    for path in paths:
        for point in tuned.load(path).points:
            for name in {point.winner, point.rival} - {tuned.TORCH}:
                rung, _, config = name.partition("@")
                assert operation.get(op).rung(rung).name == rung
                assert config in CONFIGS or rung != "k02_warpgroups"


def test_what_cublas_fuses():
    x, w, bias = torch.ones(2, 3), torch.ones(4, 3), torch.ones(4)
    for activation in ("relu", "gelu_tanh"):
        assert spec.fuses(x, w, bias, activation, None, None, False)
        assert not spec.fuses(x, w, None, activation, None, None, False)
        assert not spec.fuses(x, w, bias, activation, torch.ones(2, 4), None, False)
        assert not spec.fuses(x, w, bias, activation, None, torch.ones(2), False)
        assert not spec.fuses(x, w, bias, activation, None, None, True)
    assert not spec.fuses(x, w, bias, "gelu", None, None, False)
    assert not spec.fuses(x, w, bias, None, None, None, False)


@pytest.mark.gpu
@pytest.mark.parametrize("activation", ["relu", "gelu_tanh"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_what_cublas_fuses_is_right(activation, dtype):
    for rows in ((64,), (2, 3)):
        x, w, bias = (torch.randn(*shape, device="cuda").to(dtype) for shape in ((*rows, 40), (24, 40), (24,)))
        found, truth = (way(x, w, bias, activation, None, None, False)[0] for way in (spec.eager, spec.reference))
        torch.testing.assert_close(found.double(), truth, rtol=2 * torch.finfo(dtype).eps, atol=1e-4)


def test_vectors_lie_on_pairs():
    vector = torch.arange(9).half()
    assert epilogue.aligned_pairs(vector) is vector
    moved = epilogue.aligned_pairs(vector[1:])
    assert moved.data_ptr() % 4 == 0 and torch.equal(moved, vector[1:])


@pytest.mark.gpu
@pytest.mark.parametrize("config,transposed", TRIED)
@pytest.mark.parametrize("extras", ["", "residual", "keep", "residual keep"])
def test_every_epilogue_exactly(config, transposed, extras):
    """Ragged edges, several tiles per block, fewer k-tiles than interleaved steps, and many more."""
    for number, (m, n, k) in enumerate(
        ((8, 8, 8), (130, 264, 200), (1000, 520, 1032), (3000, 5000, 72), (1024, 4096, 1416))
    ):
        x = integers(k, m // 8 * 8).t() if transposed and number % 2 else integers(m, k)
        w = integers(k, n, seed=1).t() if transposed and number // 2 % 2 else integers(n, k, seed=1)
        m = x.shape[0]
        bias, scale = integers(n, seed=2), integers(m, seed=3)
        residual = integers(m, n, seed=4) if "residual" in extras else None
        args = (x, w, bias if number else None, "relu", residual, scale if number != 1 else None, "keep" in extras)
        args = tuple(value.to("cuda", torch.bfloat16) if isinstance(value, torch.Tensor) else value for value in args)
        outputs, truths = ops.linear(*args, rung=f"k02@{config}"), LINEAR.spec.reference(*args)
        for output, truth in zip(outputs if args[-1] else (outputs,), truths, strict=False):
            assert torch.equal(output, truth.to(torch.bfloat16)), (m, n, k)


@pytest.mark.gpu
@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_activations_at_their_ends(activation, dtype):
    """As for the other rungs: zero, far out on both sides where a power overflows, and NaN, which stays where it is."""
    top = 1e4 if dtype == torch.float16 else 1e18
    values = torch.tensor(
        [0.0, 1e-3, 0.7, -0.7, 3.0, -3.0, 5.0, -5.0, 7.4, -7.4, 30.0, -30.0, top, -top, float("nan"), 1.0]
    )
    x, w = torch.zeros(16, 8), torch.eye(8)
    x[:, 0], w[1, 0] = values, 1.0  # the same value in two neighbouring columns
    x, w = x.to("cuda", dtype), w.to("cuda", dtype)
    y = ops.linear(x, w, activation=activation, rung="k02")
    approximate = "tanh" if activation == "gelu_tanh" else "none"
    expected = torch.nn.functional.gelu(x[:, :1].double(), approximate=approximate).to(dtype)
    for column in (0, 1):
        torch.testing.assert_close(y[:, column], expected[:, 0], rtol=1.6e-2, atol=1e-6, equal_nan=True)


@pytest.mark.gpu
def test_a_nan_stays_where_it_is():
    """gelu_tanh divides for two neighbours at once."""
    x, w = torch.ones(64, 8), torch.ones(64, 8)
    w[torch.arange(0, 64, 3)] = float("nan")
    y = ops.linear(x.to("cuda", torch.bfloat16), w.to("cuda", torch.bfloat16), activation="gelu_tanh", rung="k02")
    assert y.isnan()[:, ::3].all()
    assert y.isnan().sum() == 64 * len(range(0, 64, 3))


@pytest.mark.gpu
@pytest.mark.parametrize("extras", ["", "residual", "keep"])
def test_many_waves_of_tiles(extras):
    """The addend is loaded while tensor cores and copies are busy: the results are bit for bit the same in each call,
    and equal those of k12."""
    x, w = (torch.randn(8192, 1024, device="cuda").bfloat16() for _ in range(2))
    residual = torch.randn(8192, 8192, device="cuda").bfloat16() if extras == "residual" else None
    expected = ops.matmul(x, w.t(), rung="k12") if residual is None else None
    first = ops.linear(x, w, None, None, residual, None, extras == "keep", rung="k02")
    for _ in range(5):
        again = ops.linear(x, w, None, None, residual, None, extras == "keep", rung="k02")
        pairs = zip(first, again, strict=True) if extras == "keep" else ((first, again),)
        assert all(torch.equal(left, right) for left, right in pairs)
        if expected is not None:
            assert torch.equal(again[0] if extras == "keep" else again, expected)
    if residual is not None:
        torch.testing.assert_close(first.float(), x.float() @ w.float().t() + residual, rtol=2**-8, atol=1e-2)

"""The model of the time of a matrix product, its choice of a kernel, and the fit of its coefficients."""

from __future__ import annotations

import json
import math
import random
from dataclasses import asdict, replace

import pytest
import torch
from benchmarks import fit_model
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampled import examples
from torch.utils._python_dispatch import TorchDispatchMode

from warpwise import operation, tuned
from warpwise.gemm.config import GemmConfig
from warpwise.gemm.model import Prediction
from warpwise.gemm.operands import describe
from warpwise.gemm.time_model import Coefficients, Product, alignment
from warpwise.operation import Choice, Device, assume_sm_count, by_gpu_time
from warpwise.tuned import TORCH, Table, TunedPoint

H200 = Device("NVIDIA H200", "sm_90", 132)
OP = operation.get("matmul")
MODEL = OP.tables.model
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.int8]
KINDS = [layout + aligned for layout in ("nn", "nt", "tn", "tt") for aligned in ("", " unaligned")]
FEW = settings(max_examples=examples(30), deadline=None)
SIZE = st.integers(0, 13).flatmap(lambda power: st.integers(2**power, 2 ** (power + 1)))  # log-uniform, up to 16384


def operands(m: int, n: int, k: int, dtype: torch.dtype, layouts: str = "nn") -> tuple[torch.Tensor, torch.Tensor]:
    """Meta tensors a (m, k) and b (k, n)."""
    shapes = ((m, k), (k, n))
    return tuple(
        torch.empty(shape, dtype=dtype, device="meta")
        if layout == "n"
        else torch.empty(shape[::-1], dtype=dtype, device="meta").t()
        for shape, layout in zip(shapes, layouts, strict=True)
    )


def predictions(a: torch.Tensor, b: torch.Tensor, device: Device = H200) -> dict[str, Prediction]:
    with assume_sm_count(device.multiprocessors):
        return {each.name: each for each in MODEL.predictions(OP, (a, b), *describe(a, b), device, False)}


def choice(a: torch.Tensor, b: torch.Tensor, near: Choice | None = None, device: Device = H200) -> Choice | None:
    with assume_sm_count(device.multiprocessors):
        return MODEL.choice(OP, (a, b), *describe(a, b), device, False, near)


def near(
    winner: str, seconds: float, rival: str = "", rival_seconds: float | None = None, error: float = 0.0
) -> Choice:
    """The choice of a table's point, with GPU times in seconds."""
    rung, _, config = winner.partition("@") if winner != TORCH else ("", "", "")
    return Choice(rung or None, config, "measured", "table", seconds, rival, rival_seconds, error)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_and_layout_has_predictions(dtype, kind):
    unaligned = "unaligned" in kind
    for sizes in ((16, 32, 48), (2048, 4096, 1024)):
        a, b = operands(*(size - unaligned for size in sizes), dtype, kind[:2])
        assert describe(a, b)[0] == kind
        found = predictions(a, b)
        assert len(found) > 1 and next(iter(found)) == TORCH
        for name, each in found.items():
            assert 0 < each.gpu < 1 and 0 < each.error < 1 and each.host > 0, each
            assert each.gpu <= each.seconds <= each.cautious(0.0) <= each.cautious(0.5), each
            rung, _, config = name.partition("@")
            assert name == TORCH or (rung in MODEL.families and (not config or GemmConfig.parse(config))), name


@pytest.mark.parametrize("kind,sizes,copied", [
    ("nt", (64, 512, 256), 0), ("nn", (64, 512, 256), 512 * 256), ("tt", (64, 512, 256), 64 * 256),
    ("nt", (31, 512, 256), 31 * 256), ("nt", (64, 520, 256), 520 * 256), ("nt unaligned", (64, 512, 250), 576 * 250),
])  # fmt: skip
def test_pytorch_copies_int8_operands_that_cublas_does_not_take(kind, sizes, copied):
    """As ``eager`` of matmul does, by its operators on a GPU: pad, and the copy of a row-major B."""
    for dtype in DTYPES:
        product = Product.of(kind, dict(zip("mnk", sizes, strict=True)), dtype, 132)
        assert MODEL.copied(product, kind) == (copied if dtype == torch.int8 else 0)


@pytest.mark.parametrize("m,n,k,torch_us,ours_us", [
    (16384, 16384, 16384, 11252, 5664), (128, 4096, 14336, 376.7, 61.1), (2048, 6144, 4096, 266.8, 91.6),
    (4096, 14336, 4096, 879.3, 354.4), (4096, 4096, 14336, 830.4, 327.8),
])  # fmt: skip
def test_int8_at_sizes_that_the_fit_does_not_have(m, n, k, torch_us, ours_us):
    """A rung is chosen, within the error of what was measured on an H200 (results/h200/matmul_shapes.json)."""
    a, b = operands(m, n, k, torch.int8)
    chosen, found = choice(a, b), predictions(a, b)
    assert chosen.rung is not None
    times = {chosen.rung: ours_us, TORCH: torch_us}
    for name, each in found.items():
        if (rung := name.partition("@")[0]) in times and name in (TORCH, chosen.name):
            assert abs(math.log(1e6 * each.gpu / times[rung])) < each.error


def test_float16_takes_the_times_of_bfloat16():
    half, bfloat = (predictions(*operands(300, 500, 700, dtype)) for dtype in (torch.float16, torch.bfloat16))
    assert half == bfloat


def test_a_dtype_without_coefficients_has_no_predictions():
    assert not predictions(*operands(64, 64, 64, torch.float64))
    assert choice(*operands(64, 64, 64, torch.float64)) is None


@FEW
@given(sizes=st.tuples(SIZE, SIZE, SIZE), kind=st.sampled_from(KINDS), dtype=st.sampled_from(DTYPES))
def test_doubled_sizes_are_never_faster(sizes, kind, dtype):
    """With the same configuration and the same alignment."""
    words = (4, 4) if "unaligned" in kind else (16, 16)
    fitted = fitted_coefficients(dtype)
    out_size = 4 if dtype == torch.int8 else dtype.itemsize
    small = Product(*sizes, dtype.itemsize, out_size, words)
    with assume_sm_count(H200.multiprocessors):
        configs = {
            rung.name: (rung.configs(*operands(*sizes, dtype, kind[:2])) or ("",))[:3]
            for rung in OP.rungs
            if rung.name in fitted and (rung.dtypes is None or dtype in rung.dtypes)
        }
    for names in (("m",), ("n",), ("k",), ("m", "n", "k")):
        large = small._replace(**{name: 2 * getattr(small, name) for name in names})
        pytorch = [
            MODEL.pytorch_microseconds(product, kind, fitted[TORCH], dtype == torch.float32)
            for product in (small, large)
        ]
        assert 0 < pytorch[0] <= pytorch[1] * (1 + 1e-9), names
        for rung, some in configs.items():
            for config in some:
                times = [
                    MODEL.families[rung].microseconds(product, config, kind, fitted[rung]) for product in (small, large)
                ]
                assert 0 < times[0] <= times[1] * (1 + 1e-9), (rung, config, names)


def fitted_coefficients(dtype: torch.dtype) -> dict[str, Coefficients]:
    """Those of the shipped file, by rung."""
    known = json.loads((MODEL.folder / H200.file).read_text())["coefficients"]
    name = str(dtype).removeprefix("torch.")
    found = known.get(name) or known[MODEL.dtype_fallback[name]]
    return {key: Coefficients(**values) for key, values in found.items()}


@FEW
@given(sizes=st.tuples(SIZE, SIZE, SIZE), kind=st.sampled_from(KINDS), dtype=st.sampled_from(DTYPES))
def test_no_rung_is_chosen_whose_cautious_time_is_above_pytorchs(sizes, kind, dtype):
    a, b = operands(*sizes, dtype, kind[:2])
    found, times = choice(a, b), predictions(a, b)
    assert found is not None and found.source == "model of NVIDIA H200"
    pytorch = times[TORCH]
    if found.name is None:
        assert found.seconds == pytorch.seconds
        return
    assert times[found.name].cautious(pytorch.error) < pytorch.seconds
    assert (found.rival, found.seconds, found.rival_seconds) == (TORCH, times[found.name].seconds, pytorch.seconds)


def test_an_unknown_gpu_has_no_predictions_and_pytorch_computes(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPWISE_CACHE", str(tmp_path))
    unknown = Device("A GPU", "sm_99", 7)
    a, b = operands(1024, 1024, 1024, torch.float32)
    assert not predictions(a, b, unknown) and choice(a, b, device=unknown) is None
    point = TunedPoint("float32", "nn", dict.fromkeys("mnk", 64), "k10_async_copies", 1e-5, TORCH, 2e-5, 2 * 64**3)
    Table("matmul", unknown, (point,)).save(OP.tables.user_file(unknown))
    far = operation.chosen(OP, a, b, device=unknown)
    assert (far.name, far.source) == (None, "tables")
    assert operation.chosen(OP, *operands(64, 64, 64, torch.float32), device=unknown).rung == "k10_async_copies"
    tuned.reload()


def test_a_gpu_of_the_same_target_and_sm_count_has_the_same_predictions():
    a, b = operands(1024, 1024, 1024, torch.bfloat16)
    assert predictions(a, b, Device("NVIDIA H100 80GB HBM3", "sm_90", 132)) == predictions(a, b)
    assert not predictions(a, b, Device("NVIDIA H100 PCIe", "sm_90", 114))


def test_measured_times_replace_predictions_at_their_own_sizes():
    a, b = operands(4096, 4096, 4096, torch.bfloat16)
    times = predictions(a, b)
    fastest, second = sorted((each for name, each in times.items() if name != TORCH), key=lambda each: each.gpu)[:2]
    slow, fast = 10 * times[TORCH].gpu, times[TORCH].gpu / 10
    exact = near(second.name, slow / 2, TORCH, slow)
    assert choice(a, b, exact) == exact, "at a point itself no other rung is chosen"
    exact = near(TORCH, fast, second.name, 2 * fast)
    assert choice(a, b, exact) == exact
    rung = fastest.name.partition("@")[0]
    for elsewhere in (
        near(TORCH, slow, error=0.1),
        *(near(name, fast, TORCH, slow, 0.1) for name in (fastest.name, rung, f"{rung}@64x8x64_s1")),
    ):
        assert choice(a, b, elsewhere) == choice(a, b), "times of other sizes, of rungs that the model knows"
    unknown = near("k10_async_copies", fast, TORCH, slow, 0.1)
    found = choice(*operands(4096, 4096, 4096, torch.float32), unknown)
    assert (found.name, found.seconds) == ("k10_async_copies", fast)


def test_a_measured_rung_without_a_family_may_be_chosen():
    a, b = operands(4096, 4096, 4096, torch.float32)
    assert "k10_async_copies" not in MODEL.families
    assert choice(a, b, near("k10_async_copies", 5e-4, TORCH, 1e-3)).name == "k10_async_copies"


def test_the_hosts_time_decides_where_the_gpu_takes_less():
    a, b = operands(60, 64, 64, torch.bfloat16, "tn")  # k16 copies a by operators of PyTorch, which are not replayed
    times = predictions(a, b)
    pytorch, ours = times[TORCH], choice(a, b)
    assert pytorch.gpu < pytorch.host and ours.name is not None
    assert (ours.seconds, ours.rival_seconds) == (times[ours.name].host, pytorch.host)
    cheap, dear = ours.name, max((name for name in times if name != TORCH), key=lambda name: times[name].host)
    assert times[dear].host > pytorch.host > times[cheap].host > 6e-6
    assert choice(a, b, near(TORCH, 5e-6, cheap, 6e-6)).name == cheap, "slower on the GPU, faster on the host"
    assert choice(a, b, near(dear, 5e-6, TORCH, 6e-6)).name is None, "faster on the GPU, slower on the host"


def synthetic(name: str, by: Coefficients, count: int, seed: int, dtype: str = "bfloat16") -> list[fit_model.Seen]:
    """Times of ``count`` random shapes that the model gives with the coefficients ``by``."""
    rng = random.Random(seed)
    shapes = [tuple((size, 16 * round(2 ** rng.uniform(1, 9))) for size in "mnk") for _ in range(count)]
    seen = [fit_model.Seen((number,), dtype, "nn", shape, name, 1.0) for number, shape in enumerate(shapes)]
    return [each._replace(microseconds=fit_model.predicted(MODEL, each, by, 132)) for each in seen]


@pytest.mark.parametrize("name", [TORCH, "k12_overlapped_epilogue@128x256x64_s4_c2x1"])
def test_a_fit_to_times_of_known_coefficients_recovers_them(name):
    rate = fit_model.RATES["bfloat16"] * fit_model.MHZ
    known = replace(Coefficients(), rate=0.4 * rate, start=7.0, dram=1.5e6)
    by = fit_model.fitted(MODEL, synthetic(name, known, 24, 0), 132)
    assert by.rate == pytest.approx(known.rate, rel=0.15)
    assert by.start == pytest.approx(known.start, rel=0.15)
    unseen = synthetic(name, known, 24, 1)
    errors = [math.log(fit_model.predicted(MODEL, each, by, 132) / each.microseconds) for each in unseen]
    assert max(map(abs, errors)) < 0.1


def test_the_start_after_a_flush_of_l2_is_a_coefficient_of_the_fit_alone():
    """Half of the shapes have operands in DRAM: their times are longer by 4 µs, which no other coefficient takes up."""
    known = replace(Coefficients(), rate=0.4 * fit_model.RATES["bfloat16"] * fit_model.MHZ, start=3.0)
    seen = synthetic(TORCH, known, 40, 0)
    mixed = [each._replace(microseconds=each.microseconds + 4, cold=True) for each in seen[::2]] + seen[1::2]
    by = fit_model.fitted(MODEL, mixed, 132)
    assert by.cold == pytest.approx(4, rel=0.2) and by.start == pytest.approx(known.start, rel=0.2) and by.line >= 1
    assert fit_model.predicted(MODEL, mixed[0], by, 132) == pytest.approx(mixed[0].microseconds, rel=0.1)


def test_cublas_is_slower_if_lines_of_c_alone_are_unaligned():
    """nt, 322 x 3219 x 15476 in TF32: 374 µs on an H200, 322 x 3216 x 15476 less than half."""
    assert alignment("nt", {"m": 322, "n": 3219, "k": 15476}, torch.float32, aligned_c=True) == "unaligned"
    assert not alignment("nt", {"m": 322, "n": 3219, "k": 15476}, torch.float32)
    op = operation.get("matmul_tf32")

    def pytorch(n: int) -> float:
        a, b = operands(322, n, 15476, torch.float32, "nt")
        with assume_sm_count(132):
            return op.tables.model.predictions(op, (a, b), *describe(a, b), H200, False)[0].gpu

    assert pytorch(3219) > 1.5 * pytorch(3216)


@pytest.mark.parametrize("rows", [1, 4, 15])
def test_pytorch_computes_few_rows_in_float32_where_none_were_measured(rows):
    """4 x 4096 x 4096 with a bias takes PyTorch 29 µs on an H200, k03 55 µs; the tiles of the model give 76 and 26."""
    linear = operation.get("linear")
    a, b = operands(rows, 4096, 4096, torch.float32, "nt")
    args = a, b.t(), torch.empty(4096, device="meta"), None, None, None, False
    chosen = operation.chosen(linear, *args, device=H200)
    assert chosen.rung is None and chosen.seconds < 35e-6, chosen
    tiny = torch.empty(rows, 128, device="meta"), torch.empty(10, 128, device="meta")
    chosen = operation.chosen(linear, *tiny, torch.empty(10, device="meta"), None, None, None, False, device=H200)
    assert chosen.rung == "k03_cluster_split_k", "the host's time decides"


def test_the_error_of_a_fit_is_that_of_shapes_left_out():
    name = "k12_overlapped_epilogue@128x128x64_s4_c1x1"
    seen = synthetic(name, Coefficients(rate=0.6 * fit_model.RATES["bfloat16"] * fit_model.MHZ), 18, 2)
    rng = random.Random(3)
    noisy = [each._replace(microseconds=each.microseconds * math.exp(rng.gauss(0, 0.2))) for each in seen]
    clean, rough = (fit_model.cross_validated(MODEL, times, 132) for times in (seen, noisy))
    assert len(clean) == len(rough) == 18
    assert max(map(fit_model.error, clean)) < 0.1 < max(map(fit_model.error, rough))
    cases = [(seen[0]._replace(microseconds=time), predicted) for time, predicted in [(5, 5.5)] * 8 + [(30, 20)] * 8]
    by = fit_model.with_errors(Coefficients(), [*cases, (seen[0]._replace(microseconds=100), 90)])
    shown = [by.error_at(microseconds) for microseconds in (6.0, 12.0, 30.0, 200.0)]
    assert shown == pytest.approx([0.0953, 0.0953, 0.405, 0.405], abs=1e-3)


def test_names_with_few_shapes_are_not_fitted():
    many = synthetic(TORCH, Coefficients(), fit_model.LEAST, 0)
    few = synthetic("k12_overlapped_epilogue@128x128x64_s4_c1x1", Coefficients(), fit_model.LEAST - 1, 0)
    other = synthetic(TORCH, Coefficients(), fit_model.LEAST, 0)
    strange = [each._replace(name="k03_naive") for each in other]
    assert set(fit_model.groups(MODEL, [*many, *few, *strange])) == {("bfloat16", TORCH)}


@pytest.mark.parametrize("name", ["matmul_tf32", "batched_matmul", "linear", "addmm"])
def test_the_shipped_host_times_are_those_of_the_recorded_calls(name):
    shipped = json.loads((operation.get(name).tables.model.folder / "nvidia_h200.json").read_text())["host"]
    found = asdict(fit_model.host(fit_model.RESULTS / "dispatch.json", name, "fastest" in shipped))
    assert found == shipped


def test_what_is_chosen_near_a_point_takes_the_arguments():
    """The rival of a point may be chosen for the host's time, and its configuration may not fit sizes nearby."""
    drawn, (table,) = random.Random(0), OP.tables.tables(H200)
    shapes = [((856, 2560, 848), torch.bfloat16, "nn")]
    for point in table.points[::3]:
        sizes = tuple(max(8, round(point.sizes[name] * 2 ** drawn.uniform(-0.25, 0.25) / 8) * 8) for name in "mnk")
        shapes.append((sizes, getattr(torch, point.dtype), point.kind[:2]))
    for sizes, dtype, layouts in shapes:
        a, b = operands(*sizes, dtype, layouts)
        chosen = operation.chosen(OP, a, b, device=H200)
        with assume_sm_count(H200.multiprocessors):
            assert chosen.name is None or OP.unsupported(OP.rung(chosen.name), a, b) is None, (sizes, chosen)


def test_a_captured_step_is_chosen_by_the_time_on_the_gpu():
    """The hidden layer of a network takes 16.1 µs in a graph on an H200, PyTorch's 29.2."""
    linear = operation.get("linear")

    def chosen(m: int, n: int, k: int) -> str | None:
        args = *(torch.empty(shape, device="meta") for shape in ((m, k), (n, k), (n,))), "relu", None, None, False
        return operation.chosen(linear, *args, device=H200).rung

    assert chosen(300, 128, 3136) is None, "the error of PyTorch's prediction is large"
    with by_gpu_time():
        assert chosen(300, 128, 3136) == "k03_cluster_split_k"
        assert chosen(4096, 4096, 4096) is not None, "measured at these sizes"
    assert chosen(300, 128, 3136) is None


class Copies(TorchDispatchMode):
    """Notes whether an operator of torch copies a tensor."""

    seen = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen |= func in (torch.ops.aten.clone.default, torch.ops.aten.copy_.default)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("lines", [(64, 64), (64, 68), (68, 64), (68, 68), (63, 64), (64, 63)], ids=str)
@pytest.mark.parametrize("layouts", ["nn", "nt", "tn", "tt"])
def test_a_rung_that_copies_by_torch_is_not_predicted_as_replayed(layouts, lines):
    """Its Python code runs at each call, which takes the host longer than a small GEMM takes PyTorch."""
    op = operation.get("matmul")
    (m, k), n = lines, 72

    def operand(rows, columns, layout):
        tensor = torch.empty((rows, columns) if layout == "n" else (columns, rows), dtype=torch.bfloat16, device="meta")
        return tensor if layout == "n" else tensor.t()

    args = operand(m, k, layouts[0]), operand(k, n, layouts[1])
    kind, _ = describe(*args)
    copying = []
    for name, family in op.tables.model.families.items():
        rung = op.rung(name)
        if op.unsupported(rung, *args) is None:
            for config in rung.configs(*args) or ("",):
                with Copies() as copies:
                    op.kernels(op.rung(f"{name}@{config}" if config else name), *args)
                if copies.seen:
                    copying.append(name)
                    assert not family.replayed(config, kind), f"{name}@{config} copies an operand of {kind}"
    if kind == "tn unaligned" and k % 8 == 0:
        assert "k12_overlapped_epilogue" in copying

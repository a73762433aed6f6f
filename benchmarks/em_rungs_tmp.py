import sys, os, json, itertools, statistics, pathlib, time
import torch
sys.path.insert(0, "benchmarks")
import clustering_ratios as cr
from warpwise import cuda, operation, ops
from warpwise.apps.clustering import grid
from warpwise.ops.potts_em_step import rungs

OUT = pathlib.Path(sys.argv[1])
MODE = sys.argv[2]
START = time.time()
BUDGET = float(sys.argv[3])
base_tile = rungs.fragment_tile_of
source = (rungs.HERE / "k06_in_fragments.cu").read_text()
kernels = {(0, 0, 0, 0): rungs.IN_FRAGMENTS}

def variant_kernel(key):
    flight, together, prefetch, reverse = key
    if key not in kernels:
        text = source
        if flight: text = text.replace("return tiles > 4 ? 2 : tiles > 2 ? 4 : 8;", f"return {flight};")
        if together: text = text.replace("together(int tiles) { return 1; }", f"together(int tiles) {{ return {together}; }}")
        if prefetch: text = text.replace("constexpr int kPrefetch = 0;", f"constexpr int kPrefetch = {prefetch};")
        if reverse: text = text.replace("kReverse = true", "kReverse = false")
        path = rungs.HERE / f"k06_variant_{flight}{together}{prefetch}{reverse}.cu"
        path.write_text(text)
        kernels[key] = cuda.load(path)
    return kernels[key]

class patched:
    def __init__(self, w=0, b=0, f=0, t=0, p=0, r=0, c=20):
        self.options = w, b, (f, t, p, r), c
    def __enter__(self):
        warps, blocks, key, cap = self.options
        rungs.MOST_OF_LANE = cap
        if warps: rungs.OWN_WARPS = rungs.SHARED_WARPS = warps
        def tile(domains, width):
            t = base_tile(domains, width)
            if t is None or not blocks: return t
            return t._replace(blocks=min(blocks, rungs.SHARED_OF_SM // (t.bytes + 1024)))
        rungs.fragment_tile_of = tile
        rungs.IN_FRAGMENTS = variant_kernel(key)
    def __exit__(self, *rest):
        rungs.fragment_tile_of = base_tile
        rungs.IN_FRAGMENTS = kernels[0, 0, 0, 0]
        rungs.MOST_OF_LANE, rungs.OWN_WARPS, rungs.SHARED_WARPS = 20, 4, 8

def call(args, rung, **options):
    q, X, linear = args[:3]
    def run():
        if rung != "k06":
            return ops.potts_em_step(*args, rung=rung)
        outputs = (torch.empty_like(args[3]), torch.empty_like(linear), q.new_empty(2, q.shape[1]), None)
        with patched(**options):
            rungs.in_fragments(outputs, *args)
        return outputs
    return run

def make(side, features, domains):
    gen = torch.Generator("cuda").manual_seed(0)
    centres = torch.randn(domains, features, device="cuda", generator=gen) * 2
    X = torch.randn(side * side, features, device="cuda", generator=gen)
    X += centres[torch.arange(side * side, device="cuda") * domains // (side * side)]
    graph = grid((side, side), device=torch.device("cuda")).by_colour[1]
    n, k = len(X), len(centres)
    q = torch.rand(n, 1, k, device="cuda", generator=gen).add_(0.1)
    q /= q.sum(2, keepdim=True)
    bounds = (0, *torch.tensor(graph.colour_counts).cumsum(0).tolist())
    linear, constant = centres[None].contiguous(), -centres.square().sum(1)[None] / 2
    args = (q, X, linear, constant, graph.rowptr, graph.columns, graph.weights_or_none, q.new_full((1,), 0.3),
            q.new_zeros(1, 1, k), None, bounds, 1.0, True, False)
    return X, centres, args

def check(side, features, domains, kw):
    X, centres, args = make(side, features, domains)
    found = []
    q0 = args[0].clone()
    spec = operation.get("potts_em_step").spec
    for rung, options in (("k02", {}), ("k04", {}), ("k06", kw)):
        args[0].copy_(q0)
        try:
            out = call(args, rung, **options)()
        except Exception as error:
            print("check", side, features, domains, rung, "refused", str(error)[:80]); found.append(None); continue
        found.append([args[0].clone(), *(o.clone() for o in out[:3])])
    args[0].copy_(q0)
    ref = None
    if side * side * domains < 3e7:
        r = spec.reference(*args)
        ref = [r[4], r[0], r[1], r[2]]
    for name, f in zip(("k02", "k04", "k06"), found):
        if f is None: continue
        truth = ref or [t.double() for t in found[0]]
        errs = [float((a.double() - b).norm() / b.norm()) for a, b in zip(f, truth)]
        print("check", side, features, domains, name, "vs", "float64" if ref else "k02", ["%.1e" % e for e in errs], flush=True)

def compile_one(job):
    file, name = job
    from warpwise.cuda.gpu import nvrtc
    t = time.time()
    c = nvrtc.compile(cuda.load(file), name, "sm_90")
    return name, c.registers, time.time() - t

def jobs_of(shapes):
    jobs = []
    for (side, features, domains), candidates in shapes:
        vec = next(v for v in (4, 2, 1) if domains % v == 0)
        for _, rung, options in candidates:
            if rung == "k06":
                with patched(**options):
                    t = rungs.fragment_tile_of(domains, features)
                    if t is None: continue
                    name = f"potts_em_step_in_fragments<{t.warps}, {t.blocks}, {t.tiles}, {t.steps}, {t.warps_n}, {vec}, false>"
                    jobs.append((str(rungs.IN_FRAGMENTS.file), name))
            elif rung == "k04":
                t = rungs.block_tile_of(domains, features)
                name = f"potts_em_step_tensor_scores<{t.warps}, {t.tiles}, {t.n}, {t.warps_n}, {vec}, false>"
                jobs.append((str(rungs.TENSOR_SCORES.file), name))
    return sorted(set(jobs))

def prepare(shapes):
    import multiprocessing
    with multiprocessing.get_context("spawn").Pool(14) as pool:
        for name, registers, seconds in pool.imap_unordered(compile_one, jobs_of(shapes)):
            print(f"  {name} registers {registers} {seconds:.1f} s")

rate = cr.copy_rate() if __name__ == "__main__" else 0
if __name__ == "__main__": print(torch.cuda.get_device_name(), f"copy {rate/1e12:.2f} TB/s", flush=True)
rows = []
def times(side, features, domains, candidates, flash=True):
    if time.time() - START > BUDGET: print("skipped", side, features, domains); return
    X, centres, args = make(side, features, domains)
    calls, names = [], []
    for name, rung, options in candidates:
        try:
            run = call(args, rung, **options); run(); torch.cuda.synchronize()
            calls.append(run); names.append(name)
        except Exception as error:
            print("  refused", name, str(error)[:100])
    if flash:
        name, k = cr.kmeans_iteration(X, centres)
        try:
            k(); torch.cuda.synchronize(); calls.append(k); names.append(name)
        except Exception as error: print("  flash", str(error)[:100])
    found = cr.medians(calls)
    bytes_ = operation.get("potts_em_step").spec.cost(*args).bytes
    floor = bytes_ / rate
    best = min(found[:len(found)-1] if flash else found)
    fl = found[-1] if flash else float("nan")
    row = {"n": side*side, "d": features, "k": domains, "floor_us": floor*1e6, **{n: t*1e6 for n, t in zip(names, found)}}
    rows.append(row)
    OUT.write_text(json.dumps({"device": torch.cuda.get_device_name(), "copy": rate, "rows": rows}, indent=1))
    print(f"N {side*side} D {features} K {domains}: floor {floor*1e6:.0f} | " + " ".join(f"{n} {t*1e6:.0f}" for n, t in zip(names, found)) + f" | best/floor {best/floor:.2f} best/flash {best/fl:.2f}", flush=True)


V = [("k04", "k04", {}), ("k06", "k06", {})]
def W(*texts):
    return [(text, "k06", {part[0]: int(part[1:]) for part in text.split()}) for text in texts]
K3 = [("k03", "k03", {})]
N = V[1:]
CHECKS = [((300, 16, 100), N), ((200, 100, 30), N)]
F = [("k04", "k04", {})]
SHAPES = [
    ((1000, 16, 100), W("b2 f8", "b2 f8 r1", "b2 f4", "w5 b2 f4", "w12 b1 c0 f4", "w8 b1 c0 f8", "w8 b2 c0 f2", "w16 b1 c0 f2")),
    ((1331, 30, 77), W("b2 f4", "b2 f4 r1", "b2 f8", "w12 b1 c0 f4", "w8 b1 c0 f8", "w8 b2 c0 f2")),
    ((1000, 128, 100), W("b1 f8", "b1 f8 r1")),
    ((2279, 2, 25), W("b5 f4 t2", "b5 f4 t2 r1", "b4 f4 t2", "b3 f8 t2", "w8 b2 f8 t2")),
    ((758, 15, 54), W("b3 f4 t2", "b3 f4 t2 r1", "b2 f8", "b2 f8 t2", "w8 b2 c0 f4", "w12 b1 c0 f4 t2")),
    ((1000, 16, 16), K3 + W("w8 b2 f8 t2", "w8 b2 f8 t2 r1", "b3 f8 t2")),
    ((1000, 50, 32), W("w8 b2 c0 f8", "b2 f8 t2", "b3 f8", "w8 b2 c0 f4", "w12 b1 c0 f8")),
    ((448, 5, 78), W("f2", "f2 r1", "b3 f4", "b2 f8", "w8 b2 c0 f2")),
    ((1000, 30, 40), W("b2 f8", "b2 f8 t2", "b3 f4", "w8 b2 c0 f4", "w8 b1 c0 f8")),
    ((600, 60, 25), W("b2 f8 t2", "b3 f8", "w8 b2 c0 f8")),
    ((300, 13, 49), W("b2 f8", "w8 b1 f8", "w8 b2 c0 f4")),
    ((240, 11, 10), K3 + W("w8 b2 t2", "w8 b1 t2")),
    ((232, 3, 41), W("w8 b2 f4", "w8 b1 f8 t2")),
    ((148, 4, 31), W("w8 b2", "w8 b1 f8 t2")),
    ((159, 68, 99), W("b1 f8")),
]
if __name__ == "__main__":
    prepare(CHECKS + SHAPES)
    print(f"prepared in {time.time() - START:.0f} s")
    for shape, _ in CHECKS: check(*shape, {})
    for shape, candidates in SHAPES: times(*shape, candidates)

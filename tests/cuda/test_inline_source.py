"""load_inline rewrites host code, without a compiler: launches, device names, names of instances."""

import pytest

from warpwise import cuda
from warpwise.cuda.inline import device, source
from warpwise.cuda.inline.device_names import on_cpu


@pytest.mark.parametrize(
    "launch, expected",
    [
        ("k<<<1, 2>>>(x);", "::warpwise_host::configure(__LINE__, 1, 2), k(x);"),
        (
            "a::k<T, (3 > 2)><<<g, b, 0, s>>>(x);",
            "::warpwise_host::configure(__LINE__, g, b, 0, s), a::k<T, (3 > 2)>(x);",
        ),
        (
            "if (n) k<<<{1, 2}, dim3(f<int>(3))>>>();",
            "if (n) ::warpwise_host::configure(__LINE__, {1, 2}, dim3(f<int>(3))), k();",
        ),
        ("else ::k<<<1, 2>>>();", "else ::warpwise_host::configure(__LINE__, 1, 2), ::k();"),
        (
            "(*p)<<<1, 2>>>(); t[i]<<<3, 4>>>();",
            "::warpwise_host::configure(__LINE__, 1, 2), (*p)(); ::warpwise_host::configure(__LINE__, 3, 4), t[i]();",
        ),
        ("k << <1, f(2) >> > (x);", "::warpwise_host::configure(__LINE__, 1, f(2) ), k (x);"),
        ("k<<<1, 2 >> > (x);", "::warpwise_host::configure(__LINE__, 1, 2 ), k (x);"),
        ("k<int> << <1, 2>>>(1 << 3 < 9);", "::warpwise_host::configure(__LINE__, 1, 2), k<int>(1 << 3 < 9);"),
    ],
)
def test_launches_become_calls(launch, expected):
    assert source.host_code(f"void f() {{ {launch} }}", "x.cu") == f"void f() {{ {expected} }}"


def test_an_unparsable_launch_raises_with_its_line():
    with pytest.raises(cuda.CompileError, match=r"x\.cu:2: cannot parse this launch"):
        source.host_code("void f() {\n k<<<1, 2>>(x); }", "x.cu")


@pytest.mark.parametrize(
    "written, meant",
    [
        ("x.is_cuda()", "x.is_cpu()"),
        ("x->is_cpu()", "x->is_cuda()"),
        ("x.type().is_cuda()", "x.is_cpu()"),
        ("x.device().type() == torch::kCUDA", "x.device().type() == torch::kCPU"),
        ('torch::Device("cuda:0")', 'torch::Device("cpu")'),
        ("c10::DeviceType::CUDA", "c10::DeviceType::CPU"),
        ("TORCH_LIBRARY_IMPL(ops, CUDA, m)", "TORCH_LIBRARY_IMPL(ops, CPU, m)"),
        ("TORCH_LIBRARY_IMPL(ops, CPU, m)", "TORCH_LIBRARY_IMPL(ops, CUDA, m)"),
        ("y = x.cuda();", "y = x.cpu();"),
        ('"is_cuda()" /* x.is_cuda() */', '"is_cuda()" /* x.is_cuda() */'),
        ("at::cuda::getCurrentCUDAStream()", "at::cuda::getCurrentCUDAStream()"),
    ],
)
def test_device_names_are_replaced_by_the_cpus(written, meant):
    assert on_cpu(written) == meant


@pytest.mark.parametrize(
    "shown, name",
    [
        ("warpwise_host::instance<&(void ns::k<float, 4, (Mode)1>(float const*, int))>", "ns::k<float, 4, (Mode)1>"),
        ("warpwise_host::instance<&(k(float const*, int))>", "k"),
        ("warpwise_host::instance<&k>", "k"),
        ("warpwise_host::instance<&(anonymous namespace)::k>", "k"),
        ("warpwise_host::instance<&(void (anonymous namespace)::k<c10::Half>(c10::Half*))>", "k<c10::Half>"),
        ("warpwise_host::instance<&(void k<A<int, long> >(A<int, long>))>", "k<A<int, long> >"),
    ],
)
def test_instance_names(monkeypatch, shown, name):
    monkeypatch.setattr(device.native, "type_name", lambda mangled: shown)
    assert device.instance_name.__wrapped__(b"") == name


@pytest.mark.parametrize(
    "symbol, name",
    [
        (b"_Z5mergePKiS2_Pii", "static_cast<void (*)(int const*, int const*, int*, int)>(merge)"),
        (b"_ZN1n5mergeEPKiS3_Pi", "static_cast<void (*)(int const*, int const*, int*)>(n::merge)"),
        (b"_ZN1nL5scaleEPiii", "static_cast<void (*)(int*, int, int)>(n::scale)"),
        (b"_Z5S2_S0R1AIA10_fLi2EES3_", "static_cast<void (*)(A<float [10], 2>&, A<float [10], 2>)>(S2_S0)"),
    ],
)
def test_the_overload_of_a_launch(symbol, name):
    """Repeated types (S2_) are numbered in the whole name of the instance, in which two names precede."""
    assert device.overload_name(b"N13warpwise_host8instanceIXadL" + symbol + b"EEEE") == name

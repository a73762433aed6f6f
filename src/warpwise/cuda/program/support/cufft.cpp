// cuFFT on a CPU; include/cufft.h declares it. Transforms are computed in double by the mixed-radix algorithm of J.
// Cooley and J. Tukey, "An algorithm for the machine calculation of complex Fourier series" (1965); a prime factor p of
// the length n takes O(n p).
#include <cufft.h>

#include <math.h>

#include <complex>
#include <memory>
#include <vector>

#include "device_access.h"

namespace {
using warpwise_host::device_range;
using warpwise_host::LibraryCall;
using Value = std::complex<double>;

// Elements of one operand: index (i0, i1, i2) of a batch is at ((i0 embed1 + i1) embed2 + i2) stride + batch distance.
struct Layout {
  size_t embed[3] = {1, 1, 1}, stride = 1, distance = 0;
  size_t at(const size_t i[3]) const { return ((i[0] * embed[1] + i[1]) * embed[2] + i[2]) * stride; }
};

struct Plan {
  cufftType type;
  size_t n[3] = {1, 1, 1}, batch;  // the first dimensions are 1 if the rank is less than 3
  bool basic;                      // no strides given: the real operand of an in-place transform is padded
  Layout in, out;
};

std::vector<std::unique_ptr<Plan>> plans;

Plan* plan_of(cufftHandle handle) {
  return handle < 1 || size_t(handle) > plans.size() ? nullptr : plans[handle - 1].get();
}

size_t smallest_factor(size_t n) {
  for (size_t p = 2; p * p <= n; p++)
    if (n % p == 0) return p;
  return n;
}

// to[k] = sum over j of from[j step] roots[j k (count / n) mod count]; `roots` holds the powers of exp(sign 2 pi i /
// count). `scratch` holds n values.
void transform(const Value* from, size_t step, Value* to, size_t n, const std::vector<Value>& roots, Value* scratch) {
  if (n == 1) {
    *to = *from;
    return;
  }
  const size_t p = smallest_factor(n), m = n / p, count = roots.size(), turn = count / n;
  for (size_t r = 0; r < p; r++) transform(from + r * step, step * p, to + r * m, m, roots, scratch);
  for (size_t k = 0; k < n; k++) {
    Value sum = to[k % m];
    for (size_t r = 1; r < p; r++) sum += to[r * m + k % m] * roots[r * k % n * turn];
    scratch[k] = sum;
  }
  for (size_t k = 0; k < n; k++) to[k] = scratch[k];
}

// Transforms `data`, of n[0] x n[1] x n[2] values, along each dimension.
void transform_all(std::vector<Value>& data, const size_t n[3], int sign) {
  const size_t strides[3] = {n[1] * n[2], n[2], 1};
  for (int dimension = 0; dimension < 3; dimension++) {
    const size_t length = n[dimension], stride = strides[dimension];
    if (length == 1) continue;
    std::vector<Value> roots(length), row(length), scratch(length);
    for (size_t i = 0; i < length; i++) roots[i] = std::polar(1.0, sign * 2 * M_PI * double(i) / double(length));
    for (size_t line = 0; line < data.size() / length; line++) {
      Value* first = data.data() + line / stride * stride * length + line % stride;
      transform(first, stride, row.data(), length, roots, scratch.data());
      for (size_t i = 0; i < length; i++) first[i * stride] = row[i];
    }
  }
}

template <class F>
void for_each_index(const size_t n[3], size_t last, F body) {
  size_t i[3];
  for (i[0] = 0; i[0] < n[0]; i[0]++)
    for (i[1] = 0; i[1] < n[1]; i[1]++)
      for (i[2] = 0; i[2] < last; i[2]++) body(i);
}

// Bytes from the first element of an operand to the end of its last one.
size_t bytes_of(const Layout& layout, const size_t n[3], size_t last, size_t batch, size_t size) {
  const size_t end[3] = {n[0] - 1, n[1] - 1, last - 1};
  return (layout.at(end) + (batch - 1) * layout.distance + 1) * size;
}

// T is float or double; kReal and kRealOut state which operand is real. A real operand's complex counterpart holds the
// first n / 2 + 1 values of the last dimension.
template <class T, bool kRealIn, bool kRealOut>
cufftResult execute(const char* function, cufftHandle handle, cufftType type, const T* in, T* out, int sign) {
  const Plan* plan = plan_of(handle);
  if (!plan || plan->type != type) return CUFFT_INVALID_PLAN;
  if (warpwise_host::refused(function)) return CUFFT_EXEC_FAILED;
  Layout from = plan->in, to = plan->out;
  const size_t *n = plan->n, half = n[2] / 2 + 1;
  if (plan->basic && (kRealIn || kRealOut) && in == out) {
    Layout& real = kRealIn ? from : to;
    real.embed[2] = 2 * half;
    real.distance = n[0] * n[1] * 2 * half;
  }
  const size_t last_in = kRealOut ? half : n[2], last_out = kRealIn ? half : n[2];
  const size_t in_size = sizeof(T) * (kRealIn ? 1 : 2), out_size = sizeof(T) * (kRealOut ? 1 : 2);
  const size_t out_bytes = bytes_of(to, n, last_out, plan->batch, out_size);
  if (!device_range(function, in, bytes_of(from, n, last_in, plan->batch, in_size)) ||
      !device_range(function, out, out_bytes))
    return CUFFT_EXEC_FAILED;
  const LibraryCall access;
  std::vector<Value> data(n[0] * n[1] * n[2]);
  for (size_t batch = 0; batch < plan->batch; batch++) {
    const T* source = in + batch * from.distance * (kRealIn ? 1 : 2);
    T* target = out + batch * to.distance * (kRealOut ? 1 : 2);
    for_each_index(n, n[2], [&](const size_t i[3]) {
      Value& value = data[(i[0] * n[1] + i[1]) * n[2] + i[2]];
      if (kRealIn) {
        value = source[from.at(i)];
      } else if (!kRealOut || i[2] < half) {
        value = {source[2 * from.at(i)], source[2 * from.at(i) + 1]};
      } else {  // x[-i] = conj(x[i])
        const size_t mirrored[3] = {(n[0] - i[0]) % n[0], (n[1] - i[1]) % n[1], n[2] - i[2]};
        value = {source[2 * from.at(mirrored)], -source[2 * from.at(mirrored) + 1]};
      }
    });
    transform_all(data, n, sign);
    for_each_index(n, last_out, [&](const size_t i[3]) {
      const Value value = data[(i[0] * n[1] + i[1]) * n[2] + i[2]];
      if (kRealOut) {
        target[to.at(i)] = T(value.real());
      } else {
        target[2 * to.at(i)] = T(value.real());
        target[2 * to.at(i) + 1] = T(value.imag());
      }
    });
  }
  warpwise_host::written(out, out_bytes);
  ww_program_launched();
  return CUFFT_SUCCESS;
}

Layout layout_of(const size_t n[3], size_t last, int rank, const int* embed, int stride, int distance) {
  Layout made;
  for (int i = 0; i < 3; i++) made.embed[i] = i == 2 ? last : n[i];
  made.distance = n[0] * n[1] * last;
  if (!embed) return made;
  for (int i = 0; i < rank; i++) made.embed[3 - rank + i] = size_t(embed[i]);
  made.stride = size_t(stride);
  made.distance = size_t(distance);
  return made;
}
}  // namespace

extern "C" {
cufftResult cufftCreate(cufftHandle* made) {
  plans.push_back(nullptr);
  *made = int(plans.size());
  return CUFFT_SUCCESS;
}
cufftResult cufftDestroy(cufftHandle handle) {
  if (handle < 1 || size_t(handle) > plans.size()) return CUFFT_INVALID_PLAN;
  plans[handle - 1].reset();
  return CUFFT_SUCCESS;
}
cufftResult cufftMakePlanMany(cufftHandle handle, int rank, int* n, int* inembed, int istride, int idist, int* onembed,
                              int ostride, int odist, cufftType type, int batch, size_t* work_bytes) {
  if (handle < 1 || size_t(handle) > plans.size()) return CUFFT_INVALID_PLAN;
  if (rank < 1 || rank > 3 || batch < 1) return CUFFT_INVALID_VALUE;
  auto plan = std::make_unique<Plan>();
  for (int i = 0; i < rank; i++) {
    if (n[i] < 1) return CUFFT_INVALID_SIZE;
    plan->n[3 - rank + i] = size_t(n[i]);
  }
  plan->type = type;
  plan->batch = size_t(batch);
  plan->basic = !inembed || !onembed;
  const size_t full = plan->n[2], half = full / 2 + 1;
  const bool to_real = type == CUFFT_C2R || type == CUFFT_Z2D, from_real = type == CUFFT_R2C || type == CUFFT_D2Z;
  plan->in = layout_of(plan->n, to_real ? half : full, rank, plan->basic ? nullptr : inembed, istride, idist);
  plan->out = layout_of(plan->n, from_real ? half : full, rank, plan->basic ? nullptr : onembed, ostride, odist);
  if (work_bytes) *work_bytes = 0;
  plans[handle - 1] = std::move(plan);
  return CUFFT_SUCCESS;
}
cufftResult cufftMakePlan1d(cufftHandle handle, int n, cufftType type, int batch, size_t* work) {
  return cufftMakePlanMany(handle, 1, &n, nullptr, 1, 0, nullptr, 1, 0, type, batch, work);
}
cufftResult cufftMakePlan2d(cufftHandle handle, int n0, int n1, cufftType type, size_t* work) {
  int n[2] = {n0, n1};
  return cufftMakePlanMany(handle, 2, n, nullptr, 1, 0, nullptr, 1, 0, type, 1, work);
}
cufftResult cufftMakePlan3d(cufftHandle handle, int n0, int n1, int n2, cufftType type, size_t* work) {
  int n[3] = {n0, n1, n2};
  return cufftMakePlanMany(handle, 3, n, nullptr, 1, 0, nullptr, 1, 0, type, 1, work);
}
cufftResult cufftPlanMany(cufftHandle* made, int rank, int* n, int* inembed, int istride, int idist, int* onembed,
                          int ostride, int odist, cufftType type, int batch) {
  cufftCreate(made);
  return cufftMakePlanMany(*made, rank, n, inembed, istride, idist, onembed, ostride, odist, type, batch, nullptr);
}
cufftResult cufftPlan1d(cufftHandle* made, int n, cufftType type, int batch) {
  cufftCreate(made);
  return cufftMakePlan1d(*made, n, type, batch, nullptr);
}
cufftResult cufftPlan2d(cufftHandle* made, int n0, int n1, cufftType type) {
  cufftCreate(made);
  return cufftMakePlan2d(*made, n0, n1, type, nullptr);
}
cufftResult cufftPlan3d(cufftHandle* made, int n0, int n1, int n2, cufftType type) {
  cufftCreate(made);
  return cufftMakePlan3d(*made, n0, n1, n2, type, nullptr);
}
cufftResult cufftExecC2C(cufftHandle plan, cufftComplex* in, cufftComplex* out, int direction) {
  return execute<float, false, false>("cufftExecC2C", plan, CUFFT_C2C, &in->x, &out->x, direction);
}
cufftResult cufftExecR2C(cufftHandle plan, cufftReal* in, cufftComplex* out) {
  return execute<float, true, false>("cufftExecR2C", plan, CUFFT_R2C, in, &out->x, CUFFT_FORWARD);
}
cufftResult cufftExecC2R(cufftHandle plan, cufftComplex* in, cufftReal* out) {
  return execute<float, false, true>("cufftExecC2R", plan, CUFFT_C2R, &in->x, out, CUFFT_INVERSE);
}
cufftResult cufftExecZ2Z(cufftHandle plan, cufftDoubleComplex* in, cufftDoubleComplex* out, int direction) {
  return execute<double, false, false>("cufftExecZ2Z", plan, CUFFT_Z2Z, &in->x, &out->x, direction);
}
cufftResult cufftExecD2Z(cufftHandle plan, cufftDoubleReal* in, cufftDoubleComplex* out) {
  return execute<double, true, false>("cufftExecD2Z", plan, CUFFT_D2Z, in, &out->x, CUFFT_FORWARD);
}
cufftResult cufftExecZ2D(cufftHandle plan, cufftDoubleComplex* in, cufftDoubleReal* out) {
  return execute<double, false, true>("cufftExecZ2D", plan, CUFFT_Z2D, &in->x, out, CUFFT_INVERSE);
}
}

// See numbers.h. The handler of a trap decodes the operands of the SSE instruction; with this check, kernels are
// compiled without AVX. It then masks the exception, because only the first of each kind is reported. An instruction
// that raises the exception for another reason, such as a comparison with NaN, is executed as a single step with
// exceptions masked.
#include "numbers.h"

#include <fenv.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

#include "callers.h"
#include "fibers.h"
#include "signals.h"

namespace ww {
namespace {

enum Special { kNan, kInfinity, kSubnormal, kNone };
constexpr int kTrapped = FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW;
bool looking = false;
bool found[kNone];

int exceptions_of(Special special) {
  return special == kNan ? FE_INVALID : special == kInfinity ? FE_DIVBYZERO | FE_OVERFLOW : FE_UNDERFLOW;
}

template <class T>
Special special(T x) {
  const int kind = fpclassify(x);
  return kind == FP_NAN ? kNan : kind == FP_INFINITE ? kInfinity : kind == FP_SUBNORMAL ? kSubnormal : kNone;
}

// The kind of `result`, or kNone if an operand explains it: a NaN explains a NaN, a NaN or an infinity explains an
// infinity, and a denormal number explains a denormal number.
template <class R, class T>
Special arising(R result, const T* operands, int count) {
  const Special kind = special(result);
  for (int i = 0; i < count; i++) {
    const Special given = special(operands[i]);
    if (kind == kNan ? given == kNan : kind == kInfinity ? given == kNan || given == kInfinity : given == kSubnormal)
      return kNone;
  }
  return kind;
}

void report_number(Special kind, const char* expression, double result, Address pc, int line = 0) {
  static const char* const names[] = {"a NaN", "an infinity", "a denormal number"};
  found[kind] = true;
  Report report = new_report(kSpecialValue, pc, line);
  set_message(report, "%s arises: %s = %.9g", names[kind], expression, kind == kNan ? fabs(result) : result);
  add_report(report);
}

#if defined(__x86_64__)

constexpr unsigned kMaskShift = 7;   // from an exception flag of MXCSR to its mask
constexpr greg_t kTrapFlag = 0x100;  // EFLAGS.TF
constexpr unsigned kMasks = 0x3f << kMaskShift;
unsigned masks_before_step;

struct Operands {  // of an SSE instruction: the bytes of its destination, before, and of its source
  unsigned char opcode, prefix;
  unsigned char to[16], from[16];
};

// Decodes sqrt, add, mul, sub, div and conversions between float and double, scalar or packed.
bool decode(const ucontext_t& context, Operands& operands) {
  static constexpr int kRegisters[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                       REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  const mcontext_t& machine = context.uc_mcontext;
  const auto* at = reinterpret_cast<const unsigned char*>(machine.gregs[REG_RIP]);
  operands.prefix = 0;
  unsigned rex = 0;
  for (; *at == 0x66 || *at == 0xf2 || *at == 0xf3; at++) operands.prefix = *at;
  if ((*at & 0xf0) == 0x40) rex = *at++;
  if (*at++ != 0x0f) return false;
  operands.opcode = *at++;
  if (!strchr("\x51\x58\x59\x5a\x5c\x5e", operands.opcode) || !operands.opcode) return false;
  const unsigned modrm = *at++, mode = modrm >> 6, low = modrm & 7;
  const auto& vectors = machine.fpregs->_xmm;
  memcpy(operands.to, &vectors[(modrm >> 3 & 7) | (rex & 4) << 1], 16);
  if (mode == 3) {
    memcpy(operands.from, &vectors[low | (rex & 1) << 3], 16);
    return true;
  }
  const auto value = [&](unsigned number) { return static_cast<Address>(machine.gregs[kRegisters[number]]); };
  const auto displacement = [&](int bytes) {
    int32_t wide = 0;
    int8_t narrow = 0;
    memcpy(bytes == 4 ? static_cast<void*>(&wide) : &narrow, at, static_cast<size_t>(bytes));
    at += bytes;
    return static_cast<Address>(static_cast<int64_t>(bytes == 4 ? wide : narrow));
  };
  Address address = 0;
  if (mode == 0 && low == 5) {
    address = displacement(4);
    address += reinterpret_cast<Address>(at);
  } else {
    bool has_base = true;
    if (low == 4) {
      const unsigned sib = *at++, index = (sib >> 3 & 7) | (rex & 2) << 2, base = sib & 7;
      if (index != 4) address += value(index) << (sib >> 6);
      has_base = mode != 0 || base != 5;
      if (has_base) address += value(base | (rex & 1) << 3);
      if (!has_base) address += displacement(4);
    } else {
      address += value(low | (rex & 1) << 3);
    }
    if (mode) address += displacement(mode == 1 ? 1 : 4);
  }
  const bool scalar = operands.prefix == 0xf2 || operands.prefix == 0xf3;
  memset(operands.from, 0, sizeof operands.from);
  memcpy(operands.from, reinterpret_cast<const void*>(address),
         !scalar                   ? 16
         : operands.prefix == 0xf2 ? sizeof(double)
                                   : sizeof(float));
  return true;
}

// The first lane whose result is a number to report.
template <class T>
bool describe_lane(const Operands& operands, int lanes, char (&text)[160], double& result, Special& kind) {
  for (int lane = 0; lane < lanes; lane++) {
    T given[2];
    memcpy(&given[0], operands.to + static_cast<size_t>(lane) * sizeof(T), sizeof(T));
    memcpy(&given[1], operands.from + static_cast<size_t>(lane) * sizeof(T), sizeof(T));
    const T a = given[0], b = given[1];
    const bool unary = operands.opcode == 0x51 || operands.opcode == 0x5a;
    if (operands.opcode == 0x5a && sizeof(T) == 8) {
      const float narrow = static_cast<float>(b);
      kind = arising(narrow, &b, 1);
      result = narrow;
      snprintf(text, sizeof text, "float(%.9g)", static_cast<double>(b));
    } else {
      const T c = operands.opcode == 0x51   ? static_cast<T>(sqrt(static_cast<double>(b)))
                  : operands.opcode == 0x58 ? a + b
                  : operands.opcode == 0x59 ? a * b
                  : operands.opcode == 0x5c ? a - b
                  : operands.opcode == 0x5e ? a / b
                                            : b;
      const char* symbol = operands.opcode == 0x58   ? "+"
                           : operands.opcode == 0x59 ? "*"
                           : operands.opcode == 0x5c ? "-"
                                                     : "/";
      kind = arising(c, unary ? given + 1 : given, unary ? 1 : 2);
      result = static_cast<double>(c);
      if (unary)
        snprintf(text, sizeof text, "sqrt(%.9g)", static_cast<double>(b));
      else
        snprintf(text, sizeof text, "%.9g %s %.9g", static_cast<double>(a), symbol, static_cast<double>(b));
    }
    if (kind != kNone && !found[kind]) return true;
  }
  return false;
}

#endif

}  // namespace

#if defined(__x86_64__)

bool trap_number(int signal, int code, void* given) {
  ucontext_t& context = *static_cast<ucontext_t*>(given);
  auto& registers = context.uc_mcontext.gregs;
  auto& mxcsr = context.uc_mcontext.fpregs->mxcsr;
  if (!looking) return false;
  if (signal == SIGTRAP) {
    registers[REG_EFL] &= ~kTrapFlag;
    mxcsr = (mxcsr & ~(kMasks | 0x3f)) | masks_before_step;
    return true;
  }
  if (code < FPE_FLTDIV || code > FPE_FLTSUB) return false;
  mxcsr &= ~0x3fu;
  Operands operands;
  char text[160];
  double result = 0;
  Special kind = kNone;
  const bool is_double = (decode(context, operands), operands.prefix == 0xf2 || operands.prefix == 0x66);
  const bool scalar = operands.prefix == 0xf2 || operands.prefix == 0xf3;
  const bool known =
      decode(context, operands) && (is_double ? describe_lane<double>(operands, scalar ? 1 : 2, text, result, kind)
                                              : describe_lane<float>(operands, scalar ? 1 : 4, text, result, kind));
  if (!known) {
    masks_before_step = mxcsr & kMasks;
    mxcsr |= kMasks;
    registers[REG_EFL] |= kTrapFlag;
    return true;
  }
  const Address pc = static_cast<Address>(registers[REG_RIP]);
  Address place = in_kernel_code(pc) ? pc + 1 : 0;
  if (!place && runtime.current) place = callers_here().places[0];
  report_number(kind, text, result, place);
  mxcsr |= static_cast<unsigned>(exceptions_of(kind)) << kMaskShift;
  return true;
}

NumberGuard::NumberGuard(bool on) : on_(on) {
  looking = on;
  for (bool& each : found) each = false;
  if (!on) return;
  feclearexcept(FE_ALL_EXCEPT);
  feenableexcept(kTrapped);
}

NumberGuard::~NumberGuard() {
  looking = false;
  if (!on_) return;
  fedisableexcept(FE_ALL_EXCEPT);
  feclearexcept(FE_ALL_EXCEPT);
}

#else

bool trap_number(int, int, void*) { return false; }
NumberGuard::NumberGuard(bool on) : on_(on) { looking = on; }
NumberGuard::~NumberGuard() { looking = false; }

#endif

namespace {

// Calls a function of the C library with exceptions masked, and checks its result.
template <class F, class T, class... More>
T checked(const char* name, Address pc, const F& function, T first, More... more) {
  if (!looking) return function(first, more...);
  fenv_t before;
  feholdexcept(&before);
  const T result = function(first, more...);
  const T operands[] = {first, static_cast<T>(more)...};
  constexpr size_t kCount = 1 + sizeof...(more);
  const Special kind = arising(result, operands, kCount);
  fesetenv(&before);
  if (kind == kNone || found[kind]) return result;
  char text[160];
  int length = snprintf(text, sizeof text, "%s(", name);
  for (size_t i = 0; i < kCount; i++)
    length += snprintf(text + length, sizeof text - static_cast<size_t>(length), i ? ", %.9g" : "%.9g",
                       static_cast<double>(operands[i]));
  snprintf(text + length, sizeof text - static_cast<size_t>(length), ")");
  report_number(kind, text, static_cast<double>(result), pc);
#if defined(__x86_64__)
  fedisableexcept(exceptions_of(kind));
#endif
  return result;
}

}  // namespace
}  // namespace ww

// A number that was rounded to 16 bits; `what` names the type.
extern "C" __attribute__((visibility("default"))) void ww_rounded_number(const char* what, float given, float result) {
  using namespace ww;
  if (!looking) return;
  const Special kind = isinf(result) ? kInfinity : kSubnormal;
  if (found[kind]) return;
  char text[160];
  snprintf(text, sizeof text, "%s(%.9g)", what, static_cast<double>(given));
  report_number(kind, text, static_cast<double>(result), reinterpret_cast<Address>(__builtin_return_address(0)));
}

// The linker redirects a kernel's calls of the C library to these functions (--wrap); toolchain.py lists the names.
#define WW_CALL(FUNCTION) [](auto... given) { return FUNCTION(given...); }
#define WW_ONE(NAME)                                                                           \
  double __wrap_##NAME(double x) { return ww::checked(#NAME, WW_CALLER, WW_CALL(::NAME), x); } \
  float __wrap_##NAME##f(float x) { return ww::checked(#NAME "f", WW_CALLER, WW_CALL(::NAME##f), x); }
#define WW_TWO(NAME)                                                                                        \
  double __wrap_##NAME(double x, double y) { return ww::checked(#NAME, WW_CALLER, WW_CALL(::NAME), x, y); } \
  float __wrap_##NAME##f(float x, float y) { return ww::checked(#NAME "f", WW_CALLER, WW_CALL(::NAME##f), x, y); }
#define WW_CALLER reinterpret_cast<ww::Address>(__builtin_return_address(0))
#pragma GCC visibility push(default)
extern "C" {
double __wrap_fma(double x, double y, double z) { return ww::checked("fma", WW_CALLER, WW_CALL(::fma), x, y, z); }
float __wrap_fmaf(float x, float y, float z) { return ww::checked("fmaf", WW_CALLER, WW_CALL(::fmaf), x, y, z); }
double __wrap_ldexp(double x, int n) { return ww::checked("ldexp", WW_CALLER, WW_CALL(::ldexp), x, n); }
float __wrap_ldexpf(float x, int n) { return ww::checked("ldexpf", WW_CALLER, WW_CALL(::ldexpf), x, n); }
// clang-format off
WW_ONE(acos) WW_ONE(acosh) WW_ONE(asin) WW_ONE(atanh) WW_ONE(cbrt) WW_ONE(cos) WW_ONE(cosh) WW_ONE(erfc) WW_ONE(exp)
WW_ONE(exp10) WW_ONE(exp2) WW_ONE(expm1) WW_ONE(lgamma) WW_ONE(log) WW_ONE(log10) WW_ONE(log1p) WW_ONE(log2)
WW_ONE(sin) WW_ONE(sinh) WW_ONE(sqrt) WW_ONE(tan) WW_ONE(tgamma) WW_TWO(fmod) WW_TWO(hypot) WW_TWO(pow)
WW_TWO(remainder)
// clang-format on
}
#pragma GCC visibility pop

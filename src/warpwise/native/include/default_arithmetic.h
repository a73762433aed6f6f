// DefaultArithmetic: sets the host's floating-point environment to a GPU's defaults (round to nearest, subnormals not
// flushed to zero). The destructor restores the previous environment.
#pragma once
#include <fenv.h>

namespace ww {

class DefaultArithmetic {
 public:
  DefaultArithmetic() {
    fegetenv(&before_);
    fesetenv(FE_DFL_ENV);
  }
  ~DefaultArithmetic() { fesetenv(&before_); }
  DefaultArithmetic(const DefaultArithmetic&) = delete;
  DefaultArithmetic& operator=(const DefaultArithmetic&) = delete;

 private:
  fenv_t before_;
};

}  // namespace ww

// The processor's arithmetic as a GPU's by default: to nearest, denormals kept, whatever the process has set.
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

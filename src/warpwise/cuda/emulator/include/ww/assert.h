// assert() and printf() of device code, as calls into the runtime.
#undef assert
#ifdef NDEBUG
#define assert(...) static_cast<void>(0)
#else
#define assert(...) \
  ((__VA_ARGS__) ? static_cast<void>(0) : ww_fail(WW_ASSERT, "assertion failed: " #__VA_ARGS__, WW_PLACE))
#endif
#undef printf
#define printf(...) ww_printf(__VA_ARGS__)

// The timers of the headers of NVIDIA's CUDA samples, in milliseconds of the host's clock.
#pragma once
#include <stdlib.h>
#include <time.h>

struct StopWatchInterface {
  double total = 0, started = 0;
  int runs = 0;
  bool running = false;

  static double now() {
    timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return 1e3 * double(at.tv_sec) + 1e-6 * double(at.tv_nsec);
  }
  void start() { started = now(), running = true; }
  void stop() {
    if (running) total += now() - started, runs++;
    running = false;
  }
  void reset() {
    total = runs = 0;
    if (running) started = now();
  }
  float getTime() const { return float(running ? total + now() - started : total); }
  float getAverageTime() const { return runs ? float(total / runs) : 0.0f; }
};
typedef StopWatchInterface StopWatchLinux;

inline bool sdkCreateTimer(StopWatchInterface** timer) {
  *timer = new StopWatchInterface;
  return true;
}
inline bool sdkDeleteTimer(StopWatchInterface** timer) {
  delete *timer;
  *timer = nullptr;
  return true;
}
inline bool sdkStartTimer(StopWatchInterface** timer) {
  (*timer)->start();
  return true;
}
inline bool sdkStopTimer(StopWatchInterface** timer) {
  (*timer)->stop();
  return true;
}
inline bool sdkResetTimer(StopWatchInterface** timer) {
  (*timer)->reset();
  return true;
}
inline float sdkGetTimerValue(StopWatchInterface** timer) { return (*timer)->getTime(); }
inline float sdkGetAverageTimerValue(StopWatchInterface** timer) { return (*timer)->getAverageTime(); }

// Command-line arguments as in the headers of NVIDIA's CUDA samples, for programs that expect these to be installed:
// -name, --name and -name=value, in upper or lower case.
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#ifndef EXIT_WAIVED
#define EXIT_WAIVED 2
#endif

namespace warpwise_host {
// The text after "name" and an optional "=" of the argument; nullptr if there is none.
inline const char* option(int count, const char** arguments, const char* name) {
  const size_t length = strlen(name);
  for (int i = 1; i < count; i++) {
    const char* at = arguments[i];
    while (*at == '-') at++;
    if (at == arguments[i] || strncasecmp(at, name, length)) continue;
    if (!at[length]) return at + length;
    if (at[length] == '=') return at + length + 1;
  }
  return nullptr;
}
}  // namespace warpwise_host

inline bool checkCmdLineFlag(const int count, const char** arguments, const char* name) {
  return warpwise_host::option(count, arguments, name) != nullptr;
}
inline int getCmdLineArgumentInt(const int count, const char** arguments, const char* name) {
  const char* text = warpwise_host::option(count, arguments, name);
  return text ? atoi(text) : 0;
}
inline float getCmdLineArgumentFloat(const int count, const char** arguments, const char* name) {
  const char* text = warpwise_host::option(count, arguments, name);
  return text ? float(atof(text)) : 0.0f;
}
inline bool getCmdLineArgumentString(const int count, const char** arguments, const char* name, char** value) {
  const char* text = warpwise_host::option(count, arguments, name);
  *value = const_cast<char*>(text);
  return text != nullptr;
}
// The file beside the program, or in a folder of data there.
inline char* sdkFindFilePath(const char* name, const char*) {
  static const char* const folders[] = {"./", "./data/", "../data/", "../../data/"};
  for (const char* folder : folders) {
    char path[4096];
    snprintf(path, sizeof path, "%s%s", folder, name);
    if (FILE* file = fopen(path, "rb")) {
      fclose(file);
      return strdup(path);
    }
  }
  return nullptr;
}

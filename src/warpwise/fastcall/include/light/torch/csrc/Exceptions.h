// What THPVariable_Check throws; this library does not call it.
#pragma once
#include <c10/util/Exception.h>

#include <exception>

struct python_error : std::exception {};

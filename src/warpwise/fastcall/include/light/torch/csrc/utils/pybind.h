// Conversions between Python's objects and PyTorch's, of which this library uses none.
#pragma once

// gpuAtomicAdd and its family are device code.
#pragma once

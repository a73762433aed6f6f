// The scopes of libcu++ for host code.
#pragma once

namespace cuda {
enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };
}  // namespace cuda

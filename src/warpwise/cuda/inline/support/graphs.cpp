// CUDA graphs, as include/cuda/graph_api.h declares them: lists of calls.
#include <cuda_runtime.h>

#include <functional>
#include <vector>

#include "memory.h"

struct CUgraphNode_st {
  std::function<void()> run;
};
struct CUgraph_st {
  std::vector<CUgraphNode_st*> nodes;  // never freed: a program may keep them
};
struct CUgraphExec_st {
  std::vector<CUgraphNode_st*> nodes;
};

namespace {
cudaGraph_t captured = nullptr;  // the graph that is captured

void add(cudaGraph_t graph, std::function<void()> run) { graph->nodes.push_back(new CUgraphNode_st{std::move(run)}); }
}  // namespace

namespace warpwise_host {
bool capture_launch(const ww_launch& launch, void (*run)(const ww_launch&)) {
  if (!captured) return false;
  std::vector<std::vector<char>> values;
  for (uint64_t i = 0; i < launch.count; i++) {
    const char* data = static_cast<const char*>(launch.arguments[i].data);
    values.emplace_back(data, data + launch.arguments[i].bytes);
  }
  const std::vector<ww_argument> arguments(launch.arguments, launch.arguments + launch.count);
  add(captured, [launch, arguments, values, run] {
    std::vector<ww_argument> own = arguments;
    for (size_t i = 0; i < own.size(); i++) own[i].data = values[i].data();
    ww_launch again = launch;
    again.arguments = own.data();
    run(again);
  });
  return true;
}
}  // namespace warpwise_host

extern "C" {
int ww_cuda_capturing() { return captured != nullptr; }
int ww_cuda_capture(void (*call)(void*), const void* data, size_t bytes) {
  if (!captured) return 0;
  const char* from = static_cast<const char*>(data);
  std::vector<char> copy(from, from + bytes);
  add(captured, [call, copy]() mutable { call(copy.data()); });
  return 1;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t, enum cudaStreamCaptureMode) {
  if (captured) return cudaErrorNotSupported;
  captured = new CUgraph_st;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  *graph = captured;
  captured = nullptr;
  return *graph ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t, enum cudaStreamCaptureStatus* status) {
  *status = captured ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned) {
  *graph = new CUgraph_st;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  for (size_t i = 0; nodes && i < *count && i < graph->nodes.size(); i++) nodes[i] = graph->nodes[i];
  *count = graph->nodes.size();
  return cudaSuccess;
}
cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t*, size_t,
                                   const cudaKernelNodeParams* kernel) {
  if (captured || kernel->extra) return cudaErrorNotSupported;
  captured = graph;
  const cudaError_t error =
      ww_cuda_launch(kernel->func, kernel->gridDim, kernel->blockDim, kernel->kernelParams, kernel->sharedMemBytes, 0);
  captured = nullptr;
  if (error != cudaSuccess) return error;
  *node = graph->nodes.back();
  return cudaSuccess;
}
cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t*, size_t,
                                       cudaGraph_t child) {
  const std::vector<cudaGraphNode_t> nodes = child->nodes;
  add(graph, [nodes] {
    for (const cudaGraphNode_t each : nodes) each->run();
  });
  *node = graph->nodes.back();
  return cudaSuccess;
}
cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t*, size_t,
                                   const cudaMemsetParams* memset_params) {
  const cudaMemsetParams p = *memset_params;
  add(graph, [p] {
    if (p.elementSize == 1) {
      cudaMemset2D(p.dst, p.height > 1 ? p.pitch : p.width, int(p.value), p.width, p.height);
      return;
    }
    std::vector<char> row(p.width * p.elementSize);
    for (size_t i = 0; i < p.width; i++) memcpy(&row[i * p.elementSize], &p.value, p.elementSize);
    for (size_t y = 0; y < p.height; y++)
      cudaMemcpy(static_cast<char*>(p.dst) + y * p.pitch, row.data(), row.size(), cudaMemcpyDefault);
  });
  *node = graph->nodes.back();
  return cudaSuccess;
}
cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t*, size_t,
                                   const cudaMemcpy3DParms* copy) {
  const cudaMemcpy3DParms p = *copy;
  add(graph, [p] { cudaMemcpy3D(&p); });
  *node = graph->nodes.back();
  return cudaSuccess;
}
cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t*, size_t, void* to,
                                     const void* from, size_t bytes, enum cudaMemcpyKind kind) {
  add(graph, [=] { cudaMemcpy(to, from, bytes, kind); });
  *node = graph->nodes.back();
  return cudaSuccess;
}
cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t*, size_t,
                                 const cudaHostNodeParams* host) {
  const cudaHostNodeParams p = *host;
  add(graph, [p] {
    warpwise_host::synchronized();
    p.fn(p.userData);
  });
  *node = graph->nodes.back();
  return cudaSuccess;
}
cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t*, size_t) {
  add(graph, [] {});
  *node = graph->nodes.back();
  return cudaSuccess;
}
cudaError_t cudaGraphClone(cudaGraph_t* made, cudaGraph_t graph) {
  *made = new CUgraph_st{graph->nodes};
  return cudaSuccess;
}
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t made, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* info) {
  made->nodes = graph->nodes;
  if (info) *info = {};
  return cudaSuccess;
}
cudaError_t ww_cuda_graph_instantiate(cudaGraphExec_t* made, cudaGraph_t graph) {
  *made = new CUgraphExec_st{graph->nodes};
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t) {
  if (!graph || captured) return graph ? cudaErrorNotSupported : cudaErrorInvalidValue;
  for (const cudaGraphNode_t node : graph->nodes) node->run();
  return cudaPeekAtLastError();
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return cudaSuccess;
}
}
